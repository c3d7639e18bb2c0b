/** Metrics have the right values, are in the Prometheus text format, and contain no personal data. */
import { expect, it } from 'vitest'
import { systemClock } from '../../../src/core/clock.ts'
import { openGauges } from '../../../src/operate/health/gauges.ts'
import { openMetrics } from '../../../src/operate/health/registry.ts'
import { openBoundedQueries } from '../../../src/warehouse/bounded-queries.ts'
import { openWarehouse, query } from '../../e2e/support/scene.ts'
import { awayFromTheHour } from '../../support/hour.ts'

interface Metric {
  readonly name: string
  help: string
  type: string
  readonly samples: {
    readonly name: string
    readonly labels: Record<string, string>
    readonly value: string
  }[]
}

/** Reads the text format (version 0.0.4) strictly: an invalid line fails. */
function parse(text: string): readonly Metric[] {
  const metrics: Metric[] = []
  expect(text.endsWith('\n')).toBe(true)
  for (const line of text.split('\n')) {
    if (line === '') continue
    const head = /^# (HELP|TYPE) ([a-z_0-9]+) (.+)$/.exec(line)
    if (head !== null) {
      const [, what, name, rest] = head
      if (what === 'HELP') metrics.push({ name: name!, help: rest!, type: '', samples: [] })
      else metrics.at(-1)!.type = rest!
      expect(metrics.at(-1)!.name).toBe(name)
      continue
    }
    const sample = /^([a-z_0-9]+)(?:\{(.*)\})? (-?[0-9.e+-]+|NaN|Nan|[+-]Inf)$/.exec(line)
    expect([line, sample]).not.toEqual([line, null])
    const labels = Object.fromEntries(
      [...(sample![2] ?? '').matchAll(/([a-z_]+)="((?:[^"\\]|\\.)*)"/g)].map((each) => [each[1]!, each[2]!]),
    )
    metrics.at(-1)!.samples.push({ name: sample![1]!, labels, value: sample![3]! })
  }
  return metrics
}

