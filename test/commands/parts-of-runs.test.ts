/**
 * What commands do around a run, a check and a request, without a warehouse and a service: what the client, the checks, the
 * alerts and the retention are given, which end is which exit code on which output, and when a status is stale.
 */
import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { migrate, migrationStatus } from '../../src/analytics/migrate.ts'
import { openClient } from '../../src/api/client.ts'
import { runProgram } from '../../src/commands/program.ts'
import { systemClock } from '../../src/core/clock.ts'
import { backfill } from '../../src/extract/backfill.ts'
import { planBackfill } from '../../src/extract/planned-backfill.ts'
import { removeSettledBodies } from '../../src/load/erased-dead-letters.ts'
import { runRound } from '../../src/operate/alerts/round.ts'
import { runChecks } from '../../src/operate/doctor/doctor.ts'
import { settleDeliveries } from '../../src/operate/health/silence-signs.ts'
import { readStatus } from '../../src/operate/health/status.ts'
import { prune } from '../../src/operate/serve/retention.ts'
import { replay } from '../../src/reconcile/replay.ts'
import { planReplay, planVerify } from '../../src/reconcile/slices.ts'
import { verify } from '../../src/reconcile/verify/verify.ts'
import { ENDPOINTS } from '../../src/streams/catalogue.ts'
import { configOf } from '../e2e/support/teams.ts'

const session = { db: 'db', client: {}, [Symbol.asyncDispose]: async () => {} }

vi.mock('../../src/api/client.ts', async (original) => ({ ...(await original()), openClient: vi.fn() }))
vi.mock('../../src/warehouse/connect.ts', async (original) => ({
  ...(await original()),
  openSession: async () => session,
}))
vi.mock('../../src/analytics/migrate.ts', async (original) => ({
  ...(await original()),
  ...{ requireMigrated: async () => {}, migrate: vi.fn(), migrationStatus: vi.fn() },
}))
vi.mock('../../src/load/budgets.ts', async (original) => ({
  ...(await original()),
  openBudgets: () => ({ [Symbol.asyncDispose]: async () => {} }),
}))
vi.mock('../../src/load/erased-dead-letters.ts', () => ({ removeSettledBodies: vi.fn() }))
vi.mock('../../src/operate/alerts/round.ts', () => ({ runRound: vi.fn() }))
vi.mock('../../src/operate/doctor/doctor.ts', () => ({ runChecks: vi.fn() }))
vi.mock('../../src/operate/health/silence-signs.ts', () => ({ settleDeliveries: vi.fn() }))
vi.mock('../../src/operate/health/status.ts', () => ({ readStatus: vi.fn() }))
vi.mock('../../src/operate/serve/retention.ts', () => ({
  openRetention: async () => session,
  prune: vi.fn(),
}))
vi.mock('../../src/extract/backfill.ts', () => ({ backfill: vi.fn() }))
vi.mock('../../src/extract/planned-backfill.ts', () => ({ planBackfill: vi.fn() }))
vi.mock('../../src/reconcile/replay.ts', () => ({ replay: vi.fn() }))
vi.mock('../../src/reconcile/slices.ts', () => ({ planReplay: vi.fn(), planVerify: vi.fn() }))
vi.mock('../../src/reconcile/verify/verify.ts', () => ({ verify: vi.fn() }))

const url = 'postgres://u@127.0.0.1:1/d'
const access = {
  baseUrl: 'http://127.0.0.1:1/b',
  apiSecret: 's',
  timezone: 'Europe/Berlin',
  webhookSecrets: ['w'],
}
const north = {
  name: 'north',
  apiKey: 'key of north',
  apiVersion: 'v8',
  concurrency: 3,
  pageSize: 7,
  ...access,
}
const south = {
  name: 'south',
  apiKey: 'key of south',
  ...access,
  rateLimit: '5/s',
  paths: { forms: '/f' },
  bodyKeys: { exportId: 'uid' },
}
const SETTINGS = {
  ...{
    DATABASE_URL: url,
    LOG_LEVEL: 'warn',
    INTAKE_GIVE_UP_AFTER: '3m',
    INTAKE_INBOX_DAYS: '9',
    INTAKE_RUN_DAYS: '8',
  },
  ...{
    INTAKE_HISTORY_DAYS: '7',
    INTAKE_CRON: '1 2 * * *',
    INTAKE_ENCRYPTION_KEY: Buffer.alloc(32, 1).toString('base64'),
  },
  ...{
    INTAKE_WEBHOOK_HOST: '127.0.0.2',
    INTAKE_WEBHOOK_PORT: '1',
    INTAKE_ADMIN_HOST: '127.0.0.3',
    INTAKE_ADMIN_PORT: '2',
  },
  ...{ INTAKE_ALERT_URL: 'https://alerts.example.com/x', INTAKE_ALERT_SECRET: 'a secret of the alerts' },
}

