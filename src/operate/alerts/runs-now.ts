/**
 * Reads the outcome of the newest run of each kind, by team and stream.
 *
 * Invariant: reads only. A run that a person stopped is ignored. A run whose process has ended counts as failed. A run
 * in progress makes its streams busy.
 */
import { type Kysely, sql } from 'kysely'
import { isExecuted } from '../../load/claims.ts'
import { isLocked } from '../../warehouse/locks.ts'
import type { Warehouse } from '../../warehouse/tables.ts'
import type { Condition, Figures } from './causes.ts'

export interface RunsNow {
  readonly conditions: readonly Condition[]
  /** Streams of runs in progress, as `team stream`. Their conditions are judged when the run ends. */
  readonly busy: ReadonlySet<string>
}

interface Newest {
  readonly team: string
  readonly kind: 'backfill' | 'verify' | 'replay'
  readonly stream: string
  readonly run_id: number | null
  /** Null if no run has ended yet. */
  readonly outcome: 'succeeded' | 'failed' | 'needs_attention' | 'differs' | null
  readonly hours: number | null
  readonly is_busy: boolean
  readonly missing: number | null
  readonly extra: number | null
  readonly different: number | null
}

/** The number of newest runs that are considered. */
const RUNS = 2_000
/** A run in progress for longer than this no longer makes its streams busy. */
const MAX_HOURS = 26

/** `maxAgeHours`: see `Limits`. */
export async function readRunsNow(
  db: Kysely<Warehouse>,
  teams: readonly string[],
  maxAgeHours: number | null,
): Promise<RunsNow> {
  const rows = await readNewest(db, teams, maxAgeHours ?? MAX_HOURS)
  const busy = new Set(rows.filter((row) => row.is_busy).map(({ team, stream }) => `${team} ${stream}`))
  const conditions = rows.flatMap((row) => [...judged(row), ...overdue(row, maxAgeHours)])
  return { conditions, busy }
}

function judged({ team, kind, stream, run_id, outcome, ...row }: Newest): readonly Condition[] {
  const cause = outcome === null ? undefined : CAUSE_OF[`${kind} ${outcome}`]
  if (cause === undefined) return []
  const counts: Figures =
    outcome === 'differs'
      ? { missing: row.missing ?? 0, extra: row.extra ?? 0, different: row.different ?? 0 }
      : {}
  return [{ team, cause, stream, mark: null, figures: { run_id: run_id ?? 0, ...counts } }]
}

const CAUSE_OF: Readonly<Record<string, Condition['cause']>> = {
  'backfill failed': 'backfill_failed',
  'backfill needs_attention': 'backfill_needs_attention',
  'verify failed': 'verify_failed',
  'verify differs': 'verify_differs',
  'replay failed': 'replay_failed',
  'replay needs_attention': 'replay_failed',
}

function overdue({ team, kind, stream, hours }: Newest, limit: number | null): readonly Condition[] {
  if (kind !== 'backfill' || limit === null || hours === null || hours <= limit) return []
  return [{ team, cause: 'backfill_overdue', stream, mark: null, figures: { hours: Math.floor(hours) } }]
}

async function readNewest(
  db: Kysely<Warehouse>,
  teams: readonly string[],
  maxHours: number,
): Promise<readonly Newest[]> {
  const { rows } = await sql<Newest>`
    with newest_runs as (
      select *, options -> 'teams' as teams, options -> 'streams' as streams, status = 'running' and (
          started_at > now() - interval '3 seconds' or ${isLocked('run', sql<string>`run_id::text`)}
          or ${isExecuted(sql`runs.run_id`)}
        ) as lives,
        case when status = 'running' or status = 'interrupted' and finished_at is null then 'failed' else status end as whole
      from intake_ops.runs
      where kind in ('backfill', 'verify', 'replay')
      order by run_id desc limit ${RUNS}
    ), replaced as (
      -- A run of the same teams and streams that ended later replaces all outcomes, unless a person stopped it.
      select *, bool_or(not lives and whole <> 'interrupted') over (
          partition by kind, teams, streams order by run_id desc rows between unbounded preceding and 1 preceding
        ) as is_replaced
      from newest_runs
    ), run as (
      select * from replaced where lives or is_replaced is not true
    ), scope as (
      select run.run_id, run.kind, run.lives, run.started_at, coalesce(run.finished_at, run.started_at) as ended_at,
        team.team_id, team.name as team, stream.name as stream, run.whole
      from run
      cross join lateral jsonb_array_elements_text(
        case jsonb_typeof(run.teams) when 'array' then run.teams else '[]' end
      ) as requested (name)
      join intake.teams team on team.name = requested.name
      cross join lateral jsonb_array_elements_text(
        case when run.kind <> 'replay' and jsonb_typeof(run.streams) = 'array' then run.streams else '[""]' end
      ) as stream (name)
      where team.name = any (${teams}::text[])
    ), ended as (
      select scope.*, verification.missing, verification.extra, verification.different,
        case
          when scope.kind = 'backfill' then coalesce(part.status, scope.whole)
          when scope.kind = 'replay' or verification.run_id is null then scope.whole
          when verification.missing + verification.extra + verification.different = verification.repaired
            and coalesce(jsonb_array_length(verification.deep -> 'differences'), 0) = 0 then 'succeeded'
          else 'differs'
        end as outcome
      from scope
      left join intake_ops.run_streams part using (run_id, team_id, stream)
      left join intake_ops.verifications verification using (run_id, team_id, stream)
      where not scope.lives
    ), newest as (
      select distinct on (team_id, kind, stream) * from ended
      where outcome <> 'interrupted' order by team_id, kind, stream, run_id desc
    ), busy as (
      select team_id, stream, team, kind, bool_or(true) as is_busy from scope
      where lives and started_at > now() - make_interval(secs => ${maxHours * 3600}::float8)
      group by 1, 2, 3, 4
    )
    select coalesce(newest.team, busy.team) as team, coalesce(newest.kind, busy.kind) as kind,
      coalesce(newest.stream, busy.stream) as stream, newest.run_id::int as run_id, newest.outcome,
      (extract(epoch from now() - newest.ended_at) / 3600)::float8 as hours,
      coalesce(busy.is_busy, false) as is_busy,
      newest.missing::int as missing, newest.extra::int as extra, newest.different::int as different
    from newest full join busy using (team_id, kind, stream)
    order by 1, 2, 3`.execute(db)
  return rows
}