/** A warehouse with a team in which each countable thing occurs once. */
async function everything(): Promise<readonly Metric[]> {
  await awayFromTheHour()
  await using warehouse = await openWarehouse()
  // A second team had all of it too, and was removed.
  await query(
    warehouse.url,
    `insert into intake.teams (name) values ('north'), ('gone');
     insert into intake_ops.removed_teams (team_id, name, data) select team_id, name, 'kept' from intake.teams where name = 'gone'`,
  )
  await query(
    warehouse.url,
    `insert into intake_raw.inbox (team_id, event_id, body_hash, received_on, received_at, source, record_id, body)
     select team_id, 'e-1', '\\x00', current_date, now() - interval '90 seconds', 'patient', 'canary-7f3a', 'canary-7f3a'
     from intake.teams`,
  )
  await query(
    warehouse.url,
    `insert into intake_ops.dead_letters (team_id, stream, record_id, fingerprint, origin, reason, status)
     select team_id, 'patients', 'canary-7f3a', status, 'event:e', 'why', status
     from intake.teams, unnest('{waiting,resolved,retried,discarded}'::text[]) as status`,
  )
  await query(
    warehouse.url,
    `with run as (insert into intake_ops.runs (kind, status, finished_at) values ('backfill', 'succeeded', now()) returning run_id)
     insert into intake_ops.run_streams (run_id, team_id, stream, status) select run_id, team_id, 'patients', 'succeeded' from run, intake.teams`,
  )
  for (const [stream, status, hoursAgo] of [
    ['forms', 'succeeded', 2],
    ['forms', 'failed', 0],
    ['packets', 'succeeded', 59 * 24],
    ['documents', 'succeeded', 61 * 24],
  ]) {
    await query(
      warehouse.url,
      `with run as (
         insert into intake_ops.runs (kind, status, started_at, finished_at)
         values ('backfill', $1, now() - make_interval(hours => $2), now() - make_interval(hours => $2)) returning run_id
       )
       insert into intake_ops.run_streams (run_id, team_id, stream, status)
       select run_id, team_id, $3, $1 from run, intake.teams`,
      [status, hoursAgo, stream],
    )
  }
  await query(
    warehouse.url,
    `insert into intake_ops.events_received (team_id, hour, events, last_at)
     select team_id, date_trunc('hour', now()) - make_interval(hours => ago), 1, now() from intake.teams, generate_series(0, 99) as ago`,
  )
  await query(
    warehouse.url,
    `with secret as (
       insert into intake_ops.webhook_secrets (team_id, config_id, secret, created_at)
       select team_id, 'c', '\\x00', now() - interval '9 days' from intake.teams
     )
     insert into intake.webhook_deliveries
       (team_id, id, event_id, webhook_config_id, status, response_status_code, created_at, _version, _origin)
     select team_id, event, event, 'c', 'x', code, now() - interval '1 hour', now(), 'test'
     from intake.teams, (values ('lost', 200), ('given up', 500)) as delivery (event, code)`,
  )
  await query(
    warehouse.url,
    `insert into intake_ops.alerts (team_id, cause, stream, cleared_at)
     select team_id, cause, stream, cleared_at from intake.teams, (values ('inbox_old', '', null),
       ('drift', 'patients', null), ('drift', 'forms', null), ('drift', 'packets', now()), ('defect', '', now())
     ) as alert (cause, stream, cleared_at) where name = 'north'`,
  )
  await query(
    warehouse.url,
    `insert into intake_raw.question_terms (team_id, form_id, question_id, position, kind, shows, waits)
     select team_id, 'f', 'q' || n, n, 'text', 'nothing', n < 3 from intake.teams, generate_series(1, 3) n`,
  )
  // Settled slices and the one that closes the run do not count; another team has none.
  await query(
    warehouse.url,
    `with run as (insert into intake_ops.runs (kind) values ('backfill') returning run_id)
     insert into intake_ops.slices (run_id, team_id, stream, spec, state, owner)
     select run_id, case when stream <> '' then team_id end, stream, '{"version": 1}', state,
       case state when 'claimed' then 'host:1:00000000' end
     from run, intake.teams, (values ('patients', 'pending'), ('forms', 'pending'), ('packets', 'pending'),
       ('documents', 'claimed'), ('responses', 'claimed'), ('messages', 'done'), ('messages', 'canceled'), ('', 'pending')
     ) as slice (stream, state)`,
  )
  // East has as many as workers may read of a team at once, west none yet.
  await query(
    warehouse.url,
    `with run as (insert into intake_ops.runs (kind) values ('backfill') returning run_id), teams as (
       insert into intake.teams (name) values ('south'), ('east'), ('west') returning team_id, name)
     insert into intake_ops.slices (run_id, team_id, stream, spec, state, owner)
     select run_id, team_id, stream, '{"version": 1}', state, case state when 'claimed' then 'host:1:00000000' end
     from run, teams, unnest(array['patients', 'forms', 'packets', 'documents', 'responses', 'messages', 'exports'])
         with ordinality as planned (stream, place),
       lateral (select case when name = 'east' and place <= 4 then 'claimed' else 'pending' end as state) as own
     where name <> 'south'`,
  )
  const { registry, ingest, drain, alertsPosted } = openMetrics()
  for (const isDelivered of [false, true, true]) alertsPosted(isDelivered)
  ingest.stored('north', false)
  ingest.stored('north', true)
  ingest.rejected('signature', 'north')
  ingest.rejected('unknown_team')
  ingest.committed(7, 0.004)
  drain.drained('north', { done: 2, dead: 1, retried: 4 }, [0.02, 3])
  drain.refetched('north', 5, 1)
  drain.defect('TypeError')
  await using bounded = openBoundedQueries(warehouse.url)
  const gauges = openGauges({
    ...{ url: warehouse.url, bounded, registry, clock: systemClock, inboxDays: 30 },
    inFlight: () => ({ events: 3, bytes: 700 }),
  })
  await gauges.refresh()
  return parse(await registry.metrics())
}

