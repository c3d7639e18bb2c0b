/**
 * Claiming and settling the slices of planned runs (intake_ops.slices).
 *
 * Invariant: a slice has one worker at a time, and the epoch of its checkpoint. Both epochs are raised when the slice is
 * claimed and when it is taken away, so that a worker that was paused can neither load a batch nor settle.
 */
import { hostname } from 'node:os'
import { type Expression, type Kysely, type RawBuilder, sql } from 'kysely'
import type { StreamName } from '../core/envelope.ts'
import { openSession } from '../warehouse/connect.ts'
import { lockAlone, lockForSession } from '../warehouse/locks.ts'
import type { Warehouse } from '../warehouse/tables.ts'
import { assertOwned, CHANNEL, lostSlice, SPEC_VERSION, type TakenSlice, untakenSlice } from './slice.ts'

/** Slices of a team that are claimed at once, by all workers together. */
export const CLAIMED_PER_TEAM = 4
/** The session of a worker waits less for a lock than the worker may be silent, … */
const LOCK_TIMEOUT_MS = 3_000
/** … and is ended when the worker stops in the middle of a claim, for which the others wait. */
const IDLE_MS = 8_000

/** The session on which a worker claims and settles, with the lock that is its sign of life. `worker` has eight digits. */
export async function openWorkSession(
  url: string,
  worker: string,
  // One that is of a run claims nothing else, and does not count as a worker.
  { idleMs = IDLE_MS, isOfRun = false }: { readonly idleMs?: number; readonly isOfRun?: boolean } = {},
) {
  const owner = `${hostname()}:${process.pid}:${worker}`
  const planner = [`idle_in_transaction_session_timeout=${idleMs}`]
  const lockTimeoutMs = LOCK_TIMEOUT_MS
  const purpose = isOfRun ? 'backfill' : 'work'
  const session = await openSession({ url, purpose, lockTimeoutMs, worker, planner })
  try {
    await lockForSession(session.db, 'worker', owner)
    await session.client.query(`listen ${CHANNEL}`)
    return { session, owner }
  } catch (error) {
    await session.close()
    throw error
  }
}

/** Workers that execute slices of any run, whether they have one or not. */
export const LIVE_WORKERS = sql<number>`(
  select count(*)::int from pg_stat_activity
  where datname = current_database() and application_name like 'intake-sync work worker %'
)`

/** True if unfinished slices remain, and the run is detached or any worker runs, even one that does not know its teams. */
export function isExecuted(runId: Expression<unknown>): RawBuilder<boolean> {
  return sql`exists (
    select from intake_ops.slices slice join intake_ops.runs planned using (run_id)
    where slice.run_id = ${runId} and slice.state in ('pending', 'claimed')
      and (planned.options -> 'is_detached' is not null or ${LIVE_WORKERS} > 0)
  )`
}

export async function goesOn(db: Kysely<Warehouse>, runId: string): Promise<boolean> {
  return (await sql`select where ${isExecuted(sql`${runId}::bigint`)}`.execute(db)).rows.length > 0
}

/** Whether the run is not closed. */
export async function hasSlices(db: Kysely<Warehouse>, runId: string): Promise<boolean> {
  const open = sql`select from intake_ops.slices where run_id = ${runId} and state in ('pending', 'claimed') limit 1`
  return (await open.execute(db)).rows.length > 0
}

export async function countWorkers(db: Kysely<Warehouse>): Promise<number> {
  const { rows } = await sql<{ workers: number }>`select ${LIVE_WORKERS} as workers`.execute(db)
  return rows[0]!.workers
}

interface Claim {
  /** The kind of its spec. */
  readonly work: string
  readonly sliceId: string
  readonly runId: string
  readonly owner: string
  readonly epoch: string
  readonly takeovers: number
}

