/** Every setting and option reaches the part that it is for: each has another value here than its default. */
import type { BlockList } from 'node:net'
import { afterAll, beforeAll, beforeEach, expect, it, vi } from 'vitest'
import { runProgram } from '../../src/commands/program.ts'
import { openConsole } from '../../src/console/server.ts'
import { systemClock } from '../../src/core/clock.ts'
import { backfill } from '../../src/extract/backfill.ts'
import { planBackfill } from '../../src/extract/planned-backfill.ts'
import type { ServeOptions } from '../../src/operate/serve/parts.ts'
import { openServe } from '../../src/operate/serve/serve.ts'
import { replay } from '../../src/reconcile/replay.ts'
import { planReplay, planVerify } from '../../src/reconcile/slices.ts'
import { verify } from '../../src/reconcile/verify/verify.ts'
import { ALL_STREAMS, STREAMS } from '../../src/streams/catalogue.ts'
import { openWarehouse } from '../e2e/support/scene.ts'
import { configOf } from '../e2e/support/teams.ts'

vi.mock('../../src/operate/serve/serve.ts', async (original) => ({
  ...(await original()),
  openServe: vi.fn(),
}))
vi.mock('../../src/console/server.ts', async (original) => ({ ...(await original()), openConsole: vi.fn() }))
vi.mock('../../src/extract/backfill.ts', async (original) => ({ ...(await original()), backfill: vi.fn() }))
vi.mock('../../src/extract/planned-backfill.ts', async (original) => ({
  ...(await original()),
  planBackfill: vi.fn(),
}))
vi.mock('../../src/reconcile/replay.ts', async (original) => ({ ...(await original()), replay: vi.fn() }))
vi.mock('../../src/reconcile/verify/verify.ts', async (original) => ({
  ...(await original()),
  verify: vi.fn(),
}))
vi.mock('../../src/reconcile/slices.ts', async (original) => ({
  ...(await original()),
  planReplay: vi.fn(),
  planVerify: vi.fn(),
}))

let warehouse: Awaited<ReturnType<typeof openWarehouse>>

beforeAll(async () => {
  warehouse = await openWarehouse()
})
afterAll(() => warehouse?.drop())
beforeEach(() => vi.clearAllMocks())

const NORTH = {
  ...{ name: 'north', baseUrl: 'http://127.0.0.1:1/base', apiKey: 'north key', apiSecret: 'north secret' },
  ...{ apiVersion: 'v9', timezone: 'Europe/Berlin', concurrency: 3, pageSize: 77 },
  ...{ rateLimit: '17/s', paths: { patients: '/people' }, bodyKeys: { exportId: 'uid' } },
  webhookSecrets: ['a secret of north'],
}
const SOUTH = { ...NORTH, name: 'south', apiKey: 'south key', concurrency: 2, webhookSecrets: [] }
const RECEIVED_ONLY = { name: 'east', webhookSecrets: ['a secret of east'] }

const SETTINGS = {
  ...{
    INTAKE_GIVE_UP_AFTER: '3m',
    INTAKE_INBOX_DAYS: '11',
    INTAKE_HISTORY_DAYS: '12',
    INTAKE_RUN_DAYS: '13',
  },
  ...{ INTAKE_WEBHOOK_HOST: '127.0.0.2', INTAKE_WEBHOOK_PORT: '18080' },
  INTAKE_TRUSTED_PROXIES: '10.1.0.0/16',
  ...{ INTAKE_ADMIN_HOST: '127.0.0.3', INTAKE_ADMIN_PORT: '19090' },
  ...{ INTAKE_CONSOLE_HOST: '127.0.0.4', INTAKE_CONSOLE_PORT: '19091' },
  INTAKE_CONSOLE_URL: 'https://console.example.com',
  INTAKE_CONSOLE_PROXIES: '10.2.0.0/16',
  ...{ INTAKE_CONSOLE_LOGIN_HEADER: 'x-login', INTAKE_CONSOLE_GROUPS_HEADER: 'x-groups' },
  INTAKE_CONSOLE_ROLES: 'ada=operator,group:care=viewer,*=viewer',
  INTAKE_CONSOLE_VALUES: '1',
  ...{ INTAKE_CRON: '1 2 * * *', INTAKE_CRON_MISSED: 'run' },
  ...{ INTAKE_LOOKBACK_DAYS: '5', INTAKE_SWEEP_DAYS: '6' },
  INTAKE_ENCRYPTION_KEY: Buffer.alloc(32, 9).toString('base64'),
  INTAKE_ALERT_URL: 'https://alerts.example.com/hook',
  ...{ INTAKE_ALERT_SECRET: 'a secret of alerts', INTAKE_ALERT_INBOX_AGE: '7m', INTAKE_ALERT_MAX_AGE: '9h' },
  LOG_LEVEL: 'silent',
}