it('reports the counts of the process and the state of the warehouse', async () => {
  const metrics = await everything()
  const valueAt = (name: string, labels: Record<string, string> = {}) => {
    const samples = metrics.flatMap((metric) => metric.samples).filter((sample) => sample.name === name)
    const found = samples.find((sample) => JSON.stringify(sample.labels) === JSON.stringify(labels))
    return found === undefined ? undefined : Number(found.value)
  }
  const named = metrics.flatMap(({ samples }) => samples.map(({ labels }) => labels.team ?? ''))
  expect([...new Set(named)].sort()).toEqual(['', 'east', 'north', 'south', 'west'])
  const team = { team: 'north' }
  expect(valueAt('intake_events_received_total', team)).toBe(2)
  expect(valueAt('intake_events_duplicate_total', team)).toBe(1)
  expect(valueAt('intake_events_rejected_total', { ...team, reason: 'signature' })).toBe(1)
  expect(valueAt('intake_events_rejected_total', { team: '', reason: 'unknown_team' })).toBe(1)
  expect(valueAt('intake_inbox_commit_events_sum')).toBe(7)
  expect(valueAt('intake_inbox_commit_seconds_sum')).toBe(0.004)
  expect(valueAt('intake_inbox_commit_seconds_count')).toBe(1)
  expect(valueAt('intake_events_drained_total', { ...team, outcome: 'done' })).toBe(2)
  expect(valueAt('intake_events_drained_total', { ...team, outcome: 'dead' })).toBe(1)
  expect(valueAt('intake_events_drained_total', { ...team, outcome: 'retried' })).toBe(4)
  expect(valueAt('intake_event_visible_seconds_bucket', { le: '0.025', ...team })).toBe(1)
  expect(valueAt('intake_event_visible_seconds_bucket', { le: '600', ...team })).toBe(2)
  expect(valueAt('intake_refetch_requests_total', team)).toBe(5)
  expect(valueAt('intake_refetch_gone_total', team)).toBe(1)
  expect(valueAt('intake_defects_total', { kind: 'TypeError' })).toBe(1)
  expect(valueAt('intake_inbox_pending_events', team)).toBe(1)
  expect(valueAt('intake_inbox_oldest_seconds', team)).toBeGreaterThan(89)
  expect(valueAt('intake_refetches_pending', team)).toBe(0)
  expect(valueAt('intake_ingest_in_flight_bytes')).toBe(700)
  expect(valueAt('intake_dead_letters_waiting', { ...team, stream: 'patients' })).toBe(1)
  expect(valueAt('intake_questions_waiting', team)).toBe(2)
  expect(valueAt('intake_slices_pending', team)).toBe(3)
  expect(valueAt('intake_slices_claimed', team)).toBe(2)
  // Workers read at most four of a team at once.
  expect(valueAt('intake_slices_claimable', team)).toBe(2)
  for (const [other, ...counts] of [
    ['east', 3, 4, 0],
    ['west', 7, 0, 4],
    ['south', 0, 0, 0],
  ] as const)
    expect(
      ['pending', 'claimed', 'claimable'].map((what) => valueAt(`intake_slices_${what}`, { team: other })),
    ).toEqual(counts)
  expect(valueAt('intake_slices_pending', { team: 'south' })).toBe(0)
  expect(valueAt('intake_slices_claimed', { team: 'south' })).toBe(0)
  expect(valueAt('intake_last_run_ok', { ...team, stream: 'patients' })).toBe(1)
  const ageOf = (stream: string) =>
    Date.now() / 1000 - valueAt('intake_last_success_timestamp_seconds', { ...team, stream })!
  expect(Math.abs(ageOf('patients'))).toBeLessThan(60)
  // A later failed run is no success, however recent.
  expect(valueAt('intake_last_run_ok', { ...team, stream: 'forms' })).toBe(0)
  expect(Math.abs(ageOf('forms') - 7_200)).toBeLessThan(60)
  const begun = valueAt('intake_last_run_timestamp_seconds', { ...team, stream: 'forms' })!
  expect(Math.abs(Date.now() / 1000 - begun)).toBeLessThan(60)
  // Runs of the last sixty days count.
  expect(valueAt('intake_last_run_ok', { ...team, stream: 'packets' })).toBe(1)
  expect(valueAt('intake_last_run_ok', { ...team, stream: 'documents' })).toBeUndefined()
  expect(valueAt('intake_alerts_raised', { ...team, cause: 'inbox_old' })).toBe(1)
  expect(valueAt('intake_alerts_raised', { ...team, cause: 'drift' })).toBe(2)
  expect(valueAt('intake_alerts_raised', { ...team, cause: 'defect' })).toBeUndefined()
  expect(valueAt('intake_alert_posts_total', { outcome: 'failed' })).toBe(1)
  expect(valueAt('intake_alert_posts_total', { outcome: 'delivered' })).toBe(2)
  expect(valueAt('intake_warehouse_up')).toBe(1)
  expect(valueAt('intake_webhook_silent', team)).toBe(0)
  // A delivery that never arrived.
  expect(valueAt('intake_webhook_quiet', team)).toBe(1)
  expect(valueAt('intake_webhook_deliveries_missing', team)).toBe(2)
  expect(valueAt('intake_webhook_events_last_day', team)).toBe(24)
  expect(valueAt('intake_webhook_events_expected_per_day', team)).toBeGreaterThan(20)
  expect(
    Math.abs(Date.now() / 1000 - valueAt('intake_webhook_last_event_timestamp_seconds', team)!),
  ).toBeLessThan(60)
  // South had no event, and no mean to expect any by.
  expect(valueAt('intake_webhook_quiet', { team: 'south' })).toBe(0)
  expect(valueAt('intake_webhook_last_event_timestamp_seconds', { team: 'south' })).toBeUndefined()
  expect(valueAt('intake_webhook_events_expected_per_day', { team: 'south' })).toBeUndefined()
})

