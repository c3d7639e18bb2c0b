/**
 * Reads the history of runs, newest first: counts, times and notes, no data of records.
 *
 * Invariant: a run that is stored as `running` although its process has ended is returned as `interrupted`.
 */
import { type Kysely, sql } from 'kysely'
import { isExecuted, LIVE_WORKERS } from '../../load/claims.ts'
import { openSession } from '../../warehouse/connect.ts'
import { isLocked } from '../../warehouse/locks.ts'
import { warehouseError } from '../../warehouse/sqlstate.ts'
import type { Warehouse } from '../../warehouse/tables.ts'

export interface RunStream {
  readonly team: string
  readonly stream: string
  readonly status: string
  readonly requests: number
  readonly throttled: number
  readonly fetched: number
  readonly changed: number
  readonly unchanged: number
  readonly deleted: number
  readonly erased: number
  readonly dead_letters: number
  readonly problems: number
  readonly seconds: number
  readonly note: string | null
}

export interface Run {
  readonly run_id: number
  readonly kind: string
  /** running, succeeded, failed, needs_attention or interrupted. */
  readonly status: string
  readonly started_at: string
  readonly finished_at: string | null
  /** For a run in progress, the time so far; null for a run that was killed. */
  readonly seconds: number | null
  readonly error: string | null
  /** The login that canceled it; null for a run that nobody canceled. */
  readonly canceled_by: string | null
  /** True if the run has pending slices and no worker has claimed one. */
  readonly is_waiting: boolean
  readonly options: unknown
  readonly streams: readonly RunStream[]
}

/** `upTo`: only runs with this number or a lower one. */
export async function readRuns(
  url: string,
  limit: number,
  upTo: number | null = null,
): Promise<readonly Run[]> {
  await using session = await openSession({ url, purpose: 'runs' })
  try {
    const { rows } = await sql<Run>`
      select run.run_id::int as run_id, run.kind, run.status, run.options, run.error, run.canceled_by,
        to_json(run.started_at) #>> '{}' as started_at, to_json(run.finished_at) #>> '{}' as finished_at,
        extract(epoch from coalesce(run.finished_at, now()) - run.started_at)::float8 as seconds,
        run.status = 'running' and coalesce((
          select bool_and(slice.state = 'pending') from intake_ops.slices slice
          where slice.run_id = run.run_id and slice.state in ('pending', 'claimed')), false) as is_waiting,
        coalesce((
          select json_agg(json_build_object(
            'team', coalesce(team.name, part.team_id::text), 'stream', part.stream, 'status', part.status,
            'requests', part.requests, 'throttled', part.throttled, 'fetched', part.fetched, 'changed', part.changed,
            'unchanged', part.unchanged, 'deleted', part.deleted, 'erased', part.erased, 'dead_letters', part.dead_letters,
            'problems', part.problems, 'seconds', part.seconds, 'note', part.note
          ) order by team.name, part.stream)
          from intake_ops.run_streams part left join intake.teams team using (team_id)
          where part.run_id = run.run_id
        ), '[]') as streams
      from intake_ops.runs run where ${upTo}::bigint is null or run.run_id <= ${upTo}
      order by run.run_id desc limit ${limit}`.execute(session.db)
    const runs: Run[] = []
    for (const run of rows) {
      runs.push(run.status === 'running' && !(await isAlive(session.db, run)) ? killed(run) : run)
    }
    return runs
  } catch (error) {
    throw warehouseError(error)
  }
}

/** A run holds its lock until its process ends, or has slices that workers execute. */
async function isAlive(db: Kysely<Warehouse>, { run_id }: Run): Promise<boolean> {
  const { rows } = await sql<{ lives: boolean }>`
    select ${isLocked('run', sql`${String(run_id)}`)} or ${isExecuted(sql`${run_id}::bigint`)} as lives`.execute(
    db,
  )
  return rows[0]!.lives
}

function killed(run: Run): Run {
  return {
    ...run,
    status: 'interrupted',
    is_waiting: false,
    error: run.error ?? 'the process ended before the run was complete',
    seconds: null,
  }
}

/** A team with slices of planned runs that no worker executes. */
export interface WaitingSlices {
  readonly team: string
  /** The oldest of its runs that wait. */
  readonly run_id: number
  /** Slices that are not settled. */
  readonly slices: number
  /** Since a worker last claimed or settled one of them, or they were planned. */
  readonly seconds: number
  /** Workers that are running, for this team or others. */
  readonly workers: number
}

/** How long a slice may wait for a worker while workers run. */
const WAIT_SECONDS = 300

/**
 * A team waits if no worker runs; or if no slice of its own was claimed or settled for five minutes, and none of another
 * team in the run either. Where other teams go on, it waits if one of them was served twice meanwhile: claims take turns,
 * so no worker knows the team, or none that knows it is free. The slice that closes a run counts for all of its teams. A run
 * whose process executes it waits for no worker.
 */
export async function readWaitingSlices(db: Kysely<Warehouse>): Promise<readonly WaitingSlices[]> {
  const { rows } = await sql<WaitingSlices>`
    with part as (
      select run_id, team_id, count(*) filter (where state = 'pending' or state = 'claimed') as slices,
        max(greatest(pending_since, claimed_at, heartbeat_at, settled_at)) as moved_at,
        count(*) filter (where claimed_at > now() - ${WAIT_SECONDS} * interval '1 second') as served
      from intake_ops.slices
      where run_id in (
        select run_id from intake_ops.slices open where (state = 'pending' or state = 'claimed')
          and ${isExecuted(sql`open.run_id`)} and not exists (
            select from pg_stat_activity session join intake_ops.slices own
              on right(own.owner, 8) = right(session.application_name, 8) and own.run_id = open.run_id
            where session.datname = current_database() and session.application_name like 'intake-sync backfill worker %'))
      group by run_id, team_id
    ), run as (
      select run_id, max(moved_at) as moved_at,
        coalesce(sum(slices) filter (where team_id is not null), 0) = 0 as is_read
      from part group by run_id
    ), waiting as (
      select team.name as team, min(part.run_id)::int as run_id,
        sum(case when run.is_read then 1 else part.slices end)::int as slices,
        extract(epoch from now() - max(case when run.is_read then run.moved_at else part.moved_at end))::float8 as seconds,
        extract(epoch from now() - max(run.moved_at))::float8 as quiet
      from part join run using (run_id) join intake.teams team using (team_id)
      where part.slices > 0 or run.is_read
      group by team.name
    )
    select team, run_id, slices, greatest(seconds, 0) as seconds, workers
    from waiting, (select ${LIVE_WORKERS} as workers) live
    where workers = 0 or seconds >= ${WAIT_SECONDS}
      and (quiet >= ${WAIT_SECONDS} or exists (select from part where team_id is not null and served > 1))
    order by team`.execute(db)
  return rows
}

export function waitingSlicesText({ run_id, slices, seconds, workers }: WaitingSlices): string {
  const waiting = `${slices} slice${slices === 1 ? '' : 's'} of run ${run_id} waiting`
  if (workers === 0) return `${waiting}, and no worker is running`
  return `${waiting} for ${Math.floor(seconds / 60)} minutes, and claimed by none of the running workers (${workers})`
}

/** Of a run. */
export const WAITING =
  'waiting for a worker: none has claimed a slice; start intake-sync work, or serve, with its teams in the configuration'

export const WAITING_SLICES_HINT = 'start intake-sync work, or serve, with the team in its configuration'
