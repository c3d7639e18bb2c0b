/** Loading in tests: the steps between an envelope and `loadBatch`, with a slice claimed for it. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Envelope } from '../../src/core/envelope.ts'
import { type LoadMode, type LoadResult, loadBatch } from '../../src/load/merge/load.ts'
import { type TakenSlice, takeSlice } from '../../src/load/slice.ts'
import { linesOf } from '../../src/normalize/lines.ts'
import type { DeadLetter } from '../../src/normalize/read-record.ts'
import type { Stream } from '../../src/streams/stream.ts'
import type { Session } from '../../src/warehouse/connect.ts'

export function takeWhole(
  session: Session,
  stream: Stream,
  teamId: number,
  runId = '1',
): Promise<TakenSlice> {
  return takeSlice(session.db, { teamId, stream: stream.name, slice: '' }, runId)
}

export interface Loading {
  readonly mode: LoadMode
  readonly taken: TakenSlice
  readonly deadLetters?: readonly DeadLetter[]
}

/** Loads envelopes with distinct keys as one batch. */
export function loadEnvelopes(
  session: Session,
  stream: Stream,
  envelopes: readonly Envelope[],
  { mode, taken, deadLetters = [] }: Loading,
): Promise<LoadResult> {
  return loadBatch(session, { stream, taken, lines: linesOf(stream, envelopes), deadLetters }, mode)
}

/** Rows of a query, as returned by pg. */
export async function rowsOf<Row extends object = Record<string, unknown>>(
  session: Session,
  statement: string,
  values: readonly unknown[] = [],
): Promise<readonly Row[]> {
  return (await session.client.query<Row>(statement, [...values])).rows
}

/** Resolves when the session with that purpose waits for a lock. */
export async function waitsForLock(session: Session, purpose: string): Promise<void> {
  for (let tries = 0; tries < 6_000; tries++) {
    // Within a transaction Postgres shows its first snapshot of activity, unless asked to refresh it.
    await session.client.query('select pg_stat_clear_snapshot()')
    const waiting = await rowsOf(
      session,
      `select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock' and application_name = $1`,
      [`intake-sync ${purpose}`],
    )
    if (waiting.length > 0) return
    await sleep(10)
  }
  throw new Error(`${purpose} never waited for a lock`)
}