async function run(line: string, reason?: string) {
  const stop = new AbortController()
  if (reason !== undefined) stop.abort(reason)
  const said = { stdout: '', stderr: '' }
  const code = await runProgram(line.split(' '), {
    env: { ...configOf([north, south] as never), ...SETTINGS },
    stdout: { write: (text) => (said.stdout += String(text)) },
    stderr: { write: (text) => (said.stderr += String(text)) },
    ...{ signal: stop.signal, version: '1.2.3' },
  })
  return { code, ...said, signal: stop.signal }
}
const given = (part: unknown) => vi.mocked(part as () => void).mock.calls[0] as unknown as readonly unknown[]

beforeEach(() => {
  vi.clearAllMocks()
  vi.mocked(migrationStatus).mockResolvedValue({ pending: [] } as never)
  vi.mocked(migrate).mockResolvedValue({ notes: ['a note'] } as never)
  vi.mocked(runRound).mockResolvedValue('quiet')
})
afterEach(() => vi.restoreAllMocks())

it.each([
  ['webhooks list', true],
  ['webhooks events', true],
  ['webhooks update w --active true', true],
  ['webhooks delete w', true],
  ['webhooks test w', true],
  ['api GET /v2/forms', true],
])('%s has a client with everything that its team is configured with', async (line) => {
  vi.mocked(openClient).mockImplementation(() => {
    throw new Error('no client')
  })
  const ended = await run(`${line} --team south`)
  const { webhookSecrets: _, timezone: __, name: ___, ...rest } = south
  expect(given(openClient)[0]).toEqual({
    ...{
      ...rest,
      apiVersion: 'v2.1',
      concurrency: expect.any(Number),
      rateLimit: { requests: 5, seconds: 1 },
    },
    ...{
      giveUpAfterMs: 180_000,
      endpoints: ENDPOINTS,
      clock: systemClock,
      random: Math.random,
      version: '1.2.3',
    },
    ...{ logger: expect.objectContaining({ level: 'warn' }), signal: expect.any(AbortSignal) },
  })
  expect((given(openClient)[0] as { signal: unknown }).signal).toBe(ended.signal)
  vi.mocked(openClient).mockClear()
  await run(`${line} --team north`)
  expect(given(openClient)[0]).toMatchObject({
    apiKey: 'key of north',
    apiVersion: 'v8',
    concurrency: 3,
    pageSize: 7,
  })
})

it.each(['SIGINT', 'SIGTERM'])(
  'a failure after %s is its own, and the signal itself an exit code without words',
  async (reason) => {
    vi.mocked(openClient).mockImplementation(() => {
      throw new Error('no client')
    })
    const failed = await run('webhooks list --team south --json', reason)
    expect([failed.code, JSON.parse(failed.stdout).error.code]).toEqual([1, 'internal'])
    vi.mocked(openClient).mockImplementation(({ signal }) => {
      throw signal!.reason
    })
    const { signal: _, ...ended } = await run('webhooks list --team south --json', reason)
    expect(ended).toEqual({ code: reason === 'SIGTERM' ? 143 : 130, stdout: '', stderr: '' })
  },
)

const check = (name: string, status: string, hint: string | null) => ({
  name,
  status,
  detail: `d ${name}`,
  hint,
})

