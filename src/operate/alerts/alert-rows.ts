/**
 * The state of alerts in intake_ops.alerts: which are raised, and which of them the receiver knows.
 *
 * Invariant: written only under the lock of alerts. A condition that clears before its first post is never posted. A
 * posted alert is posted again only when its mark grows or when it clears.
 */
import { type Kysely, sql } from 'kysely'
import type { Warehouse } from '../../warehouse/tables.ts'
import { CAUSES, type Cause, type Condition, type Figures, keyOf } from './causes.ts'
import { type Found, OF_ALL_TEAMS } from './conditions.ts'

export type Status = 'raised' | 'cleared'

export interface AlertRow {
  readonly team: string
  readonly cause: Cause
  readonly stream: string
  readonly id: string
  readonly mark: number | null
  readonly figures: Figures
  readonly raised_at: string
  readonly cleared_at: string | null
  /** The status in the last successful post; null before the first. */
  readonly posted: Status | null
  /** The `mark` in the last successful post. */
  readonly posted_mark: number | null
  readonly attempts: number
  readonly is_due: boolean
}

export async function readAlerts(
  db: Kysely<Warehouse>,
  teams: readonly string[],
): Promise<readonly AlertRow[]> {
  const { rows } = await sql<AlertRow>`
    select team.name as team, alert.cause, alert.stream, alert.id, alert.mark::int as mark, alert.figures,
      to_json(alert.raised_at) #>> '{}' as raised_at, to_json(alert.cleared_at) #>> '{}' as cleared_at,
      alert.told as posted, alert.told_mark::int as posted_mark, alert.attempts, alert.due_at <= now() as is_due
    from intake_ops.alerts alert join intake.teams team using (team_id)
    where alert.cause = any (${CAUSES}::text[])
      and (team.name = any (${teams}::text[]) or alert.cause = any (${OF_ALL_TEAMS}::text[]))
    order by alert.raised_at, team.name, alert.cause, alert.stream`.execute(db)
  return rows
}

export function isRaised({ cleared_at }: AlertRow): boolean {
  return cleared_at === null
}

/** The status to post; null if the receiver knows the alert's state. */
export function statusToPost({ cleared_at, posted, mark, posted_mark }: AlertRow): Status | null {
  const isMore = (mark ?? 0) > (posted_mark ?? 0)
  if (cleared_at === null) return posted === 'raised' && !isMore ? null : 'raised'
  return posted === 'raised' ? 'cleared' : null
}

/** Raises and clears alerts according to the conditions that were found. */
export async function updateAlerts(
  db: Kysely<Warehouse>,
  current: readonly AlertRow[],
  { conditions, isJudged }: Found,
): Promise<void> {
  const before = new Map(current.map((row) => [keyOf(row), row]))
  const now = new Set(conditions.map(keyOf))
  for (const condition of conditions) await raise(db, condition, before.get(keyOf(condition)))
  for (const row of current) {
    if (!isRaised(row) || now.has(keyOf(row)) || !isJudged(row)) continue
    await sql`update intake_ops.alerts set cleared_at = now(), attempts = 0, due_at = now()
      where id = ${row.id}`.execute(db)
  }
}

async function raise(db: Kysely<Warehouse>, condition: Condition, current?: AlertRow): Promise<void> {
  const { team, cause, stream, mark, figures } = condition
  const isMore = mark !== null && mark > (current?.mark ?? 0)
  if (current !== undefined && isRaised(current)) {
    if (!isMore) return
    await sql`update intake_ops.alerts
      set mark = ${mark}, figures = ${JSON.stringify(figures)}::jsonb, attempts = 0, due_at = now()
      where id = ${current.id}`.execute(db)
    return
  }
  // Drift that was posted before is seen again at each scan.
  if (cause === 'drift' && current !== undefined && mark! <= (current.posted_mark ?? 0)) return
  // The condition cleared and returned before the receiver learned that it had cleared: the alert continues.
  if (current?.posted === 'raised') {
    await sql`update intake_ops.alerts
      set cleared_at = null, mark = ${mark}, figures = ${JSON.stringify(figures)}::jsonb, attempts = 0, due_at = now()
      where id = ${current.id}`.execute(db)
    return
  }
  await sql`
    insert into intake_ops.alerts (team_id, cause, stream, mark, figures)
    select team_id, ${cause}, ${stream}, ${mark}, ${JSON.stringify(figures)}::jsonb
    from intake.teams where name = ${team}
    on conflict (team_id, cause, stream) do update set told = null,
      id = excluded.id, mark = excluded.mark, figures = excluded.figures, raised_at = excluded.raised_at,
      cleared_at = null, attempts = 0, due_at = now()`.execute(db)
}

export async function recordPosted(db: Kysely<Warehouse>, rows: readonly AlertRow[]): Promise<void> {
  for (const row of rows) {
    await sql`update intake_ops.alerts
      set told = ${statusToPost(row)}, told_mark = ${row.mark}, told_at = now(), attempts = 0 where id = ${row.id}`.execute(
      db,
    )
  }
}

/** Schedules the next attempt: 30 seconds after the first failure, doubled each time, at most 30 minutes. */
export async function recordFailure(db: Kysely<Warehouse>, rows: readonly AlertRow[]): Promise<void> {
  const ids = rows.map(({ id }) => id)
  await sql`update intake_ops.alerts
    set attempts = attempts + 1, due_at = now() + least(interval '30 minutes', interval '15 seconds' * 2 ^ least(attempts + 1, 10))
    where id = any (${ids}::uuid[])`.execute(db)
}

export interface RaisedCount {
  readonly team: string
  readonly cause: string
  /** Number of streams; 1 for a cause that concerns the whole team. */
  readonly count: number
}

/** Counts the raised alerts by team and cause. */
export async function countRaised(db: Kysely<Warehouse>): Promise<readonly RaisedCount[]> {
  const { rows } = await sql<RaisedCount>`
    select team.name as team, alert.cause, count(*)::int as count
    from intake_ops.alerts alert join intake.teams team using (team_id)
    where alert.cleared_at is null group by 1, 2`.execute(db)
  return rows
}
