/**
 * Slices: taking and settling one (law 3), and the rows of planned runs (intake_ops.slices), which the workers of any process
 * execute (claims.ts).
 *
 *     plan ─► pending ─► claimed ─► done        a worker that ends, or does not answer: claimed ─► pending
 *                 └─────────┴─► canceled
 *
 * Invariant: taking a slice raises its epoch, and every transaction of the worker checks the epoch under which it took the
 * slice. So a worker that was paused while another took over changes nothing when it resumes. An unfinished row reserves
 * its stream as a lock does: no other run of the stream begins (`lockStreams`). A planned run ends once.
 */
import { type Kysely, type RawBuilder, sql } from 'kysely'
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

/** Moves the slice's cursor, if the slice is still ours, and forgets how far its scan had come. */
export async function settleSlice(db: Kysely<Warehouse>, taken: TakenSlice, cursor: unknown): Promise<void> {
  const settled = await db
    .with('ended', (query) =>
      query
        .deleteFrom('intake_ops.scans')
        .where('team_id', '=', taken.teamId)
        .where('stream', '=', taken.stream)
        .where(({ exists, selectFrom }) =>
          exists(ours(selectFrom('intake_ops.checkpoints').select('epoch'), taken)),
        ),
    )
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

export function lostSlice(taken: Pick<TakenSlice, 'stream'>): IntakeError {
  return new IntakeError(`another worker has taken over ${taken.stream}; this one changed nothing more`, {
    code: 'slice_lost',
    verdict: 'stop',
    hint: 'nothing is wrong with the data; let the other run finish',
  })
}

/** Of `spec`. A worker claims no slice of a later version, and one of version 1 takes each for one of a backfill. */
export const SPEC_VERSION = 2
/** Wakes workers: slices are pending, or a worker may claim more. */
export const CHANNEL = 'intake_slices'

export type RunKind = 'backfill' | 'verify' | 'replay'

export interface Planning {
  readonly kind: RunKind
  readonly reserves: boolean
}

export interface PlannedPart {
  readonly teamId: number
  readonly stream: StreamName
  /** Only workers that have the same source execute it; default: all that know the team. */
  readonly source?: string
}

/** A run with a slice for each team and stream, and one that closes it; within the current transaction. */
export async function insertRun(
  db: Kysely<Warehouse>,
  options: object,
  spec: object,
  parts: readonly PlannedPart[],
  { kind, reserves }: Planning = { kind: 'backfill', reserves: true },
): Promise<string> {
  const [each, closing] =
    kind === 'backfill'
      ? [
          { version: 1, kind: 'stream' },
          { version: 1, kind: 'close' },
        ]
      : [
          { version: 2, kind },
          { version: 2, kind },
        ]
  const { run_id: runId } = await db
    .insertInto('intake_ops.runs')
    .values({ kind, options: JSON.stringify(options), error: null })
    .returning('run_id')
    .executeTakeFirstOrThrow()
  await sql`
    insert into intake_ops.slices (run_id, team_id, stream, reserves, spec)
    select ${runId}, part.team_id, part.stream, ${reserves},
      ${JSON.stringify({ ...each, ...spec })}::jsonb || jsonb_strip_nulls(jsonb_build_object('source', part.source))
    from unnest(${parts.map(({ teamId }) => teamId)}::smallint[], ${parts.map(({ stream }) => stream)}::text[],
      ${parts.map(({ source = null }) => source)}::text[]) with ordinality as part (team_id, stream, source, place)
    order by part.place`.execute(db)
  await sql`
    insert into intake_ops.slices (run_id, stream, spec)
    values (${runId}, '', ${JSON.stringify(closing)}::jsonb)`.execute(db)
  await wakeWorkers(db)
  return runId
}

export async function wakeWorkers(db: Kysely<Warehouse>): Promise<void> {
  await sql`select pg_notify(${CHANNEL}, '')`.execute(db)
}

/** A run whose slice reserves the stream; null if none does. */
export async function plannedRunOf(
  db: Kysely<Warehouse>,
  teamId: number,
  stream: StreamName,
): Promise<string | null> {
  const { rows } = await sql<{ run_id: string }>`
    select run_id from intake_ops.slices
    where team_id = ${teamId} and stream = ${stream} and reserves and state in ('pending', 'claimed')`.execute(
    db,
  )
  return rows[0]?.run_id ?? null
}

/** Settles the slices that no worker has, all or those `which` chooses, with the figures that their last workers have stored. */
export async function settlePending(
  db: Kysely<Warehouse>,
  { runId, which = sql<boolean>`true` }: { readonly runId: string; readonly which?: RawBuilder<boolean> },
  state: 'done' | 'canceled',
  { status, note }: { readonly status: 'failed' | 'interrupted'; readonly note: string },
): Promise<void> {
  await sql`
    with pending as (
      select slice_id, ${JSON.stringify(NOTHING)}::jsonb || coalesce((
        select counts || jsonb_build_object('seconds', greatest(0, round(extract(epoch from updated_at - began_at), 3)))
        from intake_ops.run_progress progress
        where (progress.run_id, progress.team_id, progress.stream) = (slices.run_id, slices.team_id, slices.stream)
      ), '{}') || ${JSON.stringify({ status, note })}::jsonb as result
      from intake_ops.slices
      where run_id = ${runId} and state = 'pending' and team_id is not null
        and ${which}
      order by slice_id for update skip locked
    ), settled as (
      update intake_ops.slices slice
      set state = ${state}, settled_at = now(), result = pending.result
      from pending where slice.slice_id = pending.slice_id
      returning slice.team_id, slice.stream, slice.result
    )
    insert into intake_ops.run_streams (run_id, team_id, stream, status, requests, throttled, fetched, changed, unchanged,
      deleted, erased, dead_letters, problems, seconds, note)
    select ${runId}, team_id, stream, ${status}, requests, throttled, fetched, changed, unchanged, deleted, erased,
      "deadLetters", problems, seconds, ${note} from settled, jsonb_to_record(result) as report (requests bigint,
      throttled bigint, fetched bigint, changed bigint, unchanged bigint, deleted bigint, erased bigint,
      "deadLetters" bigint, problems bigint, seconds numeric)
    where (select kind from intake_ops.runs where run_id = ${runId}) = 'backfill'`.execute(db)
}

/** The figures of a stream that was not read. */
export const NOTHING = {
  ...{ requests: 0, throttled: 0, fetched: 0, changed: 0, unchanged: 0, deleted: 0, erased: 0 },
  ...{ deadLetters: 0, problems: 0, seconds: 0 },
}

/** Stores how a run with slices ended, once, with the notes of its streams and what failed besides. */
export async function storeEnd(
  db: Kysely<Warehouse>,
  runId: string,
  status: string,
  failures: readonly string[] = [],
): Promise<void> {
  await sql`
    update intake_ops.runs set status = ${status}, finished_at = now(), error = nullif(concat_ws(E'\n', (
      select string_agg(format('%s/%s: %s', team.name, slice.stream, slice.result ->> 'note'), E'\n' order by slice_id)
      from intake_ops.slices slice join intake.teams team using (team_id)
      where slice.run_id = ${runId} and slice.result ->> 'note' is not null
    ), ${failures.length === 0 ? null : failures.join('\n')}::text), '')
    where run_id = ${runId} and finished_at is null`.execute(db)
}
