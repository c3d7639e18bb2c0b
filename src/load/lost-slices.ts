/**
 * Takes slices away from their workers, so that others continue; and ends runs whose process ended.
 *
 * Invariant: the epochs of the slice and of its checkpoint are raised, so that the worker that had it can neither load a
 * batch nor settle. A run whose process lives, or that was planned for workers, is never ended for another.
 */
import { type Kysely, type RawBuilder, sql } from 'kysely'
import { systemClock } from '../core/clock.ts'
import type { StreamName } from '../core/envelope.ts'
import type { Session } from '../warehouse/connect.ts'
import { isLocked } from '../warehouse/locks.ts'
import type { Warehouse } from '../warehouse/tables.ts'
import { type ClaimedSlice, goesOn, hasSlices, isOurs } from './claims.ts'
import { settlePending, wakeWorkers } from './slice.ts'

/** A worker that did not say for so long that it executes its slices has lost them, although it holds its lock. */
const SILENT_SECONDS = 14

/** Gives a slice of the worker back, so that others continue at once. One that failed counts as a takeover. */
export async function release(
  db: Kysely<Warehouse>,
  claimed: ClaimedSlice,
  takeovers: 0 | 1 = 0,
): Promise<void> {
  await takeAway(db, isOurs(claimed), takeovers)
}

/**
 * Takes the slices of workers that ended, or have not answered for long, whose sessions are ended: that frees the rows that
 * they locked. `judgeSilence` is false for a caller that Postgres itself has kept waiting: then all workers are silent.
 */
export async function releaseLost(db: Kysely<Warehouse>, judgeSilence = true): Promise<number> {
  const isSilent = sql<boolean>`(
    ${judgeSilence} and state = 'claimed' and heartbeat_at < now() - ${SILENT_SECONDS} * interval '1 second')`
  if (judgeSilence)
    await sql`
    select pg_terminate_backend(pid) from pg_stat_activity
    where datname = current_database() and usename = session_user and application_name like 'intake-sync % worker ________'
      and right(application_name, 8) in (select right(owner, 8) from intake_ops.slices where ${isSilent})`.execute(
      db,
    )
  return await takeAway(
    db,
    sql<boolean>`state = 'claimed' and (${isSilent} or owner in (
      select worker.owner from (select distinct owner from intake_ops.slices where state = 'claimed') as worker
      where not ${isLocked('worker', sql<string>`worker.owner`)}
    ))`,
    1,
  )
}

/** A checkpoint whose row a transaction has locked is left for the next time. */
async function takeAway(
  db: Kysely<Warehouse>,
  which: RawBuilder<boolean>,
  takeovers: 0 | 1,
): Promise<number> {
  const { rows } = await sql`
    with lost as (
      select slice_id, team_id, stream, team_id is not null and reserves as reserves
      from intake_ops.slices where ${which} order by slice_id for update skip locked
    ), free as (
      select stored.team_id, stored.stream from intake_ops.checkpoints stored join lost using (team_id, stream)
      where stored.slice = '' and lost.reserves order by stored.team_id, stored.stream for update of stored skip locked
    ), raised as (
      update intake_ops.checkpoints stored set epoch = stored.epoch + 1 from free
      where (stored.team_id, stored.stream, stored.slice) = (free.team_id, free.stream, '')
      returning stored.team_id, stored.stream, stored.epoch
    )
    update intake_ops.slices slice
    set state = 'pending', owner = null, heartbeat_at = null, pending_since = now(), takeovers = slice.takeovers + ${takeovers},
      epoch = coalesce(raised.epoch, slice.epoch + 1)
    from lost left join raised
      on lost.reserves and (raised.team_id, raised.stream) = (lost.team_id, lost.stream)
    where slice.slice_id = lost.slice_id and (not lost.reserves or raised.team_id is not null)
    returning slice.slice_id`.execute(db)
  if (rows.length > 0) await wakeWorkers(db)
  return rows.length
}

/**
 * Cancels the streams of a run that are `which`, also those that workers execute, which store nothing more of them. False if
 * a worker is just committing a batch of one.
 */
