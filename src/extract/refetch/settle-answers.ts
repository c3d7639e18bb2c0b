/**
 * What the service answered about some records of one team and stream → the warehouse, in one transaction with the
 * rows of intake_ops.refetches that it settles (law 3).
 *
 * Invariant: an answer decides (law 2). One that loses to what is held is asked for again after a while, because an
 * event may have overtaken it; what still stands above it then, and ahead of the service's clock, was dated by a clock
 * that was ahead, and is overruled. A record that is gone gets a tombstone only where it was in doubt, seen or not:
 * of any other a scan proves that it is gone (law 6).
 */
import { sql } from 'kysely'
import type { Envelope } from '../../core/envelope.ts'
import { type Instant, instantOf, laterOf, microsOf, parseInstant } from '../../core/time.ts'
import { type DeadLetter, setAside } from '../../load/dead-letters.ts'
import { recordFindings } from '../../load/findings.ts'
import { countFinding, type Findings, linesOf, noFindings } from '../../load/lines.ts'
import { isRefusalOfData } from '../../load/load.ts'
import { tombstone } from '../../load/read-record.ts'
import { prepareStaging, writeBatch } from '../../load/write-batch.ts'
import type { Stream } from '../../streams/stream.ts'
import type { Session } from '../../warehouse/connect.ts'
import { sqlstateOf } from '../../warehouse/sqlstate.ts'
import { originOf, refused, type Told } from './ask.ts'
import { type DueRow, lockRows, putOff, settleRows } from './due-rows.ts'

export interface Answered {
  readonly row: DueRow
  readonly told: Told
}

/** Milliseconds before a record that lost, could not be asked for or was not there is asked for again. */
const BACKOFF = { least: 1_000, most: 600_000 } as const
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
  const held = await heldOf(session, stream, answers)
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
    const letter = { ...refused(row, `the warehouse refused the record (SQLSTATE ${state})`), body }
    await settleInOneTransaction(session, stream, [{ row, told: { kind: 'dead', letter } }], held, present)
  }
}

interface Held {
  readonly version: Instant
  readonly deleted: boolean
}

async function settleInOneTransaction(
  session: Session,
  stream: Stream,
  answers: readonly Answered[],
  held: ReadonlyMap<string, Held>,
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
  await setAside(db, place, sorted.letters)
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
  await client.query('commit')
}

function sortAnswers(
  stream: Stream,
  answers: readonly Answered[],
  held: ReadonlyMap<string, Held>,
  present: Instant,
) {
  const states: Envelope[] = []
  const letters: DeadLetter[] = []
  const settled: DueRow[] = []
  const again: DueRow[] = []
  let missing = 0
  for (const { row, told } of answers) {
    const now = held.get(row.id)
    const isOverruled = row.attempts >= LOST_BEFORE && now !== undefined && now.version > present
    const state = (envelope: Envelope) => states.push(isOverruled ? above(envelope, now.version) : envelope)
    if (told.kind === 'failed') again.push(row)
    else if (told.kind === 'gone' && row.reason !== 'contested' && row.attempts + 1 < MOST_GONE)
      again.push(row)
    else {
      settled.push(row)
      if (told.kind === 'record') state(told.envelope)
      else if (told.kind === 'dead') letters.push(told.letter)
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
  return { states, letters, settled, again, missing }
}

/** Records that events told of and that are not there: they leave no row, so they are counted. */
function findingsOf(teamId: number, missing: number): Findings {
  const findings = noFindings()
  for (let times = 0; times < missing; times++)
    countFinding(findings.problemsAt, teamId, 'id', 'of an event; the service has no such record')
  return findings
}

/** The same state with a version above what is held. */
function above(envelope: Envelope, held: Instant): Envelope {
  return { ...envelope, version: laterOf(envelope.version, instantOf(microsOf(held) + 1)) }
}

function pauseBefore({ attempts }: DueRow): number {
  return Math.min(BACKOFF.least * 2 ** Math.min(attempts, 20), BACKOFF.most)
}

async function heldOf(
  session: Session,
  stream: Stream,
  answers: readonly Answered[],
): Promise<ReadonlyMap<string, Held>> {
  const ids = answers.map(({ row }) => row.id)
  const { rows } = await sql<{ id: string; version: string; deleted: boolean }>`
    select id, to_char(version, 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as version, deleted from intake_raw.records
    where team_id = ${answers[0]!.row.teamId} and stream = ${stream.name} and id = any (${ids}::text[])`.execute(
    session.db,
  )
  return new Map(rows.map(({ id, version, deleted }) => [id, { version: parseInstant(version)!, deleted }]))
}
