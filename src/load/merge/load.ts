/**
 * One batch → the warehouse, in one transaction: raw, root, children, dead letters, findings and the check that the
 * slice is still ours (laws 2, 3 and 4).
 *
 * Invariant: loading a batch again, or parts of it in any order and concurrently with others, gives the same tables. A
 * record that Postgres refuses becomes a dead letter, and the rest of its batch is loaded.
 */
import { sql } from 'kysely'
import type { BatchLines } from '../../normalize/lines.ts'
import type { DeadLetter } from '../../normalize/read-record.ts'
import { onlyRecord, splitLines, withoutRecords } from '../../normalize/split-lines.ts'
import type { Stream } from '../../streams/stream.ts'
import type { Session } from '../../warehouse/connect.ts'
import { SQLSTATE, sqlstateOf, warehouseError } from '../../warehouse/sqlstate.ts'
import { storeDeadLetters } from '../dead-letters.ts'
import { withoutErased } from '../erasures.ts'
import { assertOwned, type TakenSlice } from '../slice.ts'
import { type BatchSource, prepareStaging, writeBatch } from './write-batch.ts'

export interface LoadResult {
  /** Records written, new or changed. */
  readonly changed: number
  /** Tombstones written. */
  readonly deleted: number
  /** Records of erased patients, which are not written. */
  readonly erased: number
  readonly deadLetters: number
  readonly problems: number
  /** Ids of records in conflict, which must be fetched by id. */
  readonly conflicts: readonly string[]
}

/** Records that commit together. The lines belong to one team and stream, with distinct keys. */
export interface Batch {
  readonly stream: Stream
  readonly taken: TakenSlice
  readonly lines: BatchLines
  readonly deadLetters: readonly DeadLetter[]
}

/**
 * - `straight`: the warehouse had no record of this stream when the run began, so rows are copied into the tables; if a
 *   key exists after all, the batch is merged.
 * - `merge`: every record is merged through staging; one with unchanged content advances its version.
 */
export type LoadMode = 'straight' | 'merge'

/** Loads a batch in one transaction, or in several if Postgres refuses a record. The caller skips unchanged records. */
export async function loadBatch(session: Session, batch: Batch, mode: LoadMode): Promise<LoadResult> {
  return await loadOrBisect(session, batch, batch.lines, batch.deadLetters, mode === 'straight')
}

async function loadOrBisect(
  session: Session,
  batch: Batch,
  lines: BatchLines,
  deadLetters: readonly DeadLetter[],
  straight: boolean,
): Promise<LoadResult> {
  try {
    return await loadInOneTransaction(session, batch, lines, deadLetters, straight)
  } catch (error) {
    const state = sqlstateOf(error)
    if (straight && state === SQLSTATE.uniqueViolation) {
      return loadOrBisect(session, batch, lines, deadLetters, false)
    }
    if (!isRefusalOfData(state) || lines.count === 0) throw error
    if (lines.count === 1) {
      return loadOrBisect(
        session,
        batch,
        withoutRecords(lines),
        [...deadLetters, refusedRecord(lines, state)],
        false,
      )
    }
    const [head, tail] = splitLines(lines)
    const first = await loadOrBisect(session, batch, head, deadLetters, straight)
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
  deadLetters: readonly DeadLetter[],
  straight: boolean,
): Promise<LoadResult> {
  const { client, db } = session
  const { stream, taken } = batch
  if (!straight) await prepareStaging(session, stream)
  await client.query('begin')
  try {
    const from: BatchSource = straight ? { kind: 'empty' } : { kind: 'pages', requestedAt: taken.takenAt }
    const { conflicts, ...written } = await writeBatch(session, { stream, lines, from })
    const stored = await storeDeadLetters(db, taken, deadLetters)
    await assertOwned(db, taken)
    await client.query('commit')
    return { ...written, deadLetters: stored, conflicts: conflicts.map(({ id }) => id) }
  } catch (error) {
    await client.query('rollback').catch(() => {})
    throw error
  }
}

/** Data exceptions, violated constraints and exceeded limits: errors of a record, not of the connection. */
export function isRefusalOfData(state: string | undefined): boolean {
  return state !== undefined && /^(?:22|23|54)/.test(state)
}

/**
 * Why a record or event cannot be loaded: Postgres refuses it, or our own code fails on it. Null for a failure that it did
 * not cause.
 */
export function whyNotLoaded(error: unknown, what: 'record' | 'event'): string | null {
  const state = sqlstateOf(error)
  if (isRefusalOfData(state)) return `the warehouse refused the ${what} (SQLSTATE ${state})`
  const { code, message } = warehouseError(error)
  return code === 'internal' ? `the ${what} could not be loaded: ${message}` : null
}

function refusedRecord(lines: BatchLines, state: string | undefined): DeadLetter {
  const { id, origin, body } = onlyRecord(lines)
  return {
    recordId: id,
    origin,
    reason: `the warehouse refused the record (SQLSTATE ${state ?? 'unknown'})`,
    body,
  }
}

/** True if the warehouse has no record of this stream of this team. */
export async function isUntouched(session: Session, teamId: number, stream: Stream): Promise<boolean> {
  const { rows } = await sql<{ touched: boolean }>`
    select exists (select from intake_raw.records where team_id = ${teamId} and stream = ${stream.name}) as touched`.execute(
    session.db,
  )
  return rows[0]?.touched === false
}

/** The result of loading a batch, for a dry run. Invariant: writes nothing. The batch has no unchanged records. */
export async function compareBatch(session: Session, batch: Batch): Promise<LoadResult> {
  const { stream, lines, deadLetters } = batch
  const kept = await withoutErased(session, stream, lines, { quietly: true })
  return { ...resultOf(kept, deadLetters.length), erased: lines.count - kept.count }
}

/** For a warehouse without the current schema, which has no erasures to check. */
export async function countBatch(_session: Session, { lines, deadLetters }: Batch): Promise<LoadResult> {
  return resultOf(lines, deadLetters.length)
}

function resultOf({ count, tombstones, findings }: Batch['lines'], deadLetters: number): LoadResult {
  return {
    changed: count - tombstones,
    deleted: tombstones,
    erased: 0,
    deadLetters,
    problems: findings.problems,
    conflicts: [],
  }
}
