/** What doctor asks of the warehouse and of the service, in which order and for how long; both are played here. */
import pino from 'pino'
import { beforeEach, expect, onTestFinished, test, vi } from 'vitest'
import { runChecks } from '../../../src/operate/doctor/doctor.ts'
import { serveAnswers } from '../../../src/operate/doctor/machine.ts'
import { checkService } from '../../../src/operate/doctor/service.ts'
import { checkWarehouse } from '../../../src/operate/doctor/warehouse.ts'
import { ENDPOINTS } from '../../../src/streams/catalogue.ts'
import { scripted } from '../../support/scripted.ts'

const fresh = () => ({
  steps: [] as string[],
  failures: {} as Record<string, unknown>,
  pids: [1, 2, 1],
  source: 'client',
  denied: [0, 0],
  roles: ['intake_loader', 'intake_analyst'].map((role) => ({ role, exists: true, usable: true })),
  pending: [] as string[],
  client: {} as Record<string, unknown>,
})
const world = vi.hoisted(() => ({ ...({} as ReturnType<typeof fresh>), limits: [] as unknown[] }))
beforeEach(() => Object.assign(world, fresh(), { limits: [] }))

function answers(name: string) {
  return (statement: string): readonly object[] => {
    if (statement.includes('pg_stat_activity')) return [{ tls: null, isLocal: true }]
    if (statement.includes('server_version_num')) return [{ version: 18, name: '18.4' }]
    if (statement.includes('has_table_privilege')) return world.denied.map((denied) => ({ denied }))
    if (statement.includes('has_schema_privilege')) return world.roles
    if (statement.includes('pg_settings')) return [{ source: world.source }]
    world.steps.push(`${name}: ${statement}`)
    return [{ pid: world.pids.shift() }]
  }
}
vi.mock('../../../src/warehouse/connect.ts', () => ({
  openSession: async () => {
    const name = world.steps.some((step) => step.startsWith('open')) ? 'second' : 'first'
    world.steps.push(`open ${name}`)
    const query = async (text: string) => {
      world.steps.push(`${name}: ${text}`)
      const failing = Object.keys(world.failures).find((start) => text.startsWith(start))
      if (failing !== undefined) throw world.failures[failing]
    }
    const close = async () => void world.steps.push(`close ${name}`)
    return { client: { query }, db: scripted(answers(name)), close, [Symbol.asyncDispose]: close }
  },
}))
vi.mock('../../../src/analytics/migrate.ts', () => ({
  encodingProblem: async () => null,
  migrationStatus: async () => ({ applied: ['0001_a', '0002_b'], pending: world.pending }),
}))
vi.mock('../../../src/analytics/classify.ts', () => ({
  waitingQuestions: async () => [],
  waitingText: () => '',
}))
vi.mock('../../../src/operate/health/runs.ts', () => ({
  ...{ readWaitingSlices: async () => [], waitingSlicesText: () => '', WAITING_SLICES_HINT: '' },
}))
vi.mock('../../../src/api/client.ts', () => ({
  openClient: (options: object) => {
    world.client = { ...options }
    const get = async (...given: unknown[]) => {
      world.steps.push(`get ${given[0]}`)
      return { body: { count: 0, results: [] }, headers: {}, status: 200 }
    }
    return {
      ...{
        get,
        pathOf: (list: unknown) => `/${JSON.stringify(list)}`,
        totals: { requests: 1, throttled: 0 },
        environment: 'sandbox',
      },
      [Symbol.asyncDispose]: async () => void world.steps.push('close client'),
    }
  },
}))
vi.mock('../../../src/api/service-clock.ts', () => ({
  openServiceClock: () => ({ sample: () => {}, skewSeconds: () => 0 }),
}))
vi.mock('../../../src/core/clock.ts', async (original) => {
  const real = await original<typeof import('../../../src/core/clock.ts')>()
  return {
    ...real,
    deadlineIn: (...given: Parameters<typeof real.deadlineIn>) => {
      world.limits.push(given)
      return real.deadlineIn(...given)
    },
  }
})

const SESSIONS = [
  ...['first: select pg_backend_pid() as pid', 'second: begin'],
  ...['second: select pg_backend_pid() as pid', 'first: select pg_backend_pid() as pid', 'second: rollback'],
]
const WRITE = [
  ...['first: begin', 'first: create temporary table doctor_trial (body text) on commit drop'],
  // Half a megabyte, in pieces of 32 characters.
  `first: insert into doctor_trial select string_agg(md5(random()::text), '') from generate_series(1, 16384)`,
  'first: rollback',
]
const checked = async () => {
  const { checks, session, migrated } = await checkWarehouse('postgres://there')
  return {
    migrated,
    isOpen: session !== null && !world.steps.includes('close first'),
    of: Object.fromEntries(checks.map(({ name, status, detail }) => [name, `${status}: ${detail}`])),
  }
}