it('is well-formed: help and type for each metric, units and _total as suffixes, labels from a small set', async () => {
  const metrics = await everything()
  expect(new Set(metrics.map(({ name }) => name)).size).toBe(metrics.length)
  const samples = metrics.flatMap((metric) => metric.samples.map((sample) => ({ metric, ...sample })))
  expect(new Set(samples.map(({ name, labels }) => `${name} ${JSON.stringify(labels)}`)).size).toBe(
    samples.length,
  )
  for (const { name, type, help, samples: own } of metrics) {
    // Metrics of Node without a current value have no samples.
    const hasSamples = own.length > 0 || name.startsWith('intake_nodejs_')
    expect([name, help.length > 10, hasSamples]).toEqual([name, true, true])
    expect(name).toMatch(/^intake_[a-z_0-9]+[a-z]$/)
    expect([name, type]).toEqual([name, expect.stringMatching(/^(counter|gauge|histogram)$/)])
    expect([name, name.endsWith('_total')]).toEqual([name, type === 'counter'])
    // No suffixes that Prometheus adds itself, no type names, no units other than base units.
    expect(name).not.toMatch(
      /_(?:count|sum|bucket|counter|gauge|histogram|milliseconds|ms|minutes|hours|days|kilobytes)$/,
    )
    if (type === 'histogram') expect(name).toMatch(/_(?:seconds|bytes|events)$/)
  }
  for (const { metric, name, labels } of samples) {
    const suffix = metric.type === 'histogram' ? '(?:_bucket|_sum|_count)' : ''
    expect(name).toMatch(new RegExp(`^${metric.name}${suffix}$`))
    if (/^intake_(?:process|nodejs)_/.test(name)) continue
    for (const label of Object.keys(labels))
      expect(['team', 'stream', 'reason', 'outcome', 'cause', 'kind', 'le']).toContain(label)
  }
})

it('contains no id of a record and no body', async () => {
  expect(JSON.stringify(await everything())).not.toContain('canary-7f3a')
})