/** Runs a command until it ends; `stop` ends one that goes on. */
async function run(...words: string[]) {
  const stopping = new AbortController()
  const output: string[] = []
  const write = (text: string | Uint8Array) => void output.push(String(text))
  vi.mocked(openServe).mockImplementation(async () => {
    stopping.abort()
    const ended = { ingest: null, admin: 'http://admin', next: null }
    return { ...ended, [Symbol.asyncDispose]: async () => {} } as never
  })
  vi.mocked(openConsole).mockImplementation(async () => {
    stopping.abort()
    return { url: 'http://console', port: 1, link: () => 'a link', close: async () => {} } as never
  })
  const code = await runProgram(words, {
    env: { ...configOf([NORTH, SOUTH, RECEIVED_ONLY] as never), ...SETTINGS, DATABASE_URL: warehouse.url },
    stdout: { write },
    stderr: { write },
    signal: stopping.signal,
    version: '9.9.9',
  })
  return { code, output: output.join('') }
}

/** What the part was opened or started with. */
const givenTo = (part: (...args: never[]) => unknown): Record<string, never> =>
  vi.mocked(part as () => void).mock.calls[0]?.[0 as never] as never

/** As the parts read them. */
const sourceOf = ({ name, apiKey, concurrency, webhookSecrets }: typeof NORTH) => ({
  ...{
    name,
    apiKey,
    concurrency,
    webhookSecrets,
    baseUrl: 'http://127.0.0.1:1/base',
    apiSecret: 'north secret',
  },
  ...{ apiVersion: 'v9', timezone: 'Europe/Berlin', pageSize: 77, giveUpAfterMs: 180_000 },
  ...{
    rateLimit: { requests: 17, seconds: 1 },
    paths: { patients: '/people' },
    bodyKeys: { exportId: 'uid' },
  },
})
const [north, south] = [NORTH, SOUTH].map(sourceOf)
const alerts = {
  ...{ url: 'https://alerts.example.com/hook', secret: 'a secret of alerts' },
  ...{ inboxSeconds: 420, maxAgeHours: 9 },
}
const common = () => ({
  ...{ url: warehouse.url, clock: systemClock, random: Math.random, version: '9.9.9' },
  logger: expect.objectContaining({ level: 'silent' }),
})
const kept = expect.objectContaining({ inboxDays: 11, historyDays: 12, runDays: 13 })
const proxies = (address: string) => expect.toSatisfy((list: BlockList) => list.check(address))
const names = (streams: readonly { readonly name: string }[]) => streams.map(({ name }) => name)

it('serve opens what the settings describe, and its schedule starts runs of them', async () => {
  await run('serve')
  expect(givenTo(openServe)).toEqual({
    ...common(),
    ...{ inboxDays: 11, retention: kept, alerts, drain: true, work: {}, backfill: expect.any(Function) },
    ingestTeams: [NORTH, SOUTH, RECEIVED_ONLY].map(({ name, webhookSecrets }) => ({ name, webhookSecrets })),
    ...{ teams: [north, south], ingest: { host: '127.0.0.2', port: 18_080 } },
    ...{ trustedProxies: proxies('10.1.2.3'), cron: '1 2 * * *', cronMissed: 'run' },
    ...{ admin: { host: '127.0.0.3', port: 19_090 }, encryptionKey: SETTINGS.INTAKE_ENCRYPTION_KEY },
  })
  vi.mocked(backfill).mockResolvedValue({ runId: '1', status: 'succeeded', teams: [] } as never)
  const { signal } = new AbortController()
  const onTeamEnded = () => {}
  await (givenTo(openServe) as unknown as ServeOptions).backfill([south as never], signal, onTeamEnded)
  const { streams, ...started } = givenTo(backfill)
  expect(started).toEqual({
    ...common(),
    ...{ teams: [south], allowMassDelete: false, dry: false, migrated: true, isScheduled: true },
    window: { lookbackDays: 5, sweepDays: 6, full: false, since: null },
    ...{ signal, onTeamEnded, onProgress: expect.any(Function) },
  })
  expect(streams).toBe(STREAMS)
})

it('options of serve turn parts off, and replace the schedule', async () => {
  await run('serve', '--no-ingest', '--no-drain', '--no-work', '--cron', '3 4 * * *')
  expect(givenTo(openServe)).toMatchObject({ ingest: null, drain: false, work: null, cron: '3 4 * * *' })
})

