/**
 * Reads the history of runs, newest first: counts, times and notes, no data of records.
 *
 * Invariant: a run that is stored as `running` although its process has ended is returned as `interrupted`.
 */
import { sql } from 'kysely'
import { hasSlices } from '../../load/slice.ts'
import { openSession, type Session } from '../../warehouse/connect.ts'
import { tryLock, unlock } from '../../warehouse/locks.ts'
import { warehouseError } from '../../warehouse/sqlstate.ts'

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
      runs.push(run.status === 'running' && !(await isAlive(session, run)) ? killed(run) : run)
    }
    return runs
  } catch (error) {
    throw warehouseError(error)
  }
}

/** A run holds its lock until its process ends, or has slices that workers execute. */
async function isAlive(session: Session, { run_id }: Run): Promise<boolean> {
  const name = String(run_id)
  if (await hasSlices(session.db, name)) return true
  if (!(await tryLock(session, 'run', name))) return true
  await unlock(session, 'run', name)
  return false
}

function killed(run: Run): Run {
  return {
    ...run,
    status: 'interrupted',
    error: run.error ?? 'the process ended before the run was complete',
    seconds: null,
  }
}
