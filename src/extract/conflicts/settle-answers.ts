/**
 * Stores the service's answers about records of one team and stream, in one transaction with the rows of
 * intake_ops.refetches that they settle (law 3).
 *
 * Invariant: an answer decides (law 2). A record whose answer loses to the stored state is fetched again after a while,
 * because an event may have overtaken the answer. A stored state that still wins then, and is ahead of the service's
 * clock, was dated by a wrong clock and is overruled. A record that is gone gets a tombstone only if it was in conflict;
 * for any other record a scan proves the delete (law 6). A record that Postgres refuses, or that our own code fails on,
 * becomes a dead letter and stops no other.
 */
import { type Envelope, withVersionAbove } from '../../core/envelope.ts'
import type { Instant } from '../../core/time.ts'
import { recordFindings, storeDeadLetters } from '../../load/dead-letters.ts'
import { whyNotLoaded } from '../../load/merge/load.ts'
import { type StoredVersion, storedVersions } from '../../load/merge/skip-unchanged.ts'
import { prepareStaging, writeBatch } from '../../load/merge/write-batch.ts'
import { countFinding, type Findings, linesOf, noFindings } from '../../normalize/lines.ts'
import { type DeadLetter, tombstone } from '../../normalize/read-record.ts'
import type { Stream } from '../../streams/stream.ts'
import type { Session } from '../../warehouse/connect.ts'
import type { ReportDefect } from '../../warehouse/defects.ts'
import { type DueRow, lockRows, originOf, pauseBefore, postpone, settleRows } from './due-rows.ts'
import type { FetchResult } from './fetch-by-id.ts'

export interface AnsweredRow {
  readonly row: DueRow
  readonly answer: FetchResult
}

/** Fetches of a partial record that is not found: it may not be readable yet. */
const MAX_GONE = 4
/** Answers that lost before the next one overrules a state that is dated ahead. */
const LOSSES_BEFORE_OVERRULE = 2

/** `present`: a lower bound of the present on the service's clock. */
export async function settleAnswers(
  session: Session,
  stream: Stream,
  answers: readonly AnsweredRow[],
  present: Instant,
  reportDefect: ReportDefect,
): Promise<void> {
  const place = { teamId: answers[0]!.row.teamId, stream: stream.name }
  const ids = answers.map(({ row }) => row.id)
  const stored = await storedVersions(session.db, place, ids)
  try {
    await settleInOneTransaction(session, stream, answers, stored, present)
  } catch (error) {
    await session.client.query('rollback').catch(() => {})
    const reason = whyNotLoaded(error, 'record')
    if (reason === null) throw error
    await reportDefect(session, error, {
      teamIds: [place.teamId],
      consequence: 'fetched records are stored one by one',
    })
    if (answers.length > 1) {
      const middle = answers.length >> 1
      await settleAnswers(session, stream, answers.slice(0, middle), present, reportDefect)
      await settleAnswers(session, stream, answers.slice(middle), present, reportDefect)
      return
    }
    const { row, answer } = answers[0]!
    const body = answer.kind === 'record' ? answer.envelope.content!.text : 'null'
    const deadLetter = { recordId: row.id, origin: originOf(row), reason, body }
    await settleInOneTransaction(
      session,
      stream,
      [{ row, answer: { kind: 'dead', deadLetter } }],
      stored,
      present,
    )
  }
}

async function settleInOneTransaction(
  session: Session,
  stream: Stream,
  answers: readonly AnsweredRow[],
  stored: ReadonlyMap<string, StoredVersion>,
  present: Instant,
): Promise<void> {
  const { client, db } = session
  const sorted = sortAnswers(stream, answers, stored, present)
  await prepareStaging(session, stream)
  await client.query('begin')
  const place = { teamId: answers[0]!.row.teamId, stream: stream.name, runId: null }
  const lines = linesOf(stream, sorted.states)
  const requestedAt = answers[0]!.row.takenAt
  const from = { kind: 'answers', requestedAt } as const
  const { conflicts } = await writeBatch(session, { stream, lines, from })
  const lost = new Set(conflicts.map(({ id }) => id))
  await storeDeadLetters(db, place, sorted.deadLetters)
  await recordFindings(db, stream.name, findingsOf(place.teamId, sorted.missing))
  await lockRows(
    db,
    answers.map(({ row }) => row),
  )
  await settleRows(
    db,
    sorted.settled.filter((row) => !lost.has(row.id)),
  )
  await postpone(db, [...sorted.again, ...sorted.settled.filter((row) => lost.has(row.id))], pauseBefore)
  await postpone(db, sorted.failed, pauseBefore, 'failure')
  await client.query('commit')
}

function sortAnswers(
  stream: Stream,
  answers: readonly AnsweredRow[],
  stored: ReadonlyMap<string, StoredVersion>,
  present: Instant,
) {
  const states: Envelope[] = []
  const deadLetters: DeadLetter[] = []
  const settled: DueRow[] = []
  const again: DueRow[] = []
  const failed: DueRow[] = []
  let missing = 0
  for (const { row, answer } of answers) {
    const current = stored.get(row.id)
    const isOverruled =
      row.attempts >= LOSSES_BEFORE_OVERRULE && current !== undefined && current.version > present
    const state = (envelope: Envelope) =>
      states.push(isOverruled ? withVersionAbove(envelope, current) : envelope)
    if (answer.kind === 'later') failed.push(row)
    else if (answer.kind === 'gone' && row.reason !== 'contested' && row.attempts + 1 < MAX_GONE)
      again.push(row)
    else {
      settled.push(row)
      if (answer.kind === 'record') state(answer.envelope)
      else if (answer.kind === 'dead') deadLetters.push(answer.deadLetter)
      else if (row.reason === 'contested' && current?.deleted !== true)
        state(
          tombstone(row.id, {
            ...row,
            stream: stream.name,
            origin: originOf(row),
            observedAt: answer.observedAt,
          }),
        )
      else if (current === undefined) missing += 1
    }
  }
  return { states, deadLetters, settled, again, failed, missing }
}

/** Counts the records of events that the service does not find: they leave no row. */
function findingsOf(teamId: number, missing: number): Findings {
  const findings = noFindings()
  for (let times = 0; times < missing; times++)
    countFinding(findings.problemsAt, teamId, 'id', 'of an event; the service has no such record')
  return findings
}
