/**
 * Finds the conditions that the warehouse shows now.
 *
 * Invariant: reads only. A condition that could not be judged keeps its state: no alert is cleared because a query timed
 * out. Each query has its own time limit, and the webhooks of each team have one too, so that one slow team delays the
 * others by that limit at most.
 */
import { type Kysely, sql } from 'kysely'
import { waitingQuestions } from '../../analytics/classify.ts'
import { withinBudget } from '../../warehouse/connect.ts'
import type { Warehouse } from '../../warehouse/tables.ts'
import { readWaitingSlices } from '../health/runs.ts'
import { readInbox, type WebhookStatus } from '../health/team-status.ts'
import type { WebhookChecks } from '../health/webhook-checks.ts'
import { CAUSES, type Cause, type Condition, keyOf } from './causes.ts'
import { readRunsNow } from './runs-now.ts'

export interface Limits {
  /** The longest time, in seconds, that an event may be pending. */
  readonly inboxSeconds: number
  /** A stream is overdue after this many hours without a backfill; null for never. */
  readonly maxAgeHours: number | null
}

export interface ConditionOptions extends Limits {
  /** Other teams of the warehouse are ignored, except for the causes in OF_ALL_TEAMS. */
  readonly teams: readonly string[]
  readonly webhookChecks: WebhookChecks
  /** Judges every cause, not only the inbox. */
  readonly thorough: boolean
  /** Keys (`keyOf`) of the alerts that are raised already. */
  readonly raised: ReadonlySet<string>
}

export interface Found {
  readonly conditions: readonly Condition[]
  isJudged(key: Pick<Condition, 'team' | 'cause' | 'stream'>): boolean
  /** Names of the queries that exceeded their time limit. */
  readonly late: readonly string[]
}

/** Judged for every team of the warehouse: perhaps no process has the team in its configuration. */
export const OF_ALL_TEAMS: readonly Cause[] = ['slices_waiting']

/** Causes that a run in progress may still change; they are not judged while their stream is busy. */
const OF_STREAMS: readonly Cause[] = CAUSES.filter(
  (cause) =>
    ![...['inbox_old', 'webhooks_silent', 'defect', 'questions_waiting'], ...OF_ALL_TEAMS].includes(cause),
)

const OF_RUNS: readonly Cause[] = CAUSES.filter((cause) => /^(?:backfill|verify|replay)_/.test(cause))

/** Time limits in milliseconds. Their sum, with the webhooks of all teams, is below a round's limit. */
const BUDGETS = {
  inbox: 3_000,
  runs: 3_000,
  dead_letters: 2_000,
  drift: 2_000,
  defects: 2_000,
  questions: 1_000,
  slices: 2_000,
} as const

/** Throws if the warehouse is unreachable. A query that exceeds its time limit is left out of the result. */
export async function findConditions(db: Kysely<Warehouse>, options: ConditionOptions): Promise<Found> {
  const { teams, thorough, webhookChecks } = options
  const conditions: Condition[] = []
  const judged = new Set<Cause>()
  const late: string[] = []
  let busy: ReadonlySet<string> = new Set()

  const judge = async <Result>(
    name: keyof typeof BUDGETS,
    causes: readonly Cause[],
    read: () => Promise<Result>,
  ): Promise<Result | null> => {
    const result = await withinBudget(db, BUDGETS[name], read)
    if (result === null) late.push(name)
    else for (const cause of causes) judged.add(cause)
    return result
  }

  conditions.push(...((await judge('inbox', ['inbox_old'], () => readOldInbox(db, options))) ?? []))
  const judgedWebhooks = new Set<string>()
  if (thorough) {
    const runs = await judge('runs', OF_RUNS, () => readRunsNow(db, teams, options.maxAgeHours))
    conditions.push(...(runs?.conditions ?? []))
    // Without the runs in progress, no cause that they may change can be judged.
    const others = runs === null ? [] : (['dead_letters', 'drift'] as const)
    busy = runs?.busy ?? busy
    if (others.length > 0) {
      conditions.push(...((await judge('dead_letters', ['dead_letters'], () => readDeadLetters(db))) ?? []))
      conditions.push(...((await judge('drift', ['drift'], () => readDrift(db))) ?? []))
    }
    conditions.push(...((await judge('defects', ['defect'], () => readDefects(db))) ?? []))
    conditions.push(...((await judge('questions', ['questions_waiting'], () => readQuestions(db))) ?? []))
    conditions.push(...((await judge('slices', ['slices_waiting'], () => readWaiting(db))) ?? []))
    const webhooks = await webhookChecks.check(db, teams)
    for (const { team } of webhooks) judgedWebhooks.add(team)
    conditions.push(...webhooks.flatMap(silentWebhooks))
    late.push(...teams.filter((team) => !judgedWebhooks.has(team)).map((team) => `webhooks of ${team}`))
  }
  const isJudged: Found['isJudged'] = ({ team, cause, stream }) => {
    if (!teams.includes(team) && !OF_ALL_TEAMS.includes(cause)) return false
    if (cause === 'webhooks_silent') return judgedWebhooks.has(team)
    return judged.has(cause) && !(OF_STREAMS.includes(cause) && busy.has(`${team} ${stream}`))
  }
  return { conditions: conditions.filter(isJudged), isJudged, late }
}

