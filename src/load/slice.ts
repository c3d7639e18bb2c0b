/**
 * Taking and settling a slice (law 3).
 *
 * Invariant: taking a slice raises its epoch, and every transaction of the worker checks the epoch under which it took the
 * slice. So a worker that was paused while another took over changes nothing when it resumes.
 */
import { type Kysely, sql } from 'kysely'
import type { StreamName } from '../core/envelope.ts'
import { IntakeError } from '../core/errors.ts'
import type { Warehouse } from '../warehouse/tables.ts'

export interface SliceKey {
  readonly teamId: number
  readonly stream: StreamName
  /** Empty for the whole stream. */
  readonly slice: string
}

export interface TakenSlice extends SliceKey {
  readonly epoch: string
  readonly runId: string
  readonly cursor: unknown
  /** Time of taking, on the clock of the warehouse: all requests of the slice are later. */
  readonly takenAt: string
}

export async function takeSlice(db: Kysely<Warehouse>, key: SliceKey, runId: string): Promise<TakenSlice> {
  const { epoch, cursor, takenAt } = await db
    .insertInto('intake_ops.checkpoints')
    .values({
      team_id: key.teamId,
      stream: key.stream,
      slice: key.slice,
      epoch: 1,
      run_id: runId,
      cursor: null,
    })
    .onConflict((conflict) =>
      conflict.columns(['team_id', 'stream', 'slice']).doUpdateSet({
        epoch: sql<string>`intake_ops.checkpoints.epoch + 1`,
        run_id: runId,
        updated_at: sql<Date>`now()`,
      }),
    )
    .returning(['epoch', 'cursor', sql<string>`now()::text`.as('takenAt')])
    .executeTakeFirstOrThrow()
  return { ...key, epoch, runId, cursor, takenAt }
}

/** For work that reads as a slice does and settles none. */
export function untakenSlice(key: SliceKey, runId: string, cursor: unknown = null): TakenSlice {
  return { ...key, epoch: '0', runId, cursor, takenAt: '-infinity' }
}

/** The slice's cursor, without taking it; null before the first settle. */
export async function cursorOf(db: Kysely<Warehouse>, key: SliceKey): Promise<unknown> {
  const row = await db
    .selectFrom('intake_ops.checkpoints')
    .select('cursor')
    .where('team_id', '=', key.teamId)
    .where('stream', '=', key.stream)
    .where('slice', '=', key.slice)
    .executeTakeFirst()
  return row?.cursor ?? null
}

/** Throws unless the slice is still ours; blocks others from taking it until the transaction ends. */
export async function assertOwned(db: Kysely<Warehouse>, taken: TakenSlice): Promise<void> {
  const row = await ours(db.selectFrom('intake_ops.checkpoints').select('epoch'), taken)
    .forShare()
    .executeTakeFirst()
  if (row === undefined) throw lostSlice(taken)
}

/** Moves the slice's cursor, if the slice is still ours. */
export async function settleSlice(db: Kysely<Warehouse>, taken: TakenSlice, cursor: unknown): Promise<void> {
  const settled = await db
    .updateTable('intake_ops.checkpoints')
    .set({ cursor: JSON.stringify(cursor), updated_at: sql<Date>`now()` })
    .where('team_id', '=', taken.teamId)
    .where('stream', '=', taken.stream)
    .where('slice', '=', taken.slice)
    .where('epoch', '=', taken.epoch)
    .executeTakeFirst()
  if (settled.numUpdatedRows === 0n) throw lostSlice(taken)
}

interface Narrowable {
  where(column: 'team_id' | 'stream' | 'slice' | 'epoch', operator: '=', value: unknown): this
}

function ours<Query extends Narrowable>(query: Query, taken: TakenSlice): Query {
  return query
    .where('team_id', '=', taken.teamId)
    .where('stream', '=', taken.stream)
    .where('slice', '=', taken.slice)
    .where('epoch', '=', taken.epoch)
}

function lostSlice(taken: TakenSlice): IntakeError {
  return new IntakeError(`another worker has taken over ${taken.stream}; this one changed nothing more`, {
    code: 'slice_lost',
    verdict: 'stop',
    hint: 'nothing is wrong with the data; let the other run finish',
  })
}