it.each([
  ['ok', 0],
  ['warning', 0],
  ['failed', 1],
])('a doctor whose worst check is %s ends with %i, and checks what is configured', async (status, code) => {
  const checks = [check('a', status, status === 'ok' ? null : 'repair it'), check('b', 'ok', null)]
  vi.mocked(runChecks).mockResolvedValue(checks as never)
  const json = await run('doctor --json')
  const { checks: shown } = JSON.parse(json.stdout)
  expect([json.code, shown.slice(1)]).toEqual([
    ...[
      code,
      [check('configuration', 'ok', null), ...checks].map((each, at) => ({
        ...each,
        mend: each.hint,
        ...(at === 0 ? { detail: 'readable; team north, south' } : {}),
      })),
    ],
  ])
  expect(shown[0]).toMatchObject({ name: 'node', status: expect.stringMatching(/ok|warning/) })
  expect(given(runChecks)[0]).toEqual({
    ...{
      url,
      dataDir: null,
      cron: '1 2 * * *',
      encryptionKey: SETTINGS.INTAKE_ENCRYPTION_KEY,
      clock: systemClock,
    },
    ingestTeams: [north, south].map(({ name, webhookSecrets }) => ({ name, webhookSecrets })),
    teams: [
      expect.objectContaining({ name: 'north' }),
      expect.objectContaining({ name: 'south', timezone: 'Europe/Berlin' }),
    ],
    alerts: expect.objectContaining({ secret: 'a secret of the alerts' }),
    webhook: { name: 'webhook port', variable: 'INTAKE_WEBHOOK_PORT', host: '127.0.0.2', port: 1 },
    admin: { name: 'admin port', variable: 'INTAKE_ADMIN_PORT', host: '127.0.0.3', port: 2 },
    ...{ logger: expect.objectContaining({ level: 'silent' }), signal: json.signal },
  })
  for (const team of (given(runChecks)[0] as { teams: object[] }).teams)
    for (const key of ['webhookSecrets', 'pageSize', 'bodyKeys']) expect(team).not.toHaveProperty(key)
  const text = await run('doctor')
  expect([text.code, text.stdout.includes('hint: repair it')]).toEqual([code, status !== 'ok'])
})

const ENDS = [
  ['succeeded', 0],
  ['needs_attention', 4],
  ['failed', 1],
  ['interrupted', 130],
] as const

it.each(ENDS)(
  'a run that is %s ends its command with %i, on each output, after the alerts',
  async (status, code) => {
    const summary = { runId: '5', status, equal: status === 'succeeded', teams: [], waitingQuestions: [] }
    for (const part of [backfill, replay, verify]) vi.mocked(part as () => unknown).mockResolvedValue(summary)
    for (const line of ['backfill', 'replay', 'verify', 'verify --repair'])
      for (const more of ['', ' --json']) {
        vi.mocked(runRound).mockClear()
        const { code: own, stdout } = await run(line + more)
        expect([line, more, own]).toEqual([line, more, code])
        if (more !== '') expect(JSON.parse(stdout)).toMatchObject({ run_id: 5, status })
        else {
          const [next] = stdout.match(/^next: .*$/m) ?? [null]
          const ofBackfill = code === 0 || code === 4 ? 'next: intake-sync psql --as analyst' : null
          const ofVerify = code === 0 ? null : 'next: intake-sync verify --repair loads what differs'
          expect([line, next]).toEqual([line, { backfill: ofBackfill, verify: ofVerify }[line] ?? null])
        }
        expect(vi.mocked(runRound).mock.calls).toHaveLength(1)
      }
    expect(given(runRound)).toEqual([
      {
        ...{
          url,
          clock: systemClock,
          version: '1.2.3',
          teams: ['north', 'south'],
          webhookChecks: expect.anything(),
        },
        settings: expect.objectContaining({ url: 'https://alerts.example.com/x' }),
        ...{ logger: expect.objectContaining({ level: 'warn' }), signal: expect.any(AbortSignal) },
      },
      { thorough: true, insist: true },
    ])
  },
)

it.each(['SIGINT', 'SIGTERM'])('a run that %s ends looks for no alert, and ends at once', async (reason) => {
  const summary = { runId: '5', status: 'interrupted', equal: false, teams: [], waitingQuestions: [] }
  for (const part of [backfill, replay, verify]) vi.mocked(part as () => unknown).mockResolvedValue(summary)
  for (const line of ['backfill', 'replay', 'verify'])
    expect([line, (await run(line, reason)).code]).toEqual([line, reason === 'SIGTERM' ? 143 : 130])
  expect(runRound).not.toHaveBeenCalled()
})

it('planned and dry runs post no alert, and a dry run migrates and removes nothing', async () => {
  const planned = { runId: '6', slices: 3, workers: 2 }
  for (const part of [planBackfill, planReplay, planVerify])
    vi.mocked(part as () => unknown).mockResolvedValue(planned)
  const documents = { backfill: {}, replay: {}, verify: { equal: null, deep: null } }
  for (const [line, more] of Object.entries(documents)) {
    const text = await run(`${line} --detach`)
    expect([text.code, text.stdout]).toEqual([
      ...[0, 'run 6 is planned: 3 slices; intake-sync runs show 6 shows how far it is\nworkers: 2\n'],
    ])
    const json = await run(`${line} --detach --json`)
    const rest = { run_id: 6, status: 'planned', streams: {}, teams: {}, slices: 3, workers: 2 }
    expect([json.code, JSON.parse(json.stdout)]).toEqual([0, { ...rest, ...more }])
  }
  for (const [workers, says] of [
    [0, 'no worker is running: start intake-sync work, or serve'],
    [1, 'workers: 1'],
  ] as const) {
    vi.mocked(planReplay).mockResolvedValue({ ...planned, workers })
    expect((await run('replay --detach')).stdout.split('\n').slice(1)).toEqual([says, ''])
  }
  vi.mocked(migrate).mockClear()
  vi.mocked(migrationStatus).mockResolvedValue({ pending: ['x'] } as never)
  vi.mocked(backfill).mockResolvedValue({
    runId: null,
    status: 'succeeded',
    teams: [],
    waitingQuestions: [],
  } as never)
  expect((await run('backfill --dry-run')).stdout).toMatch(
    /dry run, nothing written: succeeded\nnext: intake-sync backfill\n$/,
  )
  expect(given(backfill)[0]).toMatchObject({ dry: true, migrated: false })
  for (const part of [runRound, migrate, prune, removeSettledBodies, settleDeliveries])
    expect(part).not.toHaveBeenCalled()
})

