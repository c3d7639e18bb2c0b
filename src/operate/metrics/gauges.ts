/**
 * What the warehouse holds and awaits, as Prometheus gauges, looked up when somebody asks for metrics.
 *
 * Invariant: an answer never waits for the warehouse longer than its limit. What could not be looked up in time keeps
 * its last values, and `intake_warehouse_up` says so; several who ask at once share one look.
 */
import { Gauge, type Registry } from 'prom-client'
import type { Clock } from '../../core/clock.ts'
import { glance } from '../../warehouse/glance.ts'
import { countRaised, type RaisedCount } from '../alerts/alert-rows.ts'
import {
  type InboxStatus,
  readInbox,
  readTrouble,
  type StreamTrouble,
  type WebhookStatus,
} from '../health/team-status.ts'
import { openWebhookChecks } from '../health/webhook-checks.ts'

export interface GaugesOptions {
  readonly url: string
  readonly registry: Registry
  readonly clock: Clock
  readonly inboxDays: number
  /** Events received but not committed yet. */
  readonly inFlight: () => { readonly events: number; readonly bytes: number }
}

export interface Gauges {
  /** Looks up what is older than it may be. Resolves within two seconds, whatever the warehouse does. */
  refresh(): Promise<void>
}

const LIMIT_MS = 1_500
/** For what takes longer to find out: nobody waits for it, it is told the next time. */
const SLOW_LIMIT_MS = 8_000
/** How old a value may be, in microseconds. */
const FRESH = 5_000_000
/** Of what takes longer to find out and changes slowly. */
const SLOW_FRESH = 60_000_000

export function openGauges(options: GaugesOptions): Gauges {
  const { url, registry, clock, inboxDays } = options
  const gauge = <Label extends string>(name: string, help: string, labelNames: readonly Label[] = []) =>
    new Gauge({ name: `intake_${name}`, help, labelNames: [...labelNames], registers: [registry] })
  const up = gauge('warehouse_up', '1 when the warehouse told what it holds in time, else 0.')
  const events = gauge('ingest_in_flight_events', 'Events received and not committed yet.')
  const bytes = gauge('ingest_in_flight_bytes', 'Bytes of the events received and not committed yet.')
  const showInbox = inboxGauges(gauge)
  const showTrouble = troubleGauges(gauge)
  const showAlerts = alertGauge(gauge)
  const showWebhooks = webhookGauges(gauge)
  const webhookChecks = openWebhookChecks({ inboxDays })
  const looks = [
    openLook(FRESH, clock, async () => {
      const look = { url, purpose: 'metrics', milliseconds: LIMIT_MS }
      const [inbox, trouble, alerts] = await glance(
        look,
        async (db) => [await readInbox(db), await readTrouble(db), await countRaised(db)] as const,
      )
      showInbox(inbox)
      showTrouble(trouble)
      showAlerts(alerts)
    }),
    openLook(SLOW_FRESH, clock, async () => {
      const look = { url, purpose: 'webhook metrics', milliseconds: SLOW_LIMIT_MS }
      showWebhooks(await glance(look, (db) => webhookChecks.check(db, null)))
    }),
  ]
  return {
    async refresh() {
      const inFlight = options.inFlight()
      events.set(inFlight.events)
      bytes.set(inFlight.bytes)
      const found = await withinLimit(looks.map((look) => look()))
      up.set(found[0] === true ? 1 : 0)
    },
  }
}

/** The results that are there in time; null for the others. */
async function withinLimit<Result>(work: readonly Promise<Result>[]): Promise<readonly (Result | null)[]> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<null>((resolve) => {
    timer = setTimeout(resolve, LIMIT_MS, null)
  })
  const results = await Promise.all(work.map((each) => Promise.race([each, late])))
  clearTimeout(timer)
  return results
}

