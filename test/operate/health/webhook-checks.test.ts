/** The gauges of webhooks: one verdict is shown at a time, and nothing that is not known. */
import { Gauge, Registry } from 'prom-client'
import { expect, test } from 'vitest'
import type { SilenceVerdict } from '../../../src/operate/health/silence.ts'
import { type MakeGauge, webhookGauges } from '../../../src/operate/health/webhook-checks.ts'

test('each verdict is shown, until the next one of the team; a team that is not judged keeps its values', async () => {
  const registry = new Registry()
  const gauge: MakeGauge = (name, help, labelNames = []) =>
    new Gauge({ name, help, labelNames: [...labelNames], registers: [registry] })
  const { show, keep } = webhookGauges(gauge)
  const shown = async (team: string) =>
    Object.fromEntries(
      (await registry.metrics())
        .split('\n')
        .filter((line) => line.includes(`{team="${team}"}`))
        .map((line) => [line.split('{')[0]!.replace('webhook_', ''), Number(line.split(' ').at(-1))]),
    )
  const status = (team: string, verdict: SilenceVerdict) => {
    const figures = { events_last_day: 2, deliveries_missing: 3, deliveries_failed: 4 }
    return { ...{ team, verdict, reason: '', last_event_at: null, events_expected_a_day: null }, ...figures }
  }
  const figures = { events_last_day: 2, deliveries_missing: 7 }
  show([status('north', 'silent'), status('south', 'quiet')])
  expect(await shown('north')).toEqual({ ...figures, silent: 1, quiet: 0 })
  expect(await shown('south')).toEqual({ ...figures, silent: 0, quiet: 1 })
  const known = { last_event_at: '2026-01-01T00:00:00.250Z', events_expected_a_day: 5.5 }
  show([{ ...status('north', 'ok'), ...known }])
  expect(await shown('north')).toEqual({
    ...{ ...figures, silent: 0, quiet: 0, events_expected_per_day: 5.5 },
    last_event_timestamp_seconds: Date.UTC(2026, 0, 1) / 1000 + 0.25,
  })
  expect(await shown('south')).toEqual({ ...figures, silent: 0, quiet: 1 })
  // None expected is known too.
  show([{ ...status('north', 'ok'), ...known, events_expected_a_day: 0 }])
  expect(await shown('north')).toMatchObject({ events_expected_per_day: 0 })
  keep([{ team: 'north' }])
  expect(await shown('south')).toEqual({})
  expect(await shown('north')).toMatchObject({ silent: 0 })
})