export interface ClaimedStream extends Claim {
  readonly kind: 'stream'
  readonly team: string
  readonly stream: StreamName
  /** Of a slice that reserves its stream; otherwise as of work that settles nothing. */
  readonly taken: TakenSlice
  readonly reserves: boolean
  /** As it was planned, by a version that may be older. */
  readonly spec: object
}

/** Closes the run, whose other slices are settled. */
export interface ClaimedClose extends Claim {
  readonly kind: 'close'
  readonly stream: ''
}

export type ClaimedSlice = ClaimedStream | ClaimedClose

export interface Claiming {
  readonly owner: string
  /** Names of the teams whose slices this worker can execute. */
  readonly teams: readonly string[]
  readonly streams: readonly StreamName[]
  /** Kinds of specs that it knows; default: those of a backfill. */
  readonly kinds?: readonly string[]
  /** Only slices of this run, whatever is claimed of others; default: of every run. */
  readonly runId?: string | null
  /** Of slices that name a source, those that name one of these. */
  readonly sources?: readonly string[]
  readonly most: number
}

const OF_BACKFILLS = ['stream', 'close']

interface ClaimedRow {
  readonly slice_id: string
  readonly run_id: string
  readonly team_id: number | null
  readonly team: string | null
  readonly stream: string
  readonly spec: { readonly kind: string }
  readonly reserves: boolean
  readonly epoch: string
  readonly takeovers: number
  readonly cursor: unknown
  readonly taken_at: string
}

/**
 * Claims up to `most` slices: those that close a run first, then those of the teams that have the fewest claimed, and of
 * these the team that has waited longest since its last claim. A transaction of its own.
 */
export async function claimSlices(
  db: Kysely<Warehouse>,
  { owner, teams, streams, kinds = OF_BACKFILLS, runId = null, sources = [], most }: Claiming,
): Promise<readonly ClaimedSlice[]> {
  // Whoever has nothing to claim delays nobody.
  const pending = await sql`select from intake_ops.slices where state = 'pending' limit 1`.execute(db)
  if (pending.rows.length === 0) return []
  const isOpen = sql`(slice.state = 'pending' and (slice.spec ->> 'version')::int <= ${SPEC_VERSION}
    and slice.spec ->> 'kind' = any (${kinds}::text[])
    and (${runId}::bigint is null or slice.run_id = ${runId}::bigint)
    and (slice.spec ->> 'source' is null or slice.spec ->> 'source' = any (${sources}::text[])))`
  const canClaim = sql`${isOpen} and slice.stream = any (${streams}::text[])`
  const { rows } = await db.transaction().execute(async (transaction) => {
    await lockAlone(transaction, 'claims', 'claims')
    return await sql<ClaimedRow>`
      with next as (
        select slice.slice_id, 0 as place, null as claimed_before from intake_ops.slices slice
        where slice.team_id is null and ${isOpen} and not exists (
          select from intake_ops.slices other
          where other.run_id = slice.run_id and other.team_id is not null and other.state in ('pending', 'claimed'))
        union all
        select own.slice_id, turn.claimed + own.place, turn.claimed_before
        from (
          select team.team_id, coalesce(busy.claimed, 0) as claimed, (
            select max(past.claimed_at) from intake_ops.slices past where past.team_id = team.team_id) as claimed_before
          from intake.teams team left join (
            select team_id, count(*) as claimed from intake_ops.slices
            where state = 'claimed' and (${runId}::bigint is null or run_id = ${runId}::bigint) group by team_id
          ) as busy using (team_id)
          where team.name = any (${teams}::text[]) and coalesce(busy.claimed, 0) < ${CLAIMED_PER_TEAM}
            and exists (select from intake_ops.slices slice where slice.team_id = team.team_id and ${canClaim})
          order by claimed, claimed_before nulls first, team.team_id limit ${most}
        ) as turn
        cross join lateral (
          select slice_id, row_number() over (order by slice_id) as place
          from intake_ops.slices slice where slice.team_id = turn.team_id and ${canClaim}
          order by slice_id limit ${CLAIMED_PER_TEAM}
        ) as own
        where turn.claimed + own.place <= ${CLAIMED_PER_TEAM}
      ), chosen as (
        select slice.* from intake_ops.slices slice
        where slice.slice_id in (
          select slice_id from next order by place, claimed_before nulls first, slice_id limit ${most})
          and slice.state = 'pending'
        for update skip locked
      ), taken as (
        insert into intake_ops.checkpoints as stored (team_id, stream, slice, epoch, run_id)
        select team_id, stream, '', 1, run_id from chosen where team_id is not null and reserves order by team_id, stream
        on conflict (team_id, stream, slice) do update
          set epoch = stored.epoch + 1, run_id = excluded.run_id, updated_at = now()
        returning team_id, stream, epoch, cursor
      )
      update intake_ops.slices slice
      set state = 'claimed', owner = ${owner}, heartbeat_at = now(), claimed_at = now(),
        epoch = coalesce(taken.epoch, slice.epoch + 1)
      from chosen left join intake.teams team using (team_id)
      left join taken on chosen.reserves and (taken.team_id, taken.stream) = (chosen.team_id, chosen.stream)
      where slice.slice_id = chosen.slice_id
      returning slice.slice_id, slice.run_id, slice.team_id, team.name as team, slice.stream, slice.spec, slice.reserves,
        slice.epoch, slice.takeovers, taken.cursor, now()::text as taken_at`.execute(transaction)
  })
  return rows.map((row) => claimedOf(row, owner))
}

