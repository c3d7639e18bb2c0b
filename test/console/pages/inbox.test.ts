/** Rates and times of events, read from the metrics of the process that receives them. */
import { afterEach, expect, it, vi } from 'vitest'
import { metricsIn, quantileOf, type Sample, sampleOf, serveInbox } from '../../../src/console/pages/inbox.ts'

const text = (
  received: number,
  done: number,
  fast: number,
  all: number,
) => `# HELP intake_events_received_total x
# TYPE intake_events_received_total counter
intake_events_received_total{team="north"} ${received}
intake_events_received_total{team="south"} 2
intake_events_drained_total{team="north",outcome="done"} ${done}
intake_events_drained_total{team="north",outcome="retried"} 999
intake_events_rejected_total{team="",reason="signature"} 3
intake_events_rejected_total{team="north",reason="too_large"} 0
intake_event_visible_seconds_bucket{le="0.1",team="north"} ${fast}
intake_event_visible_seconds_bucket{le="1",team="north"} ${all}
intake_event_visible_seconds_bucket{le="+Inf",team="north"} ${all}
intake_event_visible_seconds_bucket{le="0.1",team="south"} 0
process_cpu_seconds_total 1.5e+1
`

it('reads counts, refusals by reason and the times of all teams', () => {
  expect(metricsIn(text(10, 4, 3, 4))).toEqual({
    ...{ received: 12, drained: 4, refused: [{ team: '', reason: 'signature', count: 3 }] },
    visible: [
      [0.1, 3],
      [1, 4],
      [Number.POSITIVE_INFINITY, 4],
    ],
  })
  const several = [
    ...['north', 'south'].flatMap((team) => [
      `intake_events_drained_total{team="${team}",outcome="done"} 5`,
      `intake_events_drained_total{team="${team}",outcome="dead"} 2`,
      `intake_events_rejected_total{team="${team}",reason="overload"} 1`,
      `intake_event_visible_seconds_bucket{le="0.5",team="${team}"} 3`,
    ]),
    ...['# intake_events_received_total 7', 'other_intake_events_received_total 7'],
    ...['intake_events_received_total 7 x', 'intake_events_received_total{team="a"} 1.5e+1'],
  ].join('\n')
  expect(metricsIn(several)).toEqual({
    ...{ received: 15, drained: 14, visible: [[0.5, 6]] },
    refused: ['north', 'south'].map((team) => ({ team, reason: 'overload', count: 1 })),
  })
  expect(metricsIn('')).toEqual({ received: 0, drained: 0, refused: [], visible: [] })
})

it('a sample has the rates since the one before; a restarted process counts from zero', () => {
  const [before, now] = [metricsIn(text(10, 4, 3, 4)), metricsIn(text(30, 24, 12, 24))]
  // Ten requests were refused.
  const refused = [
    { team: '', reason: 'signature', count: 9 },
    { team: 'north', reason: 'overload', count: 4 },
  ]
  expect(sampleOf(1_000.4, 2, before, { ...now, refused })).toEqual({
    ...{ at: 1_000, received: 15, stored: 10, drained: 10 },
    ...{ p50: 1, p99: 1 },
  })
  expect(sampleOf(1_000, 2, now, before)).toEqual({
    ...{ at: 1_000, received: 0, stored: 0, drained: 0 },
    p50: null,
    p99: null,
  })
})

it('a quantile is the bound below which the share lies', () => {
  const counts = [[0.1, 90] as const, [1, 98] as const, [Number.POSITIVE_INFINITY, 100] as const]
  expect([0.5, 0.9, 0.95, 0.99].map((share) => quantileOf(counts, share))).toEqual([0.1, 0.1, 1, 1])
  expect(quantileOf([], 0.5)).toBeNull()
})

afterEach(() => {
  vi.restoreAllMocks()
})