async function readDeadLetters(db: Kysely<Warehouse>): Promise<readonly Condition[]> {
  const { rows } = await sql<{ team: string; stream: string; waiting: number }>`
    select team.name as team, dead.stream, count(*)::int as waiting
    from intake_ops.dead_letters dead join intake.teams team using (team_id)
    where dead.status = 'waiting' group by 1, 2 order by 1, 2`.execute(db)
  return rows.map(({ team, stream, waiting }) => {
    return { team, cause: 'dead_letters', stream, mark: null, figures: { waiting } }
  })
}

/** Posted again when the count grows; cleared after a week without drift. */
async function readDrift(db: Kysely<Warehouse>): Promise<readonly Condition[]> {
  const { rows } = await sql<{ team: string; stream: string; fields: number }>`
    select team.name as team, drift.stream, count(*)::int as fields
    from intake_ops.drift drift join intake.teams team using (team_id)
    group by 1, 2 having max(drift.last_seen) > now() - interval '7 days' order by 1, 2`.execute(db)
  return rows.map(({ team, stream, fields }) => {
    return { team, cause: 'drift', stream, mark: fields, figures: { fields } }
  })
}

/** Posted again when the count grows; cleared after a week without a defect. */
async function readDefects(db: Kysely<Warehouse>): Promise<readonly Condition[]> {
  const { rows } = await sql<{ team: string; kinds: number; count: number }>`
    select team.name as team, count(*)::int as kinds, sum(defect.count)::int as count
    from intake_ops.defects defect join intake.teams team using (team_id)
    group by 1 having max(defect.last_seen) > now() - interval '7 days' order by 1`.execute(db)
  return rows.map(({ team, kinds, count }) => {
    return { team, cause: 'defect', stream: '', mark: kinds, figures: { kinds, count } }
  })
}

/** Posted again when the count grows. */
async function readQuestions(db: Kysely<Warehouse>): Promise<readonly Condition[]> {
  const waiting = await waitingQuestions(db)
  return [...new Set(waiting.map(({ team }) => team))].map((team) => {
    const questions = waiting.filter((each) => each.team === team).length
    return { team, cause: 'questions_waiting', stream: '', mark: questions, figures: { questions } }
  })
}

/** Raises nothing in the first minute, in which a worker may start again. */
async function readWaiting(db: Kysely<Warehouse>): Promise<readonly Condition[]> {
  return (await readWaitingSlices(db)).flatMap(({ team, run_id, slices, seconds, workers }) => {
    if (seconds < 60) return []
    const figures = { run_id, slices, minutes: Math.floor(seconds / 60), workers }
    return [{ team, cause: 'slices_waiting', stream: '', mark: null, figures }]
  })
}

/** Clears at half the limit, so that an age that fluctuates around the limit is posted once. */
async function readOldInbox(db: Kysely<Warehouse>, options: ConditionOptions): Promise<readonly Condition[]> {
  return (await readInbox(db)).flatMap(({ team, pending, oldest_pending_seconds: seconds }) => {
    const condition = { team, cause: 'inbox_old', stream: '', mark: null } as const
    const limit = options.inboxSeconds / (options.raised.has(keyOf(condition)) ? 2 : 1)
    if (seconds === null || seconds <= limit) return []
    return [{ ...condition, figures: { pending, minutes: Math.floor(seconds / 60) } }]
  })
}

function silentWebhooks({ team, verdict, events_last_day }: WebhookStatus): readonly Condition[] {
  if (verdict !== 'silent') return []
  return [{ team, cause: 'webhooks_silent', stream: '', mark: null, figures: { events_last_day } }]
}