it('work opens a worker of the teams and streams at once that its options name', async () => {
  await run('work', '--concurrency', '5', '--teams', 'south')
  expect(givenTo(openServe)).toEqual({
    ...common(),
    ...{ inboxDays: 11, retention: kept, alerts, encryptionKey: null, backfill: expect.any(Function) },
    ...{ teams: [south], ingestTeams: [south], ingest: null, drain: false, cron: null },
    ...{ work: { concurrency: 5 }, admin: { host: '127.0.0.3', port: 19_090 } },
  })
})

it('console opens the page that the settings describe', async () => {
  await run('console')
  expect(givenTo(openConsole)).toEqual({
    ...common(),
    ...{ host: '127.0.0.4', port: 19_091, publicUrl: 'https://console.example.com' },
    proxy: {
      ...{ addresses: proxies('10.2.3.4'), loginHeader: 'x-login', groupsHeader: 'x-groups' },
      roles: {
        logins: new Map([['ada', 'operator']]),
        groups: new Map([['care', 'viewer']]),
        others: 'viewer',
      },
    },
    ...{
      linkRole: 'steward',
      login: expect.any(String),
      teams: [north, south],
      inboxDays: 11,
      retention: kept,
    },
    ...{ metricsUrl: 'http://127.0.0.3:19090/metrics', maxAgeHours: 9, breakages: [] },
    ...{ settings: expect.any(Array), checks: expect.any(Function), onLink: expect.any(Function) },
  })
})

it('backfill reads the streams of the team, the times, and with the care, that its options name', async () => {
  const options = '--team south --streams forms,packets --since 2026-01-31 --full --allow-mass-delete'
  await run('backfill', ...options.split(' '))
  const { streams, ...started } = givenTo(backfill)
  expect(started).toEqual({
    ...common(),
    ...{ budgets: expect.anything(), teams: [south], allowMassDelete: true, dry: false, migrated: true },
    window: { lookbackDays: 5, sweepDays: 6, full: true, since: '2026-01-31T00:00:00.000000Z' },
    ...{ signal: expect.any(AbortSignal), onProgress: expect.any(Function), logger: expect.anything() },
  })
  expect(names(streams!)).toEqual(['forms', 'packets'])
})

it('a dry run and a plan for workers are of everything, and the one shares no budget', async () => {
  await run('backfill', '--team', 'north', '--dry-run')
  const { streams, ...started } = givenTo(backfill)
  const window = { lookbackDays: 5, sweepDays: 6, full: false, since: null }
  expect(streams).toBe(STREAMS)
  expect(started).toMatchObject({ teams: [north], dry: true, allowMassDelete: false, window })
  expect(started).not.toHaveProperty('budgets')
  await run('backfill', '--team', 'north', '--detach')
  expect(givenTo(planBackfill)).toMatchObject({ teams: [north], streams: STREAMS, dry: false, window })
})

it('verify compares, and repairs, what its options name', async () => {
  await run('verify', ...'--repair --allow-mass-delete --team north --streams patients'.split(' '))
  const { streams, ...started } = givenTo(verify)
  expect(started).toEqual({
    ...common(),
    ...{ budgets: expect.anything(), teams: [north], repair: { allowMassDelete: true }, deep: false },
    ...{ signal: expect.any(AbortSignal), onProgress: expect.any(Function), isWatched: true },
    logger: expect.anything(),
  })
  expect(names(streams!)).toEqual(['patients'])
  await run('verify', '--team', 'south', '--deep', '--detach')
  const planned = givenTo(planVerify)
  expect(planned).toEqual({
    ...{ url: warehouse.url, teams: [south], repair: null, deep: true, streams: expect.anything() },
  })
  expect(names(planned.streams!)).toEqual(names(ALL_STREAMS))
  for (const [words, repair] of [
    ['--repair', { allowMassDelete: false }],
    ['--repair --allow-mass-delete', { allowMassDelete: true }],
  ] as const) {
    vi.mocked(planVerify).mockClear()
    await run('verify', ...`${words} --team south --detach`.split(' '))
    expect(givenTo(planVerify)).toMatchObject({ repair, deep: false })
  }
})

it('replay rebuilds the streams of the team that its options name', async () => {
  await run('replay', '--team', 'north', '--streams', 'forms')
  const { streams, ...started } = givenTo(replay)
  expect(started).toEqual({
    ...{ url: warehouse.url, team: 'north', clock: systemClock, logger: expect.anything() },
    ...{ signal: expect.any(AbortSignal), onProgress: expect.any(Function) },
  })
  expect(names(streams!)).toEqual(['forms'])
  await run('replay', '--team', 'south', '--streams', 'packets', '--detach')
  const [url, planned, team] = vi.mocked(planReplay).mock.calls[0]!
  expect([url, names(planned), team]).toEqual([warehouse.url, ['packets'], 'south'])
})