it('a backfill migrates first, prints its notes, and removes what is past its retention, for its own teams', async () => {
  vi.mocked(migrationStatus).mockResolvedValue({ pending: ['x'] } as never)
  vi.mocked(backfill).mockResolvedValue({
    runId: '1',
    status: 'succeeded',
    teams: [],
    waitingQuestions: [],
  } as never)
  const before = Date.now()
  const { stderr } = await run('backfill --team south')
  expect(JSON.parse(stderr)).toMatchObject({ level: 40, msg: 'a note' })
  expect(given(backfill)[0]).toMatchObject({ dry: false, migrated: true })
  const { now, ...rest } = given(prune)[0] as { now: Date }
  expect(rest).toMatchObject({
    db: 'db',
    forMs: 60_000,
    teams: ['south'],
    inboxDays: 9,
    runDays: 8,
    historyDays: 7,
  })
  expect(now.getTime()).toBeGreaterThanOrEqual(before)
  expect(given(removeSettledBodies)).toEqual(['db', { days: 9, now }])
  expect(given(settleDeliveries)).toEqual(['db', 9, ['south']])
  // A part that fails ends nothing, and says with which code.
  for (const part of [prune, removeSettledBodies, settleDeliveries]) {
    vi.mocked(part as () => Promise<void>).mockRejectedValueOnce(
      Object.assign(new Error('x'), { code: '55P03' }),
    )
    const failed = await run('backfill --json')
    const warning = { level: 40, time: expect.any(Number), code: 'table_locked' }
    expect([failed.code, JSON.parse(failed.stderr.split('\n').at(-2)!)]).toEqual([
      ...[0, { ...warning, msg: 'expired rows could not be removed' }],
    ])
  }
})

const stream = (name: string, lag: number | null) => ({
  ...{
    team: 'north',
    stream: name,
    rows: 1,
    deleted: 0,
    newest_record_at: null,
    last_run_at: null,
    inbox: 0,
  },
  ...{
    last_run_status: null,
    last_success_at: lag === null ? null : '2026-01-01T00:00:00Z',
    lag_seconds: lag,
    dead_letters: 0,
    drift: 0,
  },
})

it.each([
  ['', 0, []],
  ['--max-age 61', 4, ['documents']],
  ['--max-age 1m', 4, ['forms', 'documents']],
  ['--max-age 59', 4, ['patients', 'forms', 'documents']],
])('of status %s the exit code is %i, and stale are %j', async (words, code, names) => {
  // What only webhooks load has no runs.
  const streams = [
    stream('patients', 60),
    stream('forms', 61),
    stream('documents', null),
    stream('packet_responses', null),
  ]
  const status = { streams, teams: [], slices_waiting: [] }
  vi.mocked(readStatus).mockResolvedValue(status as never)
  const json = await run(`status --json ${words}`.trim())
  const stale = names.map((name) => ({ team: 'north', stream: name }))
  expect([json.code, JSON.parse(json.stdout)]).toEqual([code, { stale, ...status }])
  expect(given(readStatus)).toEqual([url, 9])
  const text = await run(`status ${words}`.trim())
  expect([text.code, text.stdout.match(/^stale: .*$/gm) ?? []]).toEqual([
    code,
    names.map((name) => `stale: north/${name}`),
  ])
})

it('a warehouse without teams is too old only where --max-age is given', async () => {
  vi.mocked(readStatus).mockResolvedValue({ streams: [], teams: [], slices_waiting: [] })
  for (const more of ['', ' --json']) {
    expect((await run(`status${more}`)).code).toBe(0)
    expect((await run(`status --max-age 9d${more}`)).code).toBe(4)
  }
})
