/** What `serve` does with options that are left out, and which parts it leaves out; every part is played here. */
import pino from 'pino'
import { beforeEach, expect, test, vi } from 'vitest'
import type { ServeOptions } from '../../../src/operate/serve/parts.ts'
import { openServe } from '../../../src/operate/serve/serve.ts'

const world = vi.hoisted(() => ({
  opened: [] as [string, Record<string, unknown>][],
  closed: [] as string[],
  failing: '',
  restored: [] as unknown[],
  open(name: string, options: object = {}) {
    if (world.failing === name) throw new Error(`of ${name}`)
    world.opened.push([name, options as Record<string, unknown>])
    const dispose = async () => void world.closed.push(name)
    return {
      ...{ url: `http://${name}`, inFlight: { events: 1, bytes: 2 }, wake: () => {}, trouble: () => null },
      ...{ next: () => null, refresh: async () => {}, close: dispose, [Symbol.asyncDispose]: dispose },
    }
  },
}))
vi.mock('../../../src/api/budget/limiter.ts', () => ({
  openLimiter: (options: object) => world.open('limiter', options),
}))
vi.mock('../../../src/extract/conflicts/refetcher.ts', () => ({
  openRefetcher: (options: object) => world.open('refetcher', options),
}))
vi.mock('../../../src/extract/work.ts', () => ({
  openWorker: (options: object) => world.open('worker', options),
}))
vi.mock('../../../src/ingest/drain/drain.ts', () => ({
  openDrain: (options: object) => world.open('drain', options),
}))
vi.mock('../../../src/ingest/http/secrets.ts', () => ({ openSecretSources: () => 'secrets' }))
vi.mock('../../../src/ingest/http/server.ts', () => ({
  openIngester: async (options: object) => world.open('ingester', options),
}))
vi.mock('../../../src/load/budgets.ts', () => ({
  openBudgets: (url: string) => ({
    ...world.open('budgets', { url }),
    ofTeam: (id: number) => `budget ${id}`,
  }),
}))
vi.mock('../../../src/load/teams.ts', () => ({
  restoreTeam: async (session: { purpose: string }, name: string) => {
    world.restored.push([session.purpose, name])
    return world.restored.length + 20
  },
}))
vi.mock('../../../src/reconcile/slices.ts', () => ({ WORKS: 'works' }))
vi.mock('../../../src/warehouse/connect.ts', () => ({
  openSession: async (options: object) => ({ ...options, ...world.open('session', options) }),
}))
vi.mock('../../../src/warehouse/bounded-queries.ts', () => ({
  openBoundedQueries: (...given: unknown[]) => world.open('bounded', { given }),
}))
vi.mock('../../../src/operate/alerts/round.ts', () => ({
  openAlerts: (options: object) => world.open('alerts', options),
}))
vi.mock('../../../src/operate/health/gauges.ts', () => ({
  openGauges: (options: object) => world.open('gauges', options),
}))
vi.mock('../../../src/operate/health/received.ts', () => ({
  openReceived: (options: object) => world.open('received', options),
}))
vi.mock('../../../src/operate/serve/admin.ts', async (original) => ({
  ...(await original<object>()),
  openAdmin: async (options: object) => world.open('admin', options),
  openReadiness: (...given: unknown[]) => {
    world.open('readiness', { given })
    return 'reasons'
  },
  waitOver: (...given: unknown[]) => {
    world.open('wait', { given })
    return 'wait'
  },
}))
vi.mock('../../../src/operate/serve/schedule.ts', () => ({
  openSchedule: (options: object) => world.open('schedule', options),
}))
vi.mock('../../../src/operate/serve/retention.ts', () => ({
  openRetention: async () => ({ db: 'db', [Symbol.asyncDispose]: async () => {} }),
  prune: async () => ({}),
}))
vi.mock('../../../src/ingest/inbox/days.ts', () => ({
  keepInboxDays: async () => ({ dropped: 0, moved: 0 }),
}))

beforeEach(() => Object.assign(world, { opened: [], closed: [], restored: [], failing: '' }))

const clock = { now: () => 0, sleep: async () => {} }
const logger = pino({ level: 'silent' })
const ANY = { host: '127.0.0.1', port: 0 }
const TEAM = {
  name: 'north',
  baseUrl: 'http://x',
  apiKey: 'k',
  apiSecret: 's',
  apiVersion: 'v2',
  concurrency: 3,
}
const serve = (more: Partial<ServeOptions> = {}) =>
  openServe({
    ...{ url: 'postgres://there', clock, random: () => 0, logger, inboxDays: 11, encryptionKey: null },
    ...{ ingestTeams: ['south', 'north'].map((name) => ({ name, webhookSecrets: [] })), teams: [TEAM] },
    ...{ ingest: ANY, drain: true, cron: '0 3 * * *', work: {}, admin: ANY, backfill: async () => {} },
    alerts: { url: 'http://alerts', secret: null, inboxSeconds: 60, maxAgeHours: null },
    ...more,
  })
