/**
 * What is wrong now, in all that a warehouse knows of its teams.
 *
 * Invariant: reads only. What could not be judged is not among the judged, and stays as it was: nothing is cleared
 * because nobody looked. Each look has its own time, the webhooks of each team too: what is slow for one team delays
 * what is told of another no longer than that.
 */
import { type Kysely, sql } from 'kysely'
import type { Warehouse } from '../../warehouse/tables.ts'
import { withinBudget } from '../../warehouse/within-budget.ts'
import { readInbox, type WebhookStatus } from '../health/team-status.ts'
import type { WebhookChecks } from '../health/webhook-checks.ts'
import { CAUSES, type Cause, type Condition, keyOf } from './causes.ts'
import { readRunsNow } from './runs-now.ts'

export interface Limits {
  /** Seconds that the oldest event of the inbox may wait. */
  readonly inboxSeconds: number
  /** Hours after which a stream that no backfill has come to is told; null for never. */
  readonly maxAgeHours: number | null
}

export interface LookOptions extends Limits {
  /** Others in the warehouse are none of ours. */
  readonly teams: readonly string[]
  readonly webhookChecks: WebhookChecks
  /** All of it, not the inbox alone. */
  readonly thorough: boolean
  /** What is raised already, by `keyOf`. */
  readonly raised: ReadonlySet<string>
}

export interface Found {
  readonly conditions: readonly Condition[]
  isJudged(key: Pick<Condition, 'team' | 'cause' | 'stream'>): boolean
  /** What took too long to find out, in words. */
  readonly late: readonly string[]
}

/** Causes that a run in progress may still change. */
const OF_STREAMS: readonly Cause[] = CAUSES.filter(
  (cause) => !['inbox_old', 'webhooks_silent', 'backfill_overdue', 'defect'].includes(cause),
)

const OF_RUNS: readonly Cause[] = CAUSES.filter((cause) => /^(?:backfill|verify|replay)_/.test(cause))

/** Milliseconds of each look; together with the webhooks of all teams less than half of a round. */
const BUDGETS = { inbox: 3_000, runs: 3_000, letters: 2_000, drift: 2_000, defects: 2_000 } as const

/** Throws where the warehouse is away; a look that takes too long is left out, and no other waits for it. */
export async function findConditions(db: Kysely<Warehouse>, options: LookOptions): Promise<Found> {
  const { teams, thorough, webhookChecks } = options
  const conditions: Condition[] = []
  const judged = new Set<Cause>()
  const late: string[] = []
  let busy: ReadonlySet<string> = new Set()

  const look = async <Result>(
    name: keyof typeof BUDGETS,
    causes: readonly Cause[],
    read: () => Promise<Result>,
  ): Promise<Result | null> => {
    const result = await withinBudget(db, BUDGETS[name], read)
    if (result === null) late.push(name)
    else for (const cause of causes) judged.add(cause)
    return result
  }

  conditions.push(...((await look('inbox', ['inbox_old'], () => readOldInbox(db, options))) ?? []))
  const heard = new Set<string>()
  if (thorough) {
    const runs = await look('runs', OF_RUNS, () => readRunsNow(db, teams, options.maxAgeHours))
    conditions.push(...(runs?.conditions ?? []))
    // Without knowing which runs go on, nothing that they may change is judged.
    const others = runs === null ? [] : (['dead_letters', 'drift'] as const)
    busy = runs?.busy ?? busy
    if (others.length > 0) {
      conditions.push(...((await look('letters', ['dead_letters'], () => readLetters(db))) ?? []))
      conditions.push(...((await look('drift', ['drift'], () => readDrift(db))) ?? []))
    }
    conditions.push(...((await look('defects', ['defect'], () => readDefects(db))) ?? []))
    const webhooks = await webhookChecks.look(db, teams)
    for (const { team } of webhooks) heard.add(team)
    conditions.push(...webhooks.flatMap(silenceOf))
    late.push(...teams.filter((team) => !heard.has(team)).map((team) => `webhooks of ${team}`))
  }
  const isJudged: Found['isJudged'] = ({ team, cause, stream }) => {
    if (!teams.includes(team)) return false
    if (cause === 'webhooks_silent') return heard.has(team)
    return judged.has(cause) && !(OF_STREAMS.includes(cause) && busy.has(`${team} ${stream}`))
  }
  return { conditions: conditions.filter(isJudged), isJudged, late }
}

async function readLetters(db: Kysely<Warehouse>): Promise<readonly Condition[]> {
  const { rows } = await sql<{ team: string; stream: string; waiting: number }>`
    select team.name as team, letter.stream, count(*)::int as waiting
    from intake_ops.dead_letters letter join intake.teams team using (team_id)
    where letter.status = 'waiting' group by 1, 2`.execute(db)
  return rows.map(({ team, stream, waiting }) => {
    return { team, cause: 'dead_letters', stream, mark: null, figures: { waiting } }
  })
}

/** Told again for each that comes new; over when none came for a week. */
async function readDrift(db: Kysely<Warehouse>): Promise<readonly Condition[]> {
  const { rows } = await sql<{ team: string; stream: string; fields: number }>`
    select team.name as team, drift.stream, count(*)::int as fields
    from intake_ops.drift drift join intake.teams team using (team_id)
    group by 1, 2 having max(drift.last_seen) > now() - interval '7 days'`.execute(db)
  return rows.map(({ team, stream, fields }) => {
    return { team, cause: 'drift', stream, mark: fields, figures: { fields } }
  })
}

/** Told again for each that is new; over when none occurred for a week. */
async function readDefects(db: Kysely<Warehouse>): Promise<readonly Condition[]> {
  const { rows } = await sql<{ team: string; kinds: number; count: number }>`
    select team.name as team, count(*)::int as kinds, sum(defect.count)::int as count
    from intake_ops.defects defect join intake.teams team using (team_id)
    group by 1 having max(defect.last_seen) > now() - interval '7 days'`.execute(db)
  return rows.map(({ team, kinds, count }) => {
    return { team, cause: 'defect', stream: '', mark: kinds, figures: { kinds, count } }
  })
}

/** Over at half the limit: one that hovers about it is told once. */
async function readOldInbox(db: Kysely<Warehouse>, options: LookOptions): Promise<readonly Condition[]> {
  return (await readInbox(db)).flatMap(({ team, pending, oldest_pending_seconds: seconds }) => {
    const condition = { team, cause: 'inbox_old', stream: '', mark: null } as const
    const limit = options.inboxSeconds / (options.raised.has(keyOf(condition)) ? 2 : 1)
    if (seconds === null || seconds <= limit) return []
    return [{ ...condition, figures: { pending, minutes: Math.floor(seconds / 60) } }]
  })
}

function silenceOf({ team, verdict, events_last_day }: WebhookStatus): readonly Condition[] {
  if (verdict !== 'silent') return []
  return [{ team, cause: 'webhooks_silent', stream: '', mark: null, figures: { events_last_day } }]
}