/** One look at a time, not again before its values are old. The function says whether the last one succeeded. */
function openLook(fresh: number, clock: Clock, look: () => Promise<void>): () => Promise<boolean> {
  let at = Number.NEGATIVE_INFINITY
  let last: Promise<boolean> = Promise.resolve(false)
  let looking = false
  return () => {
    if (looking || clock.now() - at < fresh) return last
    looking = true
    last = look()
      .then(
        () => {
          at = clock.now()
          return true
        },
        // Not found out: the next one who asks tries again.
        () => false,
      )
      .finally(() => {
        looking = false
      })
    return last
  }
}

type MakeGauge = <Label extends string>(
  name: string,
  help: string,
  labelNames?: readonly Label[],
) => Gauge<Label>

function inboxGauges(gauge: MakeGauge): (teams: readonly InboxStatus[]) => void {
  const pending = gauge('inbox_pending_events', 'Stored events that are not in the tables yet.', ['team'])
  const oldest = gauge('inbox_oldest_seconds', 'Age of the oldest stored event not in the tables yet.', [
    'team',
  ])
  const refetches = gauge('refetches_pending', 'Records that wait to be asked for by id.', ['team'])
  return (teams) => {
    // A team that was removed has no figures any more.
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
  const letters = gauge(
    'dead_letters_waiting',
    'Records and events set aside that wait for a person.',
    labels,
  )
  const run = gauge('last_run_timestamp_seconds', 'When the last run of the stream began.', labels)
  const ok = gauge('last_run_ok', '1 when the last run of the stream succeeded, else 0.', labels)
  const success = gauge(
    'last_success_timestamp_seconds',
    'When the last successful run of the stream ended.',
    labels,
  )
  return (rows) => {
    // A dead letter that was the last of its stream leaves no row.
    for (const each of [letters, run, ok, success]) each.reset()
    for (const { team, stream, ...row } of rows) {
      letters.set({ team, stream }, row.dead_letters)
      if (row.last_run_at !== null) run.set({ team, stream }, row.last_run_at.getTime() / 1000)
      if (row.last_run_ok !== null) ok.set({ team, stream }, row.last_run_ok ? 1 : 0)
      if (row.last_success_at !== null) success.set({ team, stream }, row.last_success_at.getTime() / 1000)
    }
  }
}

function alertGauge(gauge: MakeGauge): (rows: readonly RaisedCount[]) => void {
  const raised = gauge('alerts_raised', 'Causes of alerts that are not over, told or not.', ['team', 'cause'])
  return (rows) => {
    raised.reset()
    for (const { team, cause, count } of rows) raised.set({ team, cause }, count)
  }
}

function webhookGauges(gauge: MakeGauge): (teams: readonly WebhookStatus[]) => void {
  const labels = ['team'] as const
  const last = gauge('webhook_last_event_timestamp_seconds', 'When the last event came.', labels)
  const day = gauge('webhook_events_last_day', 'Events of the last 24 hours.', labels)
  const expected = gauge('webhook_events_expected_per_day', 'Mean of the days before.', labels)
  const missing = gauge(
    'webhook_deliveries_missing',
    'Events that the service lists as sent to us and that the inbox does not hold.',
    labels,
  )
  const silent = gauge('webhook_silent', '1 when webhooks have stopped (see intake-sync status).', labels)
  const quiet = gauge('webhook_quiet', '1 when fewer came than expected, or some are missing.', labels)
  return (teams) => {
    for (const { team, verdict, ...status } of teams) {
      if (status.last_event_at !== null) last.set({ team }, Date.parse(status.last_event_at) / 1000)
      day.set({ team }, status.events_last_day)
      if (status.events_expected_a_day !== null) expected.set({ team }, status.events_expected_a_day)
      missing.set({ team }, status.deliveries_missing + status.deliveries_failed)
      silent.set({ team }, verdict === 'silent' ? 1 : 0)
      quiet.set({ team }, verdict === 'quiet' ? 1 : 0)
    }
  }
}