const names = () => world.opened.map(([name]) => name)
const of = (name: string) => world.opened.filter(([each]) => each === name).map(([, options]) => options)

const ALL = [
  ...['session', 'budgets', 'limiter', 'bounded', 'gauges', 'readiness', 'bounded', 'wait', 'admin'],
  ...['refetcher', 'drain', 'received', 'ingester', 'alerts', 'worker', 'schedule'],
]

test('parts are opened in their order, and closed in reverse; what is left out has its default', async () => {
  const serving = await serve()
  expect(serving).toMatchObject({ ingest: 'http://ingester', admin: 'http://admin', next: null })
  expect(names()).toEqual(ALL)
  expect(world.restored).toEqual([
    ['serve', 'south'],
    ['serve', 'north'],
  ])
  expect(of('session')).toEqual([{ url: 'postgres://there', purpose: 'serve' }])
  expect(world.closed).toEqual(['session'])
  // Probes and /wait have connections of their own.
  expect(of('bounded').map(({ given }) => given)).toEqual([['postgres://there'], ['postgres://there', 1]])
  expect(of('readiness')[0]!.given).toMatchObject([expect.anything(), expect.anything(), clock])
  expect(of('wait')[0]!.given).not.toEqual(of('readiness')[0]!.given)
  expect(of('limiter')).toEqual([
    {
      ...{ concurrency: 3, giveUpAfterMs: undefined, rateLimit: undefined },
      store: 'budget 22',
      clock,
      logger,
      team: 'north',
    },
  ])
  expect(of('refetcher')[0]).not.toHaveProperty('version')
  expect(of('drain')[0]!.teams).toEqual([
    { name: 'south', teamId: 21 },
    { name: 'north', teamId: 22, apiVersion: 'v2' },
  ])
  expect(of('ingester')[0]).toMatchObject({ host: '127.0.0.1', port: 0, proxies: null, teams: 'secrets' })
  expect(of('worker')[0]).toMatchObject({ version: '0.0.0', works: 'works' })
  expect(of('worker')[0]).not.toHaveProperty('concurrency')
  expect(of('alerts')[0]).toMatchObject({ version: '0.0.0', teams: ['south', 'north'], inboxDays: 11 })
  expect(of('alerts')[0]).not.toHaveProperty('everyMs')
  expect(of('schedule')[0]).toMatchObject({ missed: 'skip', expression: '0 3 * * *', teams: ['north'] })
  await serving.close()
  expect(world.closed.slice(1)).toEqual([
    ...['schedule', 'worker', 'alerts', 'ingester', 'received', 'drain', 'refetcher'],
    ...['admin', 'bounded', 'bounded', 'limiter', 'budgets'],
  ])
})

const without = (...left: readonly string[]) => ALL.filter((name) => !left.includes(name))

test.each<[string, Partial<ServeOptions>, readonly string[]]>([
  ['a schedule', { cron: null }, without('schedule')],
  ['a worker', { work: null }, without('worker')],
  ['alerts', { alerts: null }, without('alerts')],
  ['webhooks', { ingest: null }, without('received', 'ingester')],
  ['a drain', { drain: false }, without('refetcher', 'drain')],
  ['credentials of any team', { teams: [] }, without('limiter', 'refetcher', 'worker', 'schedule')],
])('without %s, the other parts are as ever', async (_, options, expected) => {
  const serving = await serve(options)
  expect(names()).toEqual(expected)
  const { inFlight } = of('gauges')[0] as { inFlight: () => unknown }
  expect(inFlight()).toEqual(options.ingest === null ? { events: 0, bytes: 0 } : { events: 1, bytes: 2 })
  expect([serving.ingest, serving.next]).toEqual([options.ingest === null ? null : 'http://ingester', null])
  await serving.close()
})

test.each(['budgets', 'admin', 'drain', 'ingester', 'alerts', 'worker', 'schedule'])(
  'where a part does not open (%s), those that were opened are closed',
  async (name) => {
    world.failing = name
    await expect(serve()).rejects.toThrow(`of ${name}`)
    const closing = names().filter((each) => !['session', 'gauges', 'readiness', 'wait'].includes(each))
    expect(world.closed.slice(1)).toEqual(closing.toReversed())
  },
)
