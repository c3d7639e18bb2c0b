/**
 * What the service answered about some records of one team and stream → the warehouse, in one transaction with the
 * rows of intake_ops.refetches that it settles (law 3).
 *
 * Invariant: an answer decides (law 2). One that loses to what is held is asked for again after a while, because an
 * event may have overtaken it; what still stands above it then, and ahead of the service's clock, was dated by a clock
 * that was ahead, and is overruled. A record that is gone gets a tombstone only where it was in doubt, seen or not:
 * of any other a scan proves that it is gone (law 6).
 */
import { above, type Envelope } from '../../core/envelope.ts'
import type { Instant } from '../../core/time.ts'
import { storeDeadLetters } from '../../load/dead-letters.ts'
import { recordFindings } from '../../load/findings.ts'
import { isRefusalOfData } from '../../load/load.ts'
import { type StoredVersion, storedVersions } from '../../load/merge/stored-versions.ts'
import { prepareStaging, writeBatch } from '../../load/merge/write-batch.ts'
import type { DeadLetter } from '../../normalize/dead-letter.ts'
import { countFinding, type Findings, linesOf, noFindings } from '../../normalize/lines.ts'
import { tombstone } from '../../normalize/read-record.ts'
import type { Stream } from '../../streams/stream.ts'
import type { Session } from '../../warehouse/connect.ts'
import { sqlstateOf } from '../../warehouse/sqlstate.ts'
import { type DueRow, lockRows, originOf, pauseBefore, putOff, settleRows } from './due-rows.ts'
import type { Fetched } from './fetch-by-id.ts'

export interface Answered {
  readonly row: DueRow
  readonly told: Fetched
}

/** Of a record that is told of in part and is not there: it may not be readable yet. */
const MOST_GONE = 4
/** Answers that lost before the next one overrules a state that is dated ahead. */
const LOST_BEFORE = 2

/** `present` is an instant of the service's clock that has come. */
export async function settleAnswers(
  session: Session,
  stream: Stream,
  answers: readonly Answered[],
  present: Instant,
): Promise<void> {
  const place = { teamId: answers[0]!.row.teamId, stream: stream.name }
  const ids = answers.map(({ row }) => row.id)
  const held = await storedVersions(session.db, place, ids)
  try {
    await settleInOneTransaction(session, stream, answers, held, present)
  } catch (error) {
    await session.client.query('rollback').catch(() => {})
    const state = sqlstateOf(error)
    if (!isRefusalOfData(state)) throw error
    if (answers.length > 1) {
      const middle = answers.length >> 1
      await settleAnswers(session, stream, answers.slice(0, middle), present)
      await settleAnswers(session, stream, answers.slice(middle), present)
      return
    }
    const { row, told } = answers[0]!
    const body = told.kind === 'record' ? told.envelope.content!.text : 'null'
    const reason = `the warehouse refused the record (SQLSTATE ${state})`
    const letter = { recordId: row.id, origin: originOf(row), reason, body }
    await settleInOneTransaction(
      session,
      stream,
      [{ row, told: { kind: 'dead', deadLetter: letter } }],
      held,
      present,
    )
  }
}

async function settleInOneTransaction(
  session: Session,
  stream: Stream,
  answers: readonly Answered[],
  held: ReadonlyMap<string, StoredVersion>,
  present: Instant,
): Promise<void> {
  const { client, db } = session
  const sorted = sortAnswers(stream, answers, held, present)
  await prepareStaging(session, stream)
  await client.query('begin')
  const place = { teamId: answers[0]!.row.teamId, stream: stream.name, runId: null }
  const lines = linesOf(stream, sorted.states)
  const askedAt = answers[0]!.row.takenAt
  const from = { kind: 'answers', askedAt } as const
  const { conflicts } = await writeBatch(session, { stream, lines, from })
  const lost = new Set(conflicts.map(({ id }) => id))
  await storeDeadLetters(db, place, sorted.letters)
  await recordFindings(db, stream.name, findingsOf(place.teamId, sorted.missing))
  await lockRows(
    db,
    answers.map(({ row }) => row),
  )
  await settleRows(
    db,
    sorted.settled.filter((row) => !lost.has(row.id)),
  )
  await putOff(db, [...sorted.again, ...sorted.settled.filter((row) => lost.has(row.id))], pauseBefore)
  await putOff(db, sorted.failed, pauseBefore, 'failure')
  await client.query('commit')
}

function sortAnswers(
  stream: Stream,
  answers: readonly Answered[],
  held: ReadonlyMap<string, StoredVersion>,
  present: Instant,
) {
  const states: Envelope[] = []
  const letters: DeadLetter[] = []
  const settled: DueRow[] = []
  const again: DueRow[] = []
  const failed: DueRow[] = []
  let missing = 0
  for (const { row, told } of answers) {
    const now = held.get(row.id)
    const isOverruled = row.attempts >= LOST_BEFORE && now !== undefined && now.version > present
    const state = (envelope: Envelope) => states.push(isOverruled ? above(envelope, now) : envelope)
    if (told.kind === 'later') failed.push(row)
    else if (told.kind === 'gone' && row.reason !== 'contested' && row.attempts + 1 < MOST_GONE)
      again.push(row)
    else {
      settled.push(row)
      if (told.kind === 'record') state(told.envelope)
      else if (told.kind === 'dead') letters.push(told.deadLetter)
      else if (row.reason === 'contested' && now?.deleted !== true)
        state(
          tombstone(row.id, {
            ...row,
            stream: stream.name,
            origin: originOf(row),
            observedAt: told.observedAt,
          }),
        )
      else if (now === undefined) missing += 1
    }
  }
  return { states, letters, settled, again, failed, missing }
}

/** Records that events told of and that are not there: they leave no row, so they are counted. */
function findingsOf(teamId: number, missing: number): Findings {
  const findings = noFindings()
  for (let times = 0; times < missing; times++)
    countFinding(findings.problemsAt, teamId, 'id', 'of an event; the service has no such record')
  return findings
}