function claimedOf(row: ClaimedRow, owner: string): ClaimedSlice {
  const { slice_id: sliceId, run_id: runId, team_id: teamId, team, epoch, takeovers, spec, reserves } = row
  const claim = { work: spec.kind, sliceId, runId, owner, epoch, takeovers }
  if (teamId === null) return { kind: 'close', stream: '', ...claim }
  const stream = row.stream as StreamName
  const key = { teamId, stream, slice: '' }
  const taken = reserves
    ? { ...key, epoch, runId, cursor: row.cursor, takenAt: row.taken_at }
    : untakenSlice(key, runId)
  return { kind: 'stream', ...claim, team: team!, stream, spec, reserves, taken }
}

/** Says that the worker executes these slices; returns those that it still has. */
export async function beat(
  db: Kysely<Warehouse>,
  owner: string,
  inHand: readonly string[],
): Promise<ReadonlySet<string>> {
  const { rows } = await sql<{ slice_id: string }>`
    update intake_ops.slices set heartbeat_at = now() where owner = ${owner} and state = 'claimed'
      and slice_id = any (${inHand}::bigint[])
    returning slice_id`.execute(db)
  return new Set(rows.map(({ slice_id }) => slice_id))
}

/** Throws unless the worker still has the slice; blocks its takeover until the transaction ends. */
export async function assertClaimed(db: Kysely<Warehouse>, claimed: ClaimedSlice): Promise<void> {
  const { rows } = await sql`select from intake_ops.slices where ${isOurs(claimed)} for update`.execute(db)
  if (rows.length === 0) throw lostSlice(claimed)
  if (claimed.kind === 'stream' && claimed.reserves) await assertOwned(db, claimed.taken)
}

/** Settles a slice within the current transaction; throws if the worker has lost it. */
export async function settleClaimed(
  db: Kysely<Warehouse>,
  claimed: ClaimedSlice,
  state: 'done' | 'canceled',
  report: object | null,
): Promise<void> {
  await assertClaimed(db, claimed)
  await sql`
    update intake_ops.slices set state = ${state}, settled_at = now(), result = ${report === null ? null : JSON.stringify(report)}::jsonb
    where ${isOurs(claimed)}`.execute(db)
}

/** Whether the row is that of a slice which the worker still has. */
export function isOurs({ sliceId, epoch, owner }: ClaimedSlice): RawBuilder<boolean> {
  return sql`slice_id = ${sliceId} and epoch = ${epoch} and owner = ${owner} and state = 'claimed'`
}
