/**
 * One batch → the warehouse, in one transaction: raw, root, children, dead letters, findings and the check that the
 * slice is still ours (laws 2, 3 and 4).
 *
 * Invariant: loading a batch again, or any part of it in any order beside any other, ends in the same tables. A
 * record that Postgres refuses becomes a dead letter and the rest of its batch is loaded.
 */
import { sql } from 'kysely'
import type { DeadLetter } from '../normalize/dead-letter.ts'
import type { BatchLines } from '../normalize/lines.ts'
import { onlyRecord, splitLines, withoutRecords } from '../normalize/split-lines.ts'
import type { Stream } from '../streams/stream.ts'
import type { Session } from '../warehouse/connect.ts'
import { SQLSTATE, sqlstateOf } from '../warehouse/sqlstate.ts'
import { storeDeadLetters } from './dead-letters.ts'
import { type From, prepareStaging, writeBatch } from './merge/write-batch.ts'
import { assertOurs, type TakenSlice } from './slice.ts'

export interface LoadResult {
  /** Records written, new or changed. */
  readonly changed: number
  /** Tombstones written. */
  readonly deleted: number
  /** Records of erased patients: nothing of them is written. */
  readonly erased: number
  readonly deadLetters: number
  readonly problems: number
  /** Ids of records whose order cannot be decided here: they have to be fetched by id. */
  readonly conflicts: readonly string[]
}

/** What commits together. The lines are of one team and stream, and hold no key twice. */
export interface Batch {
  readonly stream: Stream
  readonly taken: TakenSlice
  readonly lines: BatchLines
  readonly deadLetters: readonly DeadLetter[]
}

/**
 * - `straight`: the warehouse held nothing of this stream when the run began, so rows go straight to the tables, and
 *   through staging after all if one of them turns out to be there.
 * - `merge`: every record is merged; one with the same content moves its version on.
 */
export type LoadMode = 'straight' | 'merge'

/** Loads a batch in one transaction. Which records need loading at all is `withoutUnchanged`'s to say. */
export async function loadBatch(session: Session, batch: Batch, mode: LoadMode): Promise<LoadResult> {
  return await loadOrBisect(session, batch, batch.lines, batch.deadLetters, mode === 'straight')
}

async function loadOrBisect(
  session: Session,
  batch: Batch,
  lines: BatchLines,
  letters: readonly DeadLetter[],
  straight: boolean,
): Promise<LoadResult> {
  try {
    return await loadInOneTransaction(session, batch, lines, letters, straight)
  } catch (error) {
    const state = sqlstateOf(error)
    if (straight && state === SQLSTATE.uniqueViolation) {
      return loadOrBisect(session, batch, lines, letters, false)
    }
    if (!isRefusalOfData(state) || lines.count === 0) throw error
    if (lines.count === 1) {
      return loadOrBisect(
        session,
        batch,
        withoutRecords(lines),
        [...letters, refusedLetter(lines, state)],
        false,
      )
    }
    const [head, tail] = splitLines(lines)
    const first = await loadOrBisect(session, batch, head, letters, straight)
    const second = await loadOrBisect(session, batch, tail, [], straight)
    return {
      changed: first.changed + second.changed,
      deleted: first.deleted + second.deleted,
      erased: first.erased + second.erased,
      deadLetters: first.deadLetters + second.deadLetters,
      problems: first.problems + second.problems,
      conflicts: [...first.conflicts, ...second.conflicts],
    }
  }
}

async function loadInOneTransaction(
  session: Session,
  batch: Batch,
  lines: BatchLines,
  letters: readonly DeadLetter[],
  straight: boolean,
): Promise<LoadResult> {
  const { client, db } = session
  const { stream, taken } = batch
  if (!straight) await prepareStaging(session, stream)
  await client.query('begin')
  try {
    const from: From = straight ? { kind: 'empty' } : { kind: 'pages', askedAt: taken.takenAt }
    const { conflicts, ...written } = await writeBatch(session, { stream, lines, from })
    const deadLetters = await storeDeadLetters(db, taken, letters)
    await assertOurs(db, taken)
    await client.query('commit')
    return { ...written, deadLetters, conflicts: conflicts.map(({ id }) => id) }
  } catch (error) {
    await client.query('rollback').catch(() => {})
    throw error
  }
}

/** Data exceptions, violated constraints and exceeded limits: the fault of some record, not of the connection. */
export function isRefusalOfData(state: string | undefined): boolean {
  return state !== undefined && /^(?:22|23|54)/.test(state)
}

function refusedLetter(lines: BatchLines, state: string | undefined): DeadLetter {
  const { id, origin, body } = onlyRecord(lines)
  return {
    recordId: id,
    origin,
    reason: `the warehouse refused the record (SQLSTATE ${state ?? 'unknown'})`,
    body,
  }
}

/** True when the warehouse holds nothing of this stream of this team. */
export async function isUntouched(session: Session, teamId: number, stream: Stream): Promise<boolean> {
  const { rows } = await sql<{ touched: boolean }>`
    select exists (select from intake_raw.records where team_id = ${teamId} and stream = ${stream.name}) as touched`.execute(
    session.db,
  )
  return rows[0]?.touched === false
}
