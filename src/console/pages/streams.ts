/** What the pages of streams show in addition to `status`: the last runs of each stream, its problems and its drift. */
import { type Kysely, sql } from 'kysely'
import type { Warehouse } from '../../warehouse/tables.ts'
import { type Bar, minute, plural } from '../format.ts'

export interface StreamHistory {
  readonly team: string
  readonly stream: string
  /** Of the last thirty runs, the newest last. */
  readonly runs: readonly StreamRun[]
  /** Fields that could not be read as their type. */
  readonly problems: number
  /** Records per second of the newest run; null if it fetched none. */
  readonly throughput: number | null
}

interface StreamRun {
  readonly run_id: number
  readonly status: string
  readonly changed: number
  readonly fetched: number
  readonly seconds: number
  readonly started_at: string
}

/** Only the newest runs are looked at, so that the cost does not grow with the history. */
const NEWEST = 500

export async function readHistory(db: Kysely<Warehouse>): Promise<readonly StreamHistory[]> {
  const { rows } = await sql<Omit<StreamHistory, 'throughput'>>`
    with newest as (
      select run_id, started_at from intake_ops.runs where kind = 'backfill' order by run_id desc limit ${NEWEST}
    ), part as (
      select part.team_id, part.stream, part.run_id, part.status, part.changed + part.deleted as changed, part.fetched,
        part.seconds, newest.started_at,
        row_number() over (partition by part.team_id, part.stream order by part.run_id desc) as place
      from newest join intake_ops.run_streams part using (run_id)
    ), runs as (
      select team_id, stream, json_agg(json_build_object('run_id', run_id, 'status', status, 'changed', changed,
        'fetched', fetched, 'seconds', seconds, 'started_at', started_at) order by run_id) as runs
      from part where place <= 30 group by 1, 2
    ), problems as (
      select team_id, stream, sum(count)::float8 as problems from intake_ops.problems group by 1, 2
    )
    select team.name as team, stream, coalesce(runs.runs, '[]') as runs, coalesce(problems.problems, 0) as problems
    from runs full join problems using (team_id, stream) join intake.teams team using (team_id)
    order by 1, 2`.execute(db)
  return rows.map((row) => {
    const last = row.runs.at(-1)
    const measured = last !== undefined && last.fetched > 0 && last.seconds > 0
    return { ...row, throughput: measured ? Math.round(last.fetched / last.seconds) : null }
  })
}

export function runBars(runs: readonly StreamRun[]): readonly Bar[] {
  return runs.map(({ run_id, status, changed, started_at }) => ({
    value: changed,
    kind: barKind(status),
    title: `run ${run_id}, ${minute(started_at)}: ${status.replace('_', ' ')}, ${plural(changed, 'change')}`,
  }))
}

function barKind(status: string): Bar['kind'] {
  if (status === 'succeeded') return 'good'
  return status === 'failed' ? 'bad' : 'warn'
}

export interface Finding {
  /** Of the field, with positions left out. */
  readonly path: string
  /** The reason of a problem, or the JSON type of a drift. */
  readonly what: string
  readonly count: number
  readonly first_seen: string
  readonly last_seen: string
}

export interface Findings {
  readonly problems: readonly Finding[]
  readonly drift: readonly Finding[]
}

const MAX_ROWS = 200

export async function readFindings(db: Kysely<Warehouse>, team: string, stream: string): Promise<Findings> {
  const read = async (table: 'problems' | 'drift', column: 'reason' | 'type') => {
    const { rows } = await sql<Finding>`
      select path, ${sql.ref(column)} as what, count::float8 as count, to_json(first_seen) #>> '{}' as first_seen,
        to_json(last_seen) #>> '{}' as last_seen
      from ${sql.table(`intake_ops.${table}`)} finding join intake.teams team using (team_id)
      where team.name = ${team} and stream = ${stream} order by last_seen desc, path, 2 limit ${MAX_ROWS}`.execute(
      db,
    )
    return rows
  }
  return { problems: await read('problems', 'reason'), drift: await read('drift', 'type') }
}
