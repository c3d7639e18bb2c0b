/**
 * What is wrong now, in all that a warehouse knows of its teams.
 *
 * Invariant: reads only. What could not be judged is not among the judged, and stays as it was: nothing is cleared
 * because nobody looked.
 */
import { type Kysely, sql } from 'kysely'
import type { Warehouse } from '../../warehouse/tables.ts'
import { readInbox, readWebhooks } from '../team-status.ts'
import { CAUSES, type Cause, type Condition, keyOf } from './causes.ts'
import { type RunsNow, readRunsNow } from './runs-now.ts'

export interface Limits {
  /** Seconds that the oldest event of the inbox may wait. */
  readonly inboxSeconds: number
  /** Hours after which a stream that no backfill has come to is told; null for never. */
  readonly maxAgeHours: number | null
}

export interface LookOptions extends Limits {
  /** Others in the warehouse are none of ours. */
  readonly teams: readonly string[]
  readonly inboxDays: number
  /** All of it, not the inbox alone. */
  readonly thorough: boolean
  /** What is raised already, by `keyOf`. */
  readonly raised: ReadonlySet<string>
}

export interface Found {
  readonly conditions: readonly Condition[]
  isJudged(key: Pick<Condition, 'team' | 'cause' | 'stream'>): boolean
}

/** Causes that a run in progress may still change. */
const OF_STREAMS: readonly Cause[] = CAUSES.filter(
  (cause) => cause !== 'inbox_old' && cause !== 'webhooks_silent' && cause !== 'backfill_overdue',
)

export async function findConditions(db: Kysely<Warehouse>, options: LookOptions): Promise<Found> {
  const { teams, thorough } = options
  const old = await readOldInbox(db, options)
  const rest = thorough ? await findRest(db, options) : null
  const isJudged: Found['isJudged'] = ({ team, cause, stream }) => {
    if (!teams.includes(team) || (rest === null && cause !== 'inbox_old')) return false
    return !(OF_STREAMS.includes(cause) && rest?.busy.has(`${team} ${stream}`))
  }
  return { conditions: [...old, ...(rest?.conditions ?? [])].filter(isJudged), isJudged }
}

/** What takes longer to find out, and need not be told at once. */
async function findRest(db: Kysely<Warehouse>, options: LookOptions): Promise<RunsNow> {
  const { conditions, busy } = await readRunsNow(db, options.teams, options.maxAgeHours)
  const letters = await readLetters(db)
  const drift = await readDrift(db)
  const silence = await readSilence(db, options.inboxDays)
  return { conditions: [...conditions, ...letters, ...drift, ...silence], busy }
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

/** Over at half the limit: one that hovers about it is told once. */
async function readOldInbox(db: Kysely<Warehouse>, options: LookOptions): Promise<readonly Condition[]> {
  return (await readInbox(db)).flatMap(({ team, pending, oldest_pending_seconds: seconds }) => {
    const condition = { team, cause: 'inbox_old', stream: '', mark: null } as const
    const limit = options.inboxSeconds / (options.raised.has(keyOf(condition)) ? 2 : 1)
    if (seconds === null || seconds <= limit) return []
    return [{ ...condition, figures: { pending, minutes: Math.floor(seconds / 60) } }]
  })
}

async function readSilence(db: Kysely<Warehouse>, inboxDays: number): Promise<readonly Condition[]> {
  const silent = (await readWebhooks(db, inboxDays)).filter(({ verdict }) => verdict === 'silent')
  return silent.map(({ team, events_last_day }) => {
    return { team, cause: 'webhooks_silent', stream: '', mark: null, figures: { events_last_day } }
  })
}
