/** What `serve` is given reaches each of its parts, and each team has its own. */
import { BlockList } from 'node:net'
import pino from 'pino'
import { afterAll, beforeAll, expect, it, vi } from 'vitest'
import { openLimiter } from '../../../src/api/budget/limiter.ts'
import { systemClock } from '../../../src/core/clock.ts'
import { openRefetcher } from '../../../src/extract/conflicts/refetcher.ts'
import { openWorker } from '../../../src/extract/work.ts'
import { openDrain } from '../../../src/ingest/drain/drain.ts'
import { openSecretSources } from '../../../src/ingest/http/secrets.ts'
import { openIngester } from '../../../src/ingest/http/server.ts'
import type { DrainWatch, IngestWatch } from '../../../src/ingest/watch.ts'
import { openAlerts } from '../../../src/operate/alerts/round.ts'
import { openGauges } from '../../../src/operate/health/gauges.ts'
import { openHousekeeping, type ServeOptions } from '../../../src/operate/serve/parts.ts'
import { openSchedule } from '../../../src/operate/serve/schedule.ts'
import { openServe } from '../../../src/operate/serve/serve.ts'
import { WORKS } from '../../../src/reconcile/slices.ts'
import { openWarehouse, query } from '../../e2e/support/scene.ts'

vi.mock('../../../src/api/budget/limiter.ts', async (original) => ({
  ...(await original()),
  openLimiter: vi.fn(),
}))
vi.mock('../../../src/extract/conflicts/refetcher.ts', () => ({ openRefetcher: vi.fn() }))
vi.mock('../../../src/extract/work.ts', async (original) => ({ ...(await original()), openWorker: vi.fn() }))
vi.mock('../../../src/ingest/drain/drain.ts', () => ({ openDrain: vi.fn() }))
vi.mock('../../../src/ingest/http/secrets.ts', () => ({ openSecretSources: vi.fn() }))
vi.mock('../../../src/ingest/http/server.ts', () => ({ openIngester: vi.fn() }))
vi.mock('../../../src/load/budgets.ts', () => ({
  openBudgets: (url: string) => ({
    ofTeam: (teamId: number) => `budget of ${teamId} in ${url}`,
    [Symbol.asyncDispose]: async () => {},
  }),
}))
vi.mock('../../../src/operate/alerts/round.ts', async (original) => ({
  ...(await original()),
  openAlerts: vi.fn(),
}))
vi.mock('../../../src/operate/serve/schedule.ts', () => ({ openSchedule: vi.fn() }))
vi.mock('../../../src/operate/serve/parts.ts', async (original) => ({
  ...(await original()),
  openHousekeeping: vi.fn(async () => ({ [Symbol.asyncDispose]: async () => {} })),
}))
vi.mock('../../../src/operate/health/gauges.ts', async (original) => {
  const real = await original<typeof import('../../../src/operate/health/gauges.ts')>()
  return { ...real, openGauges: vi.fn(real.openGauges) }
})

let warehouse: Awaited<ReturnType<typeof openWarehouse>>

beforeAll(async () => {
  warehouse = await openWarehouse()
  // So that a team's number is not its place in the configuration.
  await query(warehouse.url, `insert into intake.teams (name) values ('another'), ('south')`)
})
afterAll(() => warehouse?.drop())

const access = { baseUrl: 'http://127.0.0.1:1', apiKey: 'k', apiSecret: 's' }
const TEAMS = [
  {
    ...{ name: 'north', apiVersion: 'v2.1', concurrency: 3, giveUpAfterMs: 60_000, ...access },
    rateLimit: { requests: 5, seconds: 1 },
  },
  {
    ...{ name: 'south', apiVersion: 'v2', concurrency: 2, giveUpAfterMs: 90_000, ...access },
    rateLimit: { requests: 9, seconds: 60 },
  },
]
const said: Record<string, unknown>[] = []
const logger = pino({ base: null }, { write: (line: string) => void said.push(JSON.parse(line)) })
const trustedProxies = new BlockList()
const settings = { url: 'http://127.0.0.1:1', secret: null, inboxSeconds: 60, maxAgeHours: null }

/** A part, as far as `serve` uses it. */
const part = (name: string) => ({
  ...{
    name,
    url: `http://${name}`,
    wake: vi.fn(),
    close: vi.fn(async () => {}),
    inFlight: { events: 3, bytes: 700 },
  },
  ...{ next: () => new Date(0), trouble: () => `trouble of ${name}`, [Symbol.asyncDispose]: async () => {} },
})