it('samples are those of the last ten minutes, of two seconds each, in seconds since 1970', async () => {
  let seconds = 1_000
  let received = 0
  vi.spyOn(globalThis, 'fetch').mockImplementation(async () => {
    received += 6
    return new globalThis.Response(`intake_events_received_total ${received}\n`)
  })
  const routes = new Map<string, () => Promise<unknown>>()
  const app = {
    get: (path: string, _: unknown, handler: () => Promise<unknown>) => routes.set(path, handler),
  }
  const options = { clock: { now: () => seconds * 1e6 }, metricsUrl: 'http://h/metrics' }
  serveInbox(app as never, { options, readings: { share: () => ({}) } } as never)
  const sampled = async () => ((await routes.get('/inbox/samples')!()) as { samples: Sample[] }).samples
  for (let round = 0; round < 303; round++, seconds += 2) await sampled()
  const samples = await sampled()
  expect([samples.length, samples[0]!.at, samples.at(-1)!.at]).toEqual([300, 1_008, 1_606])
  expect(new Set(samples.map(({ stored }) => stored))).toEqual(new Set([3]))
})

it('no rate is worked out across a time without an answer, and whoever looks meanwhile looks again', async () => {
  let seconds = 1_000
  let received: number | null = 0
  let asked = 0
  vi.spyOn(globalThis, 'fetch').mockImplementation(async () => {
    asked += 1
    if (received === null) throw new Error('away')
    return new globalThis.Response(`intake_events_received_total ${received}\n`)
  })
  type Handler = (
    request?: object,
    reply?: object,
  ) => Promise<{ samples: Sample[]; data: { metrics: unknown } }>
  const routes = new Map<string, Handler>()
  const app = { get: (path: string, _: unknown, handler: Handler) => routes.set(path, handler) }
  const options = { clock: { now: () => seconds * 1e6 }, metricsUrl: 'http://h/metrics' }
  const show = async (_request: unknown, _reply: unknown, page: object) => page
  const readings = { share: () => ({ within: async () => [[], []] }) }
  serveInbox(app as never, { options, readings, show } as never)
  const rates = async () =>
    (await routes.get('/inbox/samples')!()).samples.map(({ at, stored }) => [at, stored])
  const step = async (later: number, count: number | null) => {
    seconds += later
    received = count
    return await rates()
  }
  expect(await step(0, 10)).toEqual([])
  // Two seconds have not passed.
  expect(await step(1.9, 50)).toEqual([])
  expect(asked).toBe(1)
  expect(await step(0.1, 30)).toEqual([[1_002, 10]])
  expect(await step(2, null)).toHaveLength(1)
  expect((await routes.get('/inbox')!({}, {})).data.metrics).toBeNull()
  expect(asked).toBe(4)
  expect(await step(60, 6_000)).toHaveLength(1)
  expect(await step(2, 6_004)).toEqual([
    [1_002, 10],
    [1_066, 2],
  ])
  const before = asked
  seconds += 2
  await Promise.all([rates(), routes.get('/inbox')!({}, {}), rates()])
  expect(asked).toBe(before + 1)
})

it('the receiver has a second and a half for its metrics; an answer from elsewhere, or a refusal, is none', async () => {
  let answer = new globalThis.Response('intake_events_received_total 7\n')
  const timeout = vi.spyOn(AbortSignal, 'timeout')
  const asked = vi.spyOn(globalThis, 'fetch').mockImplementation(async () => answer)
  type Handler = (request: object, reply: object) => Promise<{ data: { metrics: unknown } }>
  const routes = new Map<string, Handler>()
  const app = { get: (path: string, _: unknown, handler: Handler) => routes.set(path, handler) }
  let seconds = 1_000
  const options = { clock: { now: () => seconds * 1e6 }, metricsUrl: 'http://h/metrics' }
  const readings = { share: () => ({ within: async () => null }) }
  const show = async (_request: unknown, _reply: unknown, page: object) => page
  serveInbox(app as never, { options, readings, show } as never)
  expect((await routes.get('/inbox')!({}, {})).data.metrics).toMatchObject({ received: 7 })
  expect(asked.mock.calls).toEqual([
    ['http://h/metrics', { signal: timeout.mock.results[0]!.value, redirect: 'error' }],
  ])
  expect(timeout.mock.calls).toEqual([[1_500]])
  for (const status of [302, 404, 500]) {
    seconds += 2
    answer = new globalThis.Response('intake_events_received_total 7\n', { status })
    expect((await routes.get('/inbox')!({}, {})).data.metrics).toBeNull()
  }
})
