/**
 * The state of each team in one sentence: is its data fresh, was it proved equal to the service, does it need somebody.
 *
 * Invariant: the cost does not grow with the number of records: runs, verifications, hourly counts and pending events are
 * read, no rows. Names of teams and streams, counts and times only.
 */
import { type Kysely, sql } from 'kysely'
import { type Condition, textsOf } from '../../operate/alerts/causes.ts'
import { findConditions } from '../../operate/alerts/conditions.ts'
import { readInbox, readTrouble, type StreamTrouble } from '../../operate/health/team-status.ts'
import type { WebhookChecks } from '../../operate/health/webhook-checks.ts'
import { STREAMS } from '../../streams/catalogue.ts'
import type { Warehouse } from '../../warehouse/tables.ts'
import { duration, plural } from '../format.ts'

/** `unknown`: there is nothing to judge by yet. */
export type Mark = 'good' | 'bad' | 'unknown'

export interface Judged {
  readonly mark: Mark
  readonly text: string
}

export interface Todo {
  readonly text: string
  readonly hint: string
  /** The page to look at. */
  readonly href: string
}

export interface TeamOverview {
  readonly team: string
  readonly fresh: Judged
  readonly equal: Judged
  readonly needs: Judged
  readonly todo: readonly Todo[]
  readonly pending: number
  /** For each of the last thirty days, today last. */
  readonly events: readonly number[]
  readonly rows: readonly number[]
}

export interface OverviewOptions {
  /** A stream is stale after this many hours without a successful run. */
  readonly maxAgeHours: number
  readonly webhookChecks: WebhookChecks
}

/** An event that is pending for longer needs somebody. */
const INBOX_SECONDS = 300

export async function readOverview(
  db: Kysely<Warehouse>,
  { maxAgeHours, webhookChecks }: OverviewOptions,
): Promise<readonly TeamOverview[]> {
  const inbox = await readInbox(db)
  const teams = inbox.map(({ team }) => team)
  const trouble = await readTrouble(db)
  const proofs = await readProofs(db)
  const daily = await readDays(db)
  const { conditions } = await findConditions(db, {
    ...{ teams, webhookChecks, thorough: true, raised: new Set<string>() },
    ...{ inboxSeconds: INBOX_SECONDS, maxAgeHours },
  })
  return inbox.map(({ team, pending }) => {
    const own = <Row extends { readonly team: string }>(rows: readonly Row[]) =>
      rows.filter((row) => row.team === team)
    const todo = todoOf(own(conditions))
    const days = own(daily)
    const fresh = judgeFreshness(own(trouble), maxAgeHours)
    const equal = judgeProof(own(proofs))
    return {
      ...{ team, pending, fresh, equal },
      needs: judgeNeeds(todo.length),
      todo: [...todo, ...firstSteps(fresh, equal)],
      events: days.map((day) => day.events),
      rows: days.map((day) => day.rows),
    }
  })
}

/** The oldest successful run among the streams that a backfill reads counts. */
export function judgeFreshness(streams: readonly StreamTrouble[], maxAgeHours: number): Judged {
  const read = STREAMS.map(
    ({ name }) => streams.find(({ stream }) => stream === name)?.last_success_at ?? null,
  )
  const times = read.filter((time) => time !== null)
  if (times.length === 0) return { mark: 'unknown', text: 'no backfill has succeeded yet' }
  const missing = read.length - times.length
  if (missing > 0) return { mark: 'bad', text: `${plural(missing, 'stream')} without a successful backfill` }
  const seconds = (Date.now() - Math.min(...times.map((time) => time.getTime()))) / 1000
  const mark = seconds > maxAgeHours * 3_600 ? 'bad' : 'good'
  return {
    mark,
    text: `${mark === 'good' ? 'fresh' : 'stale'}: every stream was read ${duration(seconds)} ago or later`,
  }
}

export interface Proof {
  readonly team: string
  readonly stream: string
  readonly differences: number
  readonly verified_at: Date
}