export async function cancelSlices(
  db: Kysely<Warehouse>,
  runId: string,
  which: RawBuilder<boolean>,
  note: string,
): Promise<boolean> {
  const chosen = sql<boolean>`(run_id = ${runId} and team_id is not null and ${which})`
  return await db.transaction().execute(async (transaction) => {
    await takeAway(transaction, sql`${chosen} and state = 'claimed'`, 0)
    await settlePending(transaction, { runId, which }, 'canceled', { status: 'interrupted', note })
    const open = sql`select from intake_ops.slices where ${chosen} and state in ('pending', 'claimed') limit 1`
    return (await open.execute(transaction)).rows.length === 0
  })
}

/** A batch is committed in less. */
const END_MS = 10_000
const POLL_MS = 100

/** A stream that the slice of a run reserves. */
export interface ReservedStream {
  readonly runId: string
  readonly teamId: number
  readonly stream: StreamName
}

/**
 * Frees a stream for another run, if the process of its run ended: at once where no worker executes the slice; otherwise only
 * for a run that `replaces` it, because it reads the same. False if the stream is not free.
 */
export async function freeAbandoned(
  session: Session,
  { runId, teamId, stream }: ReservedStream,
  replaces: boolean,
): Promise<boolean> {
  const { db } = session
  await releaseLost(db, false)
  if (!(await isAbandoned(db, { runId, teamId, stream }, replaces))) return false
  // No worker continues it.
  if (!(await goesOn(db, runId))) return await closeAbandoned(db, runId)
  const which = sql<boolean>`(team_id = ${teamId} and stream = ${stream})`
  for (const until = systemClock.now() + END_MS * 1_000; systemClock.now() < until; ) {
    if (await cancelSlices(db, runId, which, 'another run reads it')) return true
    await systemClock.sleep(POLL_MS)
  }
  return false
}

/** Whether `freeAbandoned` may free the stream. */
export async function isAbandoned(
  db: Kysely<Warehouse>,
  { runId, teamId, stream }: ReservedStream,
  replaces: boolean,
): Promise<boolean> {
  const { rows } = await sql`
    select from intake_ops.runs where run_id = ${runId} and options -> 'is_detached' is null
      and not ${isLocked('run', sql<string>`run_id::text`)} and (${replaces} or not exists (
        select from intake_ops.slices slice
        where slice.run_id = runs.run_id and slice.team_id = ${teamId} and slice.stream = ${stream}
          and slice.state = 'claimed' and ${isLocked('worker', sql<string>`slice.owner`)}))`.execute(db)
  return rows.length > 0
}

/** Nobody knows when the process ended, so the run has no time of its end. */
const KILLED = { status: 'interrupted', error: 'the process ended before the run was complete' }

/** Ends a run that no process executes. False while workers execute streams of it. */
export async function closeAbandoned(
  db: Kysely<Warehouse>,
  runId: string,
  end: { readonly status: string; readonly error: string } = KILLED,
): Promise<boolean> {
  await releaseLost(db, false)
  return await db.transaction().execute(async (transaction) => {
    await sql`select from intake_ops.runs where run_id = ${runId} for update`.execute(transaction)
    await sql`
      update intake_ops.slices set state = 'canceled', settled_at = now() where slice_id in (
        select slice_id from intake_ops.slices where run_id = ${runId} and state = 'pending'
        order by slice_id for update skip locked)`.execute(transaction)
    const { rows } = await sql`
      select from intake_ops.slices
      where run_id = ${runId} and team_id is not null and state in ('pending', 'claimed') limit 1`.execute(
      transaction,
    )
    if (rows.length > 0) return false
    // A worker that closes the run stores how it ended.
    if (await hasSlices(transaction, runId)) return true
    await sql`
      update intake_ops.runs
      set status = ${end.status}, error = ${end.error}, finished_at = case when ${end !== KILLED} then now() end
      where run_id = ${runId} and status = 'running'`.execute(transaction)
    return true
  })
}

/** Whether another worker has claimed the slice since, or it was taken away. */
export async function isLost(
  db: Kysely<Warehouse>,
  { sliceId, epoch }: Pick<ClaimedSlice, 'sliceId' | 'epoch'>,
) {
  const lost = sql`select epoch from intake_ops.slices where slice_id = ${sliceId} and epoch > ${epoch}`
  return (await lost.execute(db)).rows.length > 0
}
