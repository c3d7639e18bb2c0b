/**
 * Prometheus gauges of the warehouse, refreshed when metrics are requested.
 *
 * Invariant: a response waits for the warehouse at most `LIMIT_MS`. Gauges that are not refreshed in time keep their last
 * values, and `intake_warehouse_up` is 0. Concurrent requests share one query.
 */
import { type Kysely, sql } from 'kysely'
import { Gauge, type Registry } from 'prom-client'
import { type WaitingQuestion, waitingQuestions } from '../../analytics/classify.ts'
import type { Clock } from '../../core/clock.ts'
import { CLAIMED_PER_TEAM } from '../../load/claims.ts'
import { isRemoved } from '../../load/teams.ts'
import { type BoundedQueries, boundedQuery } from '../../warehouse/bounded-queries.ts'
import type { Warehouse } from '../../warehouse/tables.ts'
import { countRaised, type RaisedCount } from '../alerts/alert-rows.ts'
import { type InboxStatus, readInbox, readTrouble, type StreamTrouble } from './team-status.ts'
import { type MakeGauge, openWebhookChecks, webhookGauges } from './webhook-checks.ts'

export interface GaugesOptions {
  readonly url: string
  readonly bounded: BoundedQueries
  readonly registry: Registry
  readonly clock: Clock
  readonly inboxDays: number
  /** Events received but not committed yet. */
  readonly inFlight: () => { readonly events: number; readonly bytes: number }
}

export interface Gauges {
  /** Refreshes the gauges that are not fresh. Resolves within two seconds, whatever the warehouse does. */
  refresh(): Promise<void>
}

const LIMIT_MS = 1_500
/** Limit of slow queries. A response does not wait for them; the next one shows their result. */
const SLOW_LIMIT_MS = 8_000
/** Values are fresh for this long, in microseconds. */
const FRESH = 5_000_000
/** The same for slow queries. */
const SLOW_FRESH = 60_000_000

export function openGauges(options: GaugesOptions): Gauges {
  const { url, bounded, registry, clock, inboxDays } = options
  const gauge = <Label extends string>(name: string, help: string, labelNames: readonly Label[] = []) =>
    new Gauge({ name: `intake_${name}`, help, labelNames: [...labelNames], registers: [registry] })
  const up = gauge('warehouse_up', '1 if the warehouse responded in time, else 0.')
  const events = gauge('ingest_in_flight_events', 'Events received and not committed yet.')
  const bytes = gauge('ingest_in_flight_bytes', 'Bytes of the events received and not committed yet.')
  const showInbox = inboxGauges(gauge)
  const showTrouble = troubleGauges(gauge)
  const showAlerts = alertGauge(gauge)
  const showQuestions = questionsGauge(gauge)
  const showSlices = slicesGauges(gauge)
  const webhooks = webhookGauges(gauge)
  const webhookChecks = openWebhookChecks({ inboxDays })
  const sources = [
    openSource(FRESH, clock, async () => {
      const [inbox, trouble, alerts, questions, slices] = await bounded.run(
        { purpose: 'metrics', milliseconds: LIMIT_MS },
        async (db) =>
          [
            await readInbox(db),
            await readTrouble(db),
            await countRaised(db),
            await waitingQuestions(db),
            await countSlices(db),
          ] as const,
      )
      showInbox(inbox)
      webhooks.keep(inbox)
      showTrouble(trouble)
      showAlerts(alerts)
      showQuestions(inbox, questions)
      showSlices(slices)
    }),
    openSource(SLOW_FRESH, clock, async () => {
      const query = { url, purpose: 'webhook metrics', milliseconds: SLOW_LIMIT_MS }
      webhooks.show(await boundedQuery(query, (db) => webhookChecks.check(db, null)))
    }),
  ]
  return {
    async refresh() {
      const inFlight = options.inFlight()
      events.set(inFlight.events)
      bytes.set(inFlight.bytes)
      const found = await withinLimit(sources.map((refresh) => refresh()))
      up.set(found[0] === true ? 1 : 0)
    },
  }
}

/** Returns null for each result that exceeds the limit. */
async function withinLimit<Result>(work: readonly Promise<Result>[]): Promise<readonly (Result | null)[]> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<null>((resolve) => {
    timer = setTimeout(resolve, LIMIT_MS, null)
  })
  const results = await Promise.all(work.map((each) => Promise.race([each, late])))
  clearTimeout(timer)
  return results
}