/** Judges the newest verification of each stream. */
export function judgeProof(proofs: readonly Proof[]): Judged {
  if (proofs.length === 0) return { mark: 'unknown', text: 'not verified yet' }
  const differences = proofs.reduce((sum, each) => sum + each.differences, 0)
  if (differences > 0) {
    const streams = proofs.filter((each) => each.differences > 0).length
    return { mark: 'bad', text: `${plural(differences, 'difference')} in ${plural(streams, 'stream')}` }
  }
  const oldest = Math.min(...proofs.map(({ verified_at }) => verified_at.getTime()))
  const when = duration(Math.max(0, (Date.now() - oldest) / 1000))
  return { mark: 'good', text: `proved equal to the service ${when} ago, ${plural(proofs.length, 'stream')}` }
}

function judgeNeeds(todo: number): Judged {
  if (todo === 0) return { mark: 'good', text: 'needs nobody' }
  return { mark: 'bad', text: `needs somebody: ${plural(todo, 'thing')} to do` }
}

function firstSteps(fresh: Judged, equal: Judged): readonly Todo[] {
  if (fresh.mark === 'unknown')
    return [{ text: 'load the data for the first time', hint: 'intake-sync backfill', href: '/runs' }]
  if (equal.mark !== 'unknown') return []
  return [{ text: 'prove that the tables equal the service', hint: 'start a verification', href: '/verify' }]
}

/** One entry for each cause; the streams are listed in it. */
function todoOf(conditions: readonly Condition[]): readonly Todo[] {
  const causes = [...new Set(conditions.map(({ cause }) => cause))]
  return causes.flatMap((cause) => {
    const own = conditions.filter((each) => each.cause === cause)
    const { raised, hint } = textsOf(cause)
    const texts = [...new Set(own.map(({ figures }) => raised(figures)))]
    return texts.map((text) => {
      const streams = own.filter(({ figures }) => raised(figures) === text).map(({ stream }) => stream)
      const named = streams.filter((stream) => stream !== '').join(', ')
      return { text: named === '' ? text : `${named}: ${text}`, hint, href: PAGES[cause] ?? '/health' }
    })
  })
}

const PAGES: Readonly<Record<string, string>> = {
  backfill_failed: '/runs',
  backfill_needs_attention: '/runs',
  backfill_overdue: '/streams',
  verify_failed: '/runs',
  verify_differs: '/verify',
  replay_failed: '/runs',
  dead_letters: '/dead-letters',
  drift: '/streams',
  inbox_old: '/inbox',
  webhooks_silent: '/inbox',
}

/** Differences that were repaired do not count. */
async function readProofs(db: Kysely<Warehouse>): Promise<readonly Proof[]> {
  const { rows } = await sql<Proof>`
    select distinct on (verification.team_id, stream) team.name as team, stream,
      (missing + extra + different - repaired)::int as differences, verified_at
    from intake_ops.verifications verification join intake.teams team using (team_id)
    where verified_at > now() - interval '60 days'
    order by verification.team_id, stream, run_id desc`.execute(db)
  return rows
}

interface Day {
  readonly team: string
  readonly events: number
  readonly rows: number
}

async function readDays(db: Kysely<Warehouse>): Promise<readonly Day[]> {
  const { rows } = await sql<Day>`
    with day as (
      select generate_series(date_trunc('day', now()) - interval '29 days', now(), interval '1 day') as day
    ), received as (
      select team_id, date_trunc('day', hour) as day, sum(events)::float8 as events
      from intake_ops.events_received where hour >= date_trunc('day', now()) - interval '29 days' group by 1, 2
    ), loaded as (
      select part.team_id, date_trunc('day', run.started_at) as day, sum(part.changed + part.deleted)::float8 as rows
      from intake_ops.runs run join intake_ops.run_streams part using (run_id)
      where run.started_at >= date_trunc('day', now()) - interval '29 days' group by 1, 2
    )
    select team.name as team, coalesce(received.events, 0) as events, coalesce(loaded.rows, 0) as rows
    from intake.teams team cross join day
    left join received using (team_id, day) left join loaded using (team_id, day)
    order by team.name, day.day`.execute(db)
  return rows
}