const firstOf = (mocked: (...args: never[]) => unknown) =>
  vi.mocked(mocked as (options: Record<string, never>) => void).mock.calls[0]![0]

it('every part is opened with its settings, and wakes the part that it has work for', async () => {
  const parts = {
    ...{ drain: part('drain'), refetcher: part('refetcher'), ingester: part('ingester') },
    ...{ worker: part('worker'), alerts: part('alerts'), schedule: part('schedule') },
  }
  const limiters = TEAMS.map(({ name }) => part(`limiter of ${name}`))
  for (const limiter of limiters) vi.mocked(openLimiter).mockReturnValueOnce(limiter as never)
  vi.mocked(openDrain).mockReturnValue(parts.drain as never)
  vi.mocked(openRefetcher).mockReturnValue(parts.refetcher as never)
  vi.mocked(openSecretSources).mockReturnValue('secrets' as never)
  vi.mocked(openIngester).mockResolvedValue(parts.ingester as never)
  vi.mocked(openWorker).mockReturnValue(parts.worker as never)
  vi.mocked(openAlerts).mockReturnValue(parts.alerts as never)
  vi.mocked(openSchedule).mockReturnValue(parts.schedule as never)
  const backfill = vi.fn<ServeOptions['backfill']>(async () => {})
  const ingestTeams = ['north', 'east', 'south'].map((name) => ({
    name,
    webhookSecrets: [`secret of ${name}`],
  }))
  const { url } = warehouse
  const shared = { clock: systemClock, random: Math.random, logger, version: '9.9.9' }
  const serving = await openServe({
    ...{ ...shared, url, ingestTeams, teams: TEAMS, ingest: { host: '127.0.0.2', port: 1 }, trustedProxies },
    ...{
      drain: true,
      cron: '1 2 * * *',
      cronMissed: 'run',
      work: { concurrency: 6 },
      backfill,
      alertsEveryMs: 7,
    },
    ...{ admin: { host: '127.0.0.1', port: 0 }, inboxDays: 11, encryptionKey: 'a key', alerts: settings },
    retention: { historyDays: 12, runDays: 13 },
  })
  const rows = await query<{ name: string; team_id: number }>(url, 'select name, team_id from intake.teams')
  const idOf = (wanted: string) => rows.find(({ name }) => name === wanted)!.team_id
  const teams = TEAMS.map((team, at) => ({ ...team, teamId: idOf(team.name), limiter: limiters[at] }))

  expect(vi.mocked(openLimiter).mock.calls.map(([options]) => options)).toEqual(
    TEAMS.map(({ name, concurrency, giveUpAfterMs, rateLimit }) => ({
      ...{
        concurrency,
        giveUpAfterMs,
        rateLimit,
        store: `budget of ${idOf(name)} in ${url}`,
        clock: systemClock,
        logger,
        team: name,
      },
    })),
  )
  const { watch, ...refetching } = firstOf(openRefetcher)
  expect(refetching).toEqual({ ...shared, url, teams })
  expect(firstOf(openDrain)).toEqual({
    ...{ url, clock: systemClock, logger, watch, onRefetchRequested: expect.any(Function) },
    teams: [
      { name: 'north', teamId: idOf('north'), apiVersion: 'v2.1' },
      { name: 'east', teamId: idOf('east') },
      { name: 'south', teamId: idOf('south'), apiVersion: 'v2' },
    ],
  })
  expect(firstOf(openSecretSources)).toEqual({
    ...{ bounded: expect.anything(), encryptionKey: 'a key', clock: systemClock, logger },
    teams: ingestTeams.map(({ name, webhookSecrets }) => ({
      name,
      teamId: idOf(name),
      configured: webhookSecrets,
    })),
  })
  expect(firstOf(openIngester)).toEqual({
    ...{ url, host: '127.0.0.2', port: 1, teams: 'secrets', clock: systemClock, logger },
    ...{ proxies: expect.toSatisfy((given) => given === trustedProxies), watch: expect.anything() },
    onStored: expect.any(Function),
  })
  expect(firstOf(openWorker)).toEqual({
    ...{ ...shared, url, teams, works: WORKS, concurrency: 6, onRunEnded: expect.any(Function) },
  })
  expect(firstOf(openAlerts)).toEqual({
    ...{ url, settings, teams: ['north', 'east', 'south'], inboxDays: 11, clock: systemClock, logger },
    ...{ version: '9.9.9', everyMs: 7, onPosted: expect.any(Function) },
  })
  expect(firstOf(openSchedule)).toEqual({
    ...{ url, clock: systemClock, logger, missed: 'run', expression: '1 2 * * *', job: 'backfill' },
    ...{ teams: ['north', 'south'], run: expect.any(Function) },
  })
  expect(firstOf(openHousekeeping)).toEqual({
    ...{ url, inboxDays: 11, retention: { historyDays: 12, runDays: 13 }, logger },
  })
  expect(firstOf(openGauges)).toEqual({
    ...{ url, clock: systemClock, inboxDays: 11, inFlight: expect.any(Function) },
    ...{ bounded: expect.anything(), registry: expect.anything() },
  })
  expect(serving).toMatchObject({ ingest: 'http://ingester', next: new Date(0) })

  // What each part counts is shown by this process.
  const { watch: received } = firstOf(openIngester) as unknown as { watch: IngestWatch }
  const drained = watch as unknown as DrainWatch
  received.stored('east', false)
  received.rejected('signature', 'south')
  received.committed(4, 0.5)
  drained.drained('north', { done: 1, dead: 2, retried: 3 }, [4])
  ;(firstOf(openDrain) as unknown as { watch: DrainWatch }).watch.defect('TypeError')
  const { onPosted } = firstOf(openAlerts) as unknown as { onPosted: (isDelivered: boolean) => void }
  onPosted(false)
  const response = await fetch(`${serving.admin}/metrics`)
  expect(response.headers.get('content-type')).toBe('text/plain; version=0.0.4; charset=utf-8')
  const metrics = (await response.text()).split('\n')
  expect(metrics).toEqual(
    expect.arrayContaining([
      ...['intake_ingest_in_flight_events 3', 'intake_ingest_in_flight_bytes 700'],
      ...['intake_events_received_total{team="east"} 1', 'intake_inbox_commit_events_sum 4'],
      'intake_events_rejected_total{team="south",reason="signature"} 1',
      'intake_events_drained_total{team="north",outcome="dead"} 2',
      ...['intake_defects_total{kind="TypeError"} 1', 'intake_alert_posts_total{outcome="failed"} 1'],
    ]),
  )

  for (const [name, of] of [
    ['drain', 'drain'],
    ['ingest', 'ingester'],
    ['work', 'worker'],
  ]) {
    const answer = await fetch(`${serving.admin}/readyz?part=${name}`)
    expect([name, answer.status, await answer.text()]).toEqual([
      ...[name, 503, expect.stringContaining(`trouble of ${of}`)],
    ])
  }

  const call = (options: Record<string, never>, name: string, ...args: unknown[]) =>
    (options[name] as unknown as (...args: unknown[]) => unknown)(...args)
  call(firstOf(openIngester), 'onStored')
  expect(parts.drain.wake).toHaveBeenCalledTimes(1)
  call(firstOf(openDrain), 'onRefetchRequested')
  expect(parts.refetcher.wake).toHaveBeenCalledTimes(1)
  await call(firstOf(openWorker), 'onRunEnded', { runId: '1', status: 'failed' })
  expect(said.map(({ time: _, ...line }) => line)).toEqual([
    { level: 30, run: '1', status: 'failed', msg: 'run ended' },
  ])
  expect(parts.alerts.wake).toHaveBeenCalledTimes(1)
  const { signal } = new AbortController()
  const onTeamEnded = () => {}
  await call(firstOf(openSchedule), 'run', ['south'], signal, onTeamEnded)
  expect(backfill.mock.calls).toEqual([[[teams[1]], signal, onTeamEnded]])
  expect(parts.alerts.wake).toHaveBeenCalledTimes(2)
  backfill.mockRejectedValueOnce(new Error('of the backfill'))
  await expect(call(firstOf(openSchedule), 'run', ['north'], signal, onTeamEnded)).rejects.toThrow(
    'of the backfill',
  )
  expect(parts.alerts.wake).toHaveBeenCalledTimes(3)
  // A schedule without any time to come is no schedule.
  const schedule = async () => await (await fetch(`${serving.admin}/readyz?part=schedule`)).json()
  expect(await schedule()).toEqual({ ready: true, reasons: [] })
  parts.schedule.next = () => null as never
  expect(await schedule()).toEqual({ ready: false, reasons: ['schedule: has no next time'] })
  await serving.close()
  expect(limiters.map(({ close }) => close.mock.calls.length)).toEqual([1, 1])
})
