/** Each metric of our own: its name and labels, which stored queries use, and what Prometheus says of it. */
import { expect, test } from 'vitest'
import { openGauges } from '../../../src/operate/health/gauges.ts'
import { openMetrics } from '../../../src/operate/health/registry.ts'

const OURS: readonly (readonly [name: string, type: string, labels: string, help: string])[] = [
  ...[
    [
      'alert_posts_total',
      'outcome',
      'Posts to INTAKE_ALERT_URL, by outcome: delivered or failed (retried later).',
    ],
    [
      'events_received_total',
      'team',
      'Webhook events with a valid signature that are committed, duplicates included.',
    ],
    ['events_duplicate_total', 'team', 'Webhook events received that were already in the inbox.'],
    [
      ...['events_rejected_total', 'team,reason'],
      'Requests that were not stored, by reason; the team is empty if it is unknown.',
    ],
    [
      ...['events_drained_total', 'team,outcome'],
      'Events that were processed, by outcome: done, dead (dead-lettered) or retried (later).',
    ],
    ['refetch_requests_total', 'team', 'Records fetched by id because an event did not settle their state.'],
    ['refetch_gone_total', 'team', 'Records fetched by id that the service does not have.'],
    [
      ...['defects_total', 'kind'],
      'Errors of intake-sync itself while events were drained or records fetched by id, by kind. Each is in the log with its stack.',
    ],
  ].map(([name, labels, help]) => [name!, 'counter', labels!, help!] as const),
  ...[
    ['inbox_commit_events', '', 'Events of one commit to the inbox.'],
    ['inbox_commit_seconds', '', 'Duration of one commit to the inbox.'],
    ['event_visible_seconds', 'team', 'Time from the arrival of an event to the commit of its row.'],
  ].map(([name, labels, help]) => [name!, 'histogram', labels!, help!] as const),
  ...[
    ['warehouse_up', '', '1 if the warehouse responded in time, else 0.'],
    ['ingest_in_flight_events', '', 'Events received and not committed yet.'],
    ['ingest_in_flight_bytes', '', 'Bytes of the events received and not committed yet.'],
    ['inbox_pending_events', 'team', 'Stored events that are not loaded yet.'],
    ['inbox_oldest_seconds', 'team', 'Age of the oldest stored event that is not loaded yet.'],
    ['refetches_pending', 'team', 'Records that wait to be fetched by id.'],
    ['dead_letters_waiting', 'team,stream', 'Dead letters that wait for a person.'],
    ['last_run_timestamp_seconds', 'team,stream', 'When the last run of the stream began.'],
    ['last_run_ok', 'team,stream', '1 when the last run of the stream succeeded, else 0.'],
    ['last_success_timestamp_seconds', 'team,stream', 'When the last successful run of the stream ended.'],
    ['alerts_raised', 'team,cause', 'Raised alerts by cause, posted or not.'],
    ['questions_waiting', 'team', 'Reworded questions that wait for a decision.'],
    ['slices_pending', 'team', 'Streams of planned runs that no worker reads yet.'],
    ['slices_claimed', 'team', 'Streams of planned runs that a worker reads now.'],
    [
      ...['slices_claimable', 'team'],
      'Streams of planned runs that another worker could claim now; excludes those that wait for the limit of their team.',
    ],
    ['webhook_last_event_timestamp_seconds', 'team', 'When the last event arrived.'],
    ['webhook_events_last_day', 'team', 'Events of the last 24 hours.'],
    ['webhook_events_expected_per_day', 'team', 'Mean of the previous days.'],
    [
      ...['webhook_deliveries_missing', 'team'],
      'Events that the service lists as sent and that are not in the inbox.',
    ],
    ['webhook_silent', 'team', '1 when webhooks have stopped (see intake-sync status).'],
    ['webhook_quiet', 'team', '1 when fewer events arrived than expected, or some are missing.'],
  ].map(([name, labels, help]) => [name!, 'gauge', labels!, help!] as const),
]

test('metrics keep their names, types and labels, and say what they count', async () => {
  const { registry } = openMetrics()
  openGauges({
    ...{ url: '', bounded: {} as never, registry, clock: { now: () => 0, sleep: async () => {} } },
    ...{ inboxDays: 1, inFlight: () => ({ events: 0, bytes: 0 }) },
  })
  const all = await registry.getMetricsAsJSON()
  const ours = all.filter(({ name }) => !/^intake_(?:process|nodejs)_/.test(name))
  const labelsOf = (name: string) =>
    (registry.getSingleMetric(name) as unknown as { labelNames: readonly string[] }).labelNames.join()
  expect(ours.map(({ name, type, help }) => [name, type, labelsOf(name), help]).toSorted()).toEqual(
    OURS.map(([name, ...rest]) => [`intake_${name}`, ...rest]).toSorted(),
  )
  // Of the metrics of the client library, only counters end in `_total`.
  const misnamed = all.filter(({ name, type }) => name.endsWith('_total') && String(type) !== 'counter')
  expect(misnamed).toEqual([])
})
