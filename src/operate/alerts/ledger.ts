/**
 * What is raised and what of it was told, in intake_ops.alerts.
 *
 * Invariant: written only by whoever holds the lock of the alerts. What came and went before anybody was told is not
 * told at all; what a receiver was told once is told again only when it clears.
 */
import { type Kysely, sql } from 'kysely'
import type { Warehouse } from '../../warehouse/tables.ts'
import { CAUSES, type Cause, type Condition, type Figures, keyOf } from './causes.ts'
import type { Found } from './conditions.ts'

export type Told = 'raised' | 'cleared'

export interface Entry {
  readonly team: string
  readonly cause: Cause
  readonly stream: string
  readonly id: string
  readonly mark: number | null
  readonly figures: Figures
  readonly raised_at: string
  readonly cleared_at: string | null
  readonly told: Told | null
  /** What `mark` was then. */
  readonly told_mark: number | null
  readonly attempts: number
  readonly is_due: boolean
}

export async function readLedger(db: Kysely<Warehouse>, teams: readonly string[]): Promise<readonly Entry[]> {
  const { rows } = await sql<Entry>`
    select team.name as team, alert.cause, alert.stream, alert.id, alert.mark::int as mark, alert.figures,
      to_json(alert.raised_at) #>> '{}' as raised_at, to_json(alert.cleared_at) #>> '{}' as cleared_at,
      alert.told, alert.told_mark::int as told_mark, alert.attempts, alert.due_at <= now() as is_due
    from intake_ops.alerts alert join intake.teams team using (team_id)
    where team.name = any (${teams}::text[]) and alert.cause = any (${CAUSES}::text[])
    order by alert.raised_at, team.name, alert.cause, alert.stream`.execute(db)
  return rows
}

export function isRaised({ cleared_at }: Entry): boolean {
  return cleared_at === null
}

/** What its receiver should have been told and was not; null for nothing. */
export function untold({ cleared_at, told, mark, told_mark }: Entry): Told | null {
  const isMore = (mark ?? 0) > (told_mark ?? 0)
  if (cleared_at === null) return told === 'raised' && !isMore ? null : 'raised'
  return told === 'raised' ? 'cleared' : null
}

/** Brings the ledger up to what was found. */
export async function noteFound(
  db: Kysely<Warehouse>,
  held: readonly Entry[],
  { conditions, isJudged }: Found,
): Promise<void> {
  const before = new Map(held.map((entry) => [keyOf(entry), entry]))
  const now = new Set(conditions.map(keyOf))
  for (const condition of conditions) await noteRaised(db, condition, before.get(keyOf(condition)))
  for (const entry of held) {
    if (!isRaised(entry) || now.has(keyOf(entry)) || !isJudged(entry)) continue
    await sql`update intake_ops.alerts set cleared_at = now(), attempts = 0, due_at = now()
      where id = ${entry.id}`.execute(db)
  }
}

async function noteRaised(db: Kysely<Warehouse>, condition: Condition, held?: Entry): Promise<void> {
  const { team, cause, stream, mark, figures } = condition
  const isMore = mark !== null && mark > (held?.mark ?? 0)
  if (held !== undefined && isRaised(held)) {
    if (!isMore) return
    await sql`update intake_ops.alerts
      set mark = ${mark}, figures = ${JSON.stringify(figures)}::jsonb, attempts = 0, due_at = now()
      where id = ${held.id}`.execute(db)
    return
  }
  if (held !== undefined && mark !== null && !isMore) return
  // Over and wrong again before anybody was told that it was over: for the receiver it goes on.
  if (held?.told === 'raised') {
    await sql`update intake_ops.alerts
      set cleared_at = null, mark = ${mark}, figures = ${JSON.stringify(figures)}::jsonb where id = ${held.id}`.execute(
      db,
    )
    return
  }
  await sql`
    insert into intake_ops.alerts as held (team_id, cause, stream, mark, figures)
    select team_id, ${cause}, ${stream}, ${mark}, ${JSON.stringify(figures)}::jsonb
    from intake.teams where name = ${team}
    on conflict (team_id, cause, stream) do update set
      id = excluded.id, mark = excluded.mark, figures = excluded.figures, raised_at = excluded.raised_at,
      cleared_at = null, told = null, told_mark = null, attempts = 0, due_at = now()`.execute(db)
}

export async function noteTold(db: Kysely<Warehouse>, entries: readonly Entry[]): Promise<void> {
  for (const entry of entries) {
    await sql`update intake_ops.alerts
      set told = ${untold(entry)}, told_mark = ${entry.mark}, told_at = now(), attempts = 0 where id = ${entry.id}`.execute(
      db,
    )
  }
}

/** Half a minute after the first that failed, then twice as long each time, up to half an hour. */
export async function noteFailed(db: Kysely<Warehouse>, entries: readonly Entry[]): Promise<void> {
  const ids = entries.map(({ id }) => id)
  await sql`update intake_ops.alerts
    set attempts = attempts + 1, due_at = now() + least(interval '30 minutes', interval '15 seconds' * 2 ^ least(attempts + 1, 10))
    where id = any (${ids}::uuid[])`.execute(db)
}

export interface Raised {
  readonly team: string
  readonly cause: string
  /** Of streams, or one. */
  readonly count: number
}

/** What is raised, by team and cause. */
export async function readRaised(db: Kysely<Warehouse>): Promise<readonly Raised[]> {
  const { rows } = await sql<Raised>`
    select team.name as team, alert.cause, count(*)::int as count
    from intake_ops.alerts alert join intake.teams team using (team_id)
    where alert.cleared_at is null group by 1, 2`.execute(db)
  return rows
}