test('doctor checks that sessions are separate and that half a megabyte can be written, and leaves nothing of it', async () => {
  const { migrated, isOpen, of } = await checked()
  expect(world.steps).toEqual(['open first', 'open second', ...SESSIONS, ...WRITE, 'close second'])
  expect([migrated, isOpen]).toEqual([true, true])
  expect(of).toEqual({
    ...{ database: 'ok: Postgres 18.4', 'database transport': 'ok: within this machine' },
    ...{ 'database sessions': 'ok: each connection has its own session', 'database encoding': 'ok: UTF8' },
    ...{ 'database writes': 'ok: a write succeeds', schema: 'ok: 2 migrations, up to date' },
    'database privileges': 'ok: this login may write every table',
    roles: 'ok: intake_loader, intake_analyst, intake_clinical, intake_researcher',
    questions: 'ok: no reworded question waits for a decision',
    slices: 'ok: no planned run waits for a worker',
  })
})

test.each([
  ['create', '42501', 'failed: this login may not create temporary tables'],
  ['create', '25006', 'failed: the warehouse is read-only'],
  ['insert', '53100', 'failed: the disk of the warehouse is full'],
])('a trial write that fails (%s, %s) is rolled back too', async (statement, code, expected) => {
  world.failures[statement] = Object.assign(new Error('of the server'), { code })
  const { of } = await checked()
  expect(of['database writes']).toBe(expected)
  expect(world.steps.slice(-2)).toEqual(['first: rollback', 'close second'])
})

test.each([
  [[1, 2, 3], 'client', 'failed: a pooler lends connections by transaction'],
  [[1, 1, 1], 'client', 'failed: a pooler lends connections by transaction'],
  [[1, 2, 1], 'database', 'failed: a pooler ignores the settings of a connection'],
])('backends %j, and a lock timeout of the %s', async (pids, source, expected) => {
  Object.assign(world, { pids: [...pids], source })
  expect((await checked()).of['database sessions']).toMatch(new RegExp(`^${expected}`))
  expect(world.steps).toContain('second: rollback')
})

test('what may not be written is counted over tables and schemas; roles are missing before they lack grants', async () => {
  world.denied = [2, 1]
  world.roles = [
    { role: 'intake_loader', exists: true, usable: false },
    { role: 'intake_analyst', exists: false, usable: false },
  ]
  expect((await checked()).of).toMatchObject({
    'database privileges': 'failed: this login may not write 3 of the tables or schemas of intake-sync',
    roles: 'failed: missing: intake_analyst',
  })
})

test('of a database that is behind, neither privileges nor roles are looked at', async () => {
  world.pending = ['0003_c']
  const { migrated, isOpen, of } = await checked()
  expect([migrated, isOpen, Object.keys(of).slice(-1)]).toEqual([false, true, ['schema']])
  expect(of.schema).toBe('failed: the database is behind by 1 migration(s)')
})

const clock = { now: () => 0, sleep: async () => {} }
const logger = pino({ level: 'silent' })
const TEAM = {
  name: 'north',
  baseUrl: 'http://x',
  apiKey: 'k',
  apiSecret: 's',
  apiVersion: 'v2',
  concurrency: 3,
}

test('a service has twenty seconds, also to answer after it has throttled, and is asked for one list', async () => {
  const { signal } = new AbortController()
  const options = { clock, logger, signal, environment: null, suffix: ' of north' }
  const checks = await checkService(TEAM, options)
  expect(checks.map(({ name, status }) => `${name}: ${status}`)).toEqual([
    ...['credentials of north: ok', 'environment of north: ok', 'clock of north: ok'],
  ])
  expect(world.limits).toEqual([[20_000, [signal]]])
  const { signal: own, random, ...client } = world.client as { signal: AbortSignal; random: () => number }
  const { name: _, ...connection } = TEAM
  expect(client).toEqual({ ...connection, endpoints: ENDPOINTS, giveUpAfterMs: 20_000, clock, logger })
  expect([own === signal, random()]).toEqual([false, 0])
  expect(world.steps).toEqual([expect.stringMatching(/^get .*forms/), 'close client'])
  await checkService(TEAM, { ...options, limitMs: 1_500 })
  expect([world.limits[1], world.client.giveUpAfterMs]).toEqual([[1_500, [signal]], 1_500])
})

test('a serve that may run has two seconds to answer', async () => {
  const timeout = vi.spyOn(AbortSignal, 'timeout')
  expect(await serveAnswers('127.0.0.1', 1)).toBe(false)
  expect(timeout.mock.calls).toEqual([[2_000]])
  timeout.mockRestore()
})

test('the next time of the schedule is shown, and no timer is left for which the process would wait', async () => {
  const set = vi.spyOn(globalThis, 'setTimeout')
  const cleared = vi.spyOn(globalThis, 'clearTimeout')
  onTestFinished(() => {
    set.mockRestore()
    cleared.mockRestore()
  })
  const port = { name: 'any port', variable: 'ANY', host: '127.0.0.1', port: 0 }
  const checks = await runChecks({
    ...{ url: null, dataDir: null, ingestTeams: [], teams: [], encryptionKey: null, cron: '0 3 * * *' },
    ...{ webhook: port, admin: port, clock, logger, signal: new AbortController().signal },
  })
  expect(checks.find(({ name }) => name === 'schedule')!.detail).toMatch(/^0 3 \* \* \*: next at \d{4}-/)
  expect(set).toHaveBeenCalled()
  for (const { value } of set.mock.results) expect(cleared).toHaveBeenCalledWith(value)
})