/** Runs one query at a time, and not while its values are fresh. Resolves to whether the last query succeeded. */
function openSource(fresh: number, clock: Clock, read: () => Promise<void>): () => Promise<boolean> {
  let at = Number.NEGATIVE_INFINITY
  let last: Promise<boolean> = Promise.resolve(false)
  let isReading = false
  return () => {
    if (isReading || clock.now() - at < fresh) return last
    isReading = true
    last = read()
      .then(
        () => {
          at = clock.now()
          return true
        },
        // The next request tries again.
        () => false,
      )
      .finally(() => {
        isReading = false
      })
    return last
  }
}

function inboxGauges(gauge: MakeGauge): (teams: readonly InboxStatus[]) => void {
  const pending = gauge('inbox_pending_events', 'Stored events that are not loaded yet.', ['team'])
  const oldest = gauge('inbox_oldest_seconds', 'Age of the oldest stored event that is not loaded yet.', [
    'team',
  ])
  const refetches = gauge('refetches_pending', 'Records that wait to be fetched by id.', ['team'])
  return (teams) => {
    // Removes the labels of teams that have been removed.
    for (const each of [pending, oldest, refetches]) each.reset()
    for (const { team, ...inbox } of teams) {
      pending.set({ team }, inbox.pending)
      oldest.set({ team }, inbox.oldest_pending_seconds ?? 0)
      refetches.set({ team }, inbox.refetches)
    }
  }
}

function troubleGauges(gauge: MakeGauge): (rows: readonly StreamTrouble[]) => void {
  const labels = ['team', 'stream'] as const
  const deadLetters = gauge('dead_letters_waiting', 'Dead letters that wait for a person.', labels)
  const run = gauge('last_run_timestamp_seconds', 'When the last run of the stream began.', labels)
  const ok = gauge('last_run_ok', '1 when the last run of the stream succeeded, else 0.', labels)
  const success = gauge(
    'last_success_timestamp_seconds',
    'When the last successful run of the stream ended.',
    labels,
  )
  return (rows) => {
    // A stream without dead letters and runs has no row.
    for (const each of [deadLetters, run, ok, success]) each.reset()
    for (const { team, stream, ...row } of rows) {
      deadLetters.set({ team, stream }, row.dead_letters)
      if (row.last_run_at !== null) run.set({ team, stream }, row.last_run_at.getTime() / 1000)
      if (row.last_run_ok !== null) ok.set({ team, stream }, row.last_run_ok ? 1 : 0)
      if (row.last_success_at !== null) success.set({ team, stream }, row.last_success_at.getTime() / 1000)
    }
  }
}

function questionsGauge(
  gauge: MakeGauge,
): (teams: readonly InboxStatus[], questions: readonly WaitingQuestion[]) => void {
  const waiting = gauge('questions_waiting', 'Reworded questions that wait for a decision.', ['team'])
  return (teams, questions) => {
    waiting.reset()
    for (const { team } of teams)
      waiting.set({ team }, questions.filter((question) => question.team === team).length)
  }
}

function alertGauge(gauge: MakeGauge): (rows: readonly RaisedCount[]) => void {
  const raised = gauge('alerts_raised', 'Raised alerts by cause, posted or not.', ['team', 'cause'])
  return (rows) => {
    raised.reset()
    for (const { team, cause, count } of rows) raised.set({ team, cause }, count)
  }
}

interface SliceCounts {
  readonly team: string
  readonly pending: number
  readonly claimed: number
  /** Pending ones that another worker could claim now. */
  readonly claimable: number
}

async function countSlices(db: Kysely<Warehouse>): Promise<readonly SliceCounts[]> {
  const { rows } = await sql<SliceCounts>`
    select team.name as team, count(slice) filter (where state = 'pending')::int as pending,
      count(slice) filter (where state = 'claimed')::int as claimed,
      least(count(slice) filter (where state = 'pending'),
        greatest(${CLAIMED_PER_TEAM} - count(slice) filter (where state = 'claimed'), 0))::int as claimable
    from intake.teams team
    left join intake_ops.slices slice on slice.team_id = team.team_id and slice.state in ('pending', 'claimed')
    where not ${isRemoved(sql.ref('team.team_id'))} group by team.name`.execute(db)
  return rows
}

function slicesGauges(gauge: MakeGauge): (teams: readonly SliceCounts[]) => void {
  const pending = gauge('slices_pending', 'Streams of planned runs that no worker reads yet.', ['team'])
  const claimed = gauge('slices_claimed', 'Streams of planned runs that a worker reads now.', ['team'])
  const claimable = gauge(
    'slices_claimable',
    'Streams of planned runs that another worker could claim now; excludes those that wait for the limit of their team.',
    ['team'],
  )
  return (teams) => {
    for (const each of [pending, claimed, claimable]) each.reset()
    for (const { team, ...counts } of teams) {
      pending.set({ team }, counts.pending)
      claimed.set({ team }, counts.claimed)
      claimable.set({ team }, counts.claimable)
    }
  }
}
