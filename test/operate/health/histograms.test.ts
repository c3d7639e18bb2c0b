/** The buckets of histograms distinguish the values that they are for, and those of one process are its own. */
import { expect, it } from 'vitest'
import { openMetrics } from '../../../src/operate/health/registry.ts'

type Metrics = ReturnType<typeof openMetrics>

/** The samples of each bucket, without those of smaller ones. */
async function bucketsOf({ registry }: Metrics, name: string): Promise<Record<string, number>> {
  const found = (await registry.getMetricsAsJSON()).find((metric) => metric.name === name)!
  let before = 0
  return Object.fromEntries(
    found.values.flatMap(({ value, labels }) => {
      if (labels.le === undefined) return []
      const own = value - before
      before = value
      return [[`up to ${labels.le}`, own] as const]
    }),
  )
}

const only = (buckets: Record<string, number>) =>
  Object.fromEntries(Object.entries(buckets).filter(([, count]) => count > 0))

it('a commit of 1 to 1000 events is counted by its number of events, and by its seconds from 1 ms to 2.5 s', async () => {
  const metrics = openMetrics()
  for (const [events, seconds] of [
    [1, 0.001],
    [3, 0.002],
    [60, 0.03],
    [1000, 2.5],
    [1001, 2.6],
  ] as const)
    metrics.ingest.committed(events, seconds)
  expect(only(await bucketsOf(metrics, 'intake_inbox_commit_events'))).toEqual({
    ...{ 'up to 1': 1, 'up to 5': 1, 'up to 100': 1, 'up to 1000': 1, 'up to +Inf': 1 },
  })
  expect(only(await bucketsOf(metrics, 'intake_inbox_commit_seconds'))).toEqual({
    ...{ 'up to 0.001': 1, 'up to 0.0025': 1, 'up to 0.05': 1, 'up to 2.5': 1, 'up to +Inf': 1 },
  })
})

it('an event is counted by the time until its row is visible, from 10 ms to 10 min', async () => {
  const metrics = openMetrics()
  metrics.drain.drained('north', { done: 5, dead: 0, retried: 0 }, [0.01, 0.2, 4, 600, 601])
  expect(only(await bucketsOf(metrics, 'intake_event_visible_seconds'))).toEqual({
    ...{ 'up to 0.01': 1, 'up to 0.25': 1, 'up to 5': 1, 'up to 600': 1, 'up to +Inf': 1 },
  })
})

it.each([
  ['intake_inbox_commit_events', [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000]],
  ['intake_inbox_commit_seconds', [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5]],
  ['intake_event_visible_seconds', [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600]],
] as const)('%s keeps its buckets, which stored queries name', async (name, limits) => {
  const metrics = openMetrics()
  metrics.ingest.committed(1, 1)
  metrics.drain.drained('north', { done: 1, dead: 0, retried: 0 }, [1])
  const expected = [...limits, '+Inf'].map((limit) => `up to ${limit}`)
  expect(Object.keys(await bucketsOf(metrics, name))).toEqual(expected)
})

it('two services of one process count only their own', async () => {
  const [one, two] = [openMetrics(), openMetrics()]
  one.ingest.committed(3, 0.002)
  for (const name of ['intake_inbox_commit_events', 'intake_inbox_commit_seconds']) {
    expect(Object.keys(only(await bucketsOf(one, name)))).toHaveLength(1)
    expect(only(await bucketsOf(two, name))).toEqual({})
  }
})
