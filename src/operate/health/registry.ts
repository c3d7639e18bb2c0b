/**
 * Prometheus counters and histograms of `serve`.
 *
 * Invariant: names end in their unit or in `_total`. Label values come from small fixed sets (team, stream, reason,
 * outcome), never from an event.
 */
import { Counter, collectDefaultMetrics, Histogram, Registry } from 'prom-client'
import type { DrainWatch, IngestWatch } from '../../ingest/watch.ts'

export interface Metrics {
  readonly registry: Registry
  readonly ingest: IngestWatch
  readonly drain: DrainWatch
  /** Counts a post of alerts. */
  readonly alertsPosted: (delivered: boolean) => void
}

/** Default gauges of the client library whose names end in `_total`, the suffix of counters. */
const MISNAMED = ['handles', 'requests', 'resources'].map((each) => `intake_nodejs_active_${each}_total`)

const COMMIT_SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5]
const COMMIT_EVENTS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000]
/** 10 ms to 10 min. */
const VISIBLE_SECONDS = [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600]

export function openMetrics(): Metrics {
  const registry = new Registry()
  collectDefaultMetrics({ register: registry, prefix: 'intake_' })
  for (const name of MISNAMED) registry.removeSingleMetric(name)
  const posted = new Counter({
    name: 'intake_alert_posts_total',
    help: 'Posts to INTAKE_ALERT_URL, by outcome: delivered or failed (retried later).',
    labelNames: ['outcome'],
    registers: [registry],
  })
  const alertsPosted = (delivered: boolean) => posted.inc({ outcome: delivered ? 'delivered' : 'failed' })
  return { registry, ingest: ingestWatch(registry), drain: drainWatch(registry), alertsPosted }
}

function ingestWatch(registry: Registry): IngestWatch {
  const registers = [registry]
  const received = new Counter({
    name: 'intake_events_received_total',
    help: 'Webhook events with a valid signature that are committed, duplicates included.',
    labelNames: ['team'],
    registers,
  })
  const duplicate = new Counter({
    name: 'intake_events_duplicate_total',
    help: 'Webhook events received that were already in the inbox.',
    labelNames: ['team'],
    registers,
  })
  const rejected = new Counter({
    name: 'intake_events_rejected_total',
    help: 'Requests that were not stored, by reason; the team is empty if it is unknown.',
    labelNames: ['team', 'reason'],
    registers,
  })
  const events = new Histogram({
    name: 'intake_inbox_commit_events',
    help: 'Events of one commit to the inbox.',
    buckets: COMMIT_EVENTS,
    registers,
  })
  const seconds = new Histogram({
    name: 'intake_inbox_commit_seconds',
    help: 'Duration of one commit to the inbox.',
    buckets: COMMIT_SECONDS,
    registers,
  })
  return {
    stored(team, isDuplicate) {
      received.inc({ team })
      if (isDuplicate) duplicate.inc({ team })
    },
    rejected: (reason, team = '') => rejected.inc({ team, reason }),
    committed(count, duration) {
      events.observe(count)
      seconds.observe(duration)
    },
  }
}

function drainWatch(registry: Registry): DrainWatch {
  const registers = [registry]
  const drained = new Counter({
    name: 'intake_events_drained_total',
    help: 'Events that were processed, by outcome: done, dead (dead-lettered) or retried (later).',
    labelNames: ['team', 'outcome'],
    registers,
  })
  const visible = new Histogram({
    name: 'intake_event_visible_seconds',
    help: 'Time from the arrival of an event to the commit of its row.',
    labelNames: ['team'],
    buckets: VISIBLE_SECONDS,
    registers,
  })
  const requests = new Counter({
    name: 'intake_refetch_requests_total',
    help: 'Records fetched by id because an event did not settle their state.',
    labelNames: ['team'],
    registers,
  })
  const gone = new Counter({
    name: 'intake_refetch_gone_total',
    help: 'Records fetched by id that the service does not have.',
    labelNames: ['team'],
    registers,
  })
  const defects = new Counter({
    name: 'intake_defects_total',
    help: 'Errors of intake-sync itself while events were drained or records fetched by id, by kind. Each is in the log with its stack.',
    labelNames: ['kind'],
    registers,
  })
  return {
    defect: (kind) => defects.inc({ kind }),
    drained(team, outcomes, visibleSeconds) {
      for (const outcome of ['done', 'dead', 'retried'] as const) {
        drained.inc({ team, outcome }, outcomes[outcome])
      }
      for (const seconds of visibleSeconds) visible.observe({ team }, seconds)
    },
    refetched(team, count, notFound) {
      requests.inc({ team }, count)
      gone.inc({ team }, notFound)
    },
  }
}
