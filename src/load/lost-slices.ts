/**
 * Takes slices away from their workers, so that others continue.
 *
 * Invariant: the epochs of the slice and of its checkpoint are raised, so that the worker that had it can neither load a
 * batch nor settle.
 */
import { type Kysely, type RawBuilder, sql } from 'kysely'
import { isLocked } from '../warehouse/locks.ts'
import type { Warehouse } from '../warehouse/tables.ts'
import { type ClaimedSlice, isOurs } from './claims.ts'
import { wakeWorkers } from './slice.ts'

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
