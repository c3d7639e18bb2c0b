/** Commands that look, without a warehouse: what each asks for, what it leaves alone, and what of the answers it shows. */
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeEach, expect, it, vi } from 'vitest'
import { requireMigrated } from '../../../src/analytics/migrate.ts'
import { IntakeError, UsageError } from '../../../src/core/errors.ts'
import { openEmbedded } from '../../../src/embedded/server.ts'
import { cancelRun } from '../../../src/load/cancel-run.ts'
import { explain } from '../../../src/operate/explain.ts'
import { readLines, readProgress, readSlices } from '../../../src/operate/health/run-live.ts'
import { readRuns } from '../../../src/operate/health/runs.ts'
import { signReceipt, verificationFacts } from '../../../src/operate/receipts.ts'
import { verify } from '../../../src/reconcile/verify/verify.ts'
import { lockHolders } from '../../../src/warehouse/locks.ts'
import { configOf } from '../../e2e/support/teams.ts'
import { makeFolder, removeFolder } from '../../support/folders.ts'
import { runCommand } from '../../support/run-command.ts'

const session = { db: 'db', client: {}, [Symbol.asyncDispose]: async () => {} }

vi.mock('../../../src/warehouse/connect.ts', async (original) => ({
  ...(await original()),
  openSession: async () => session,
}))
vi.mock('../../../src/warehouse/teams.ts', async (original) => ({
  ...(await original()),
  warehouseTeam: async (_: string, name: string) => ({ teamId: 7, name, isRemoved: false }),
}))
vi.mock('../../../src/warehouse/locks.ts', async (original) => ({
  ...(await original()),
  lockHolders: vi.fn(),
}))
vi.mock('../../../src/analytics/migrate.ts', async (original) => ({
  ...(await original()),
  requireMigrated: vi.fn(),
}))
vi.mock('../../../src/embedded/server.ts', () => ({ openEmbedded: vi.fn() }))
vi.mock('../../../src/load/budgets.ts', async (original) => ({
  ...(await original()),
  openBudgets: () => ({ [Symbol.asyncDispose]: async () => {} }),
}))
vi.mock('../../../src/load/cancel-run.ts', async (original) => ({
  ...(await original()),
  cancelRun: vi.fn(),
}))
vi.mock('../../../src/operate/explain.ts', () => ({ explain: vi.fn() }))
vi.mock('../../../src/operate/health/runs.ts', async (original) => ({
  ...(await original()),
  readRuns: vi.fn(),
}))
vi.mock('../../../src/operate/health/run-live.ts', async (original) => ({
  ...(await original()),
  ...{ readLines: vi.fn(), readProgress: vi.fn(), readSlices: vi.fn() },
}))
vi.mock('../../../src/operate/receipts.ts', () => ({ signReceipt: vi.fn(), verificationFacts: vi.fn() }))
vi.mock('../../../src/reconcile/verify/verify.ts', () => ({ verify: vi.fn() }))

const folder = makeFolder('asked-')
afterAll(() => removeFolder(folder))
beforeEach(() => {
  vi.resetAllMocks()
  vi.mocked(requireMigrated).mockResolvedValue(undefined)
})

const url = 'postgres://u@127.0.0.1:1/d'
const access = { baseUrl: 'http://127.0.0.1:1', apiKey: 'k', apiSecret: 's' }
const TEAMS = [
  { name: 'north', ...access, apiVersion: 'v8' },
  { name: 'south', ...access, apiVersion: '' },
]

async function run(line: string, env: object = { DATABASE_URL: url }) {
  const own = { ...configOf(TEAMS), LOG_LEVEL: 'silent', ...env }
  const { code, stdout, stderr } = await runCommand(line.split(' '), own, { version: '1.2.3' })
  return { code, stdout, stderr }
}

it.each([
  ['north', 'v8'],
  ['south', ''],
  ['removed', 'v2.1'],
])('explain reads the payloads of the team %s as those of version %j', async (team, version) => {
  vi.mocked(explain).mockResolvedValue({ states: [], events: [], deadLetters: [], refetch: null } as never)
  const { stdout } = await run(`explain forms f --team ${team} --json`)
  expect(vi.mocked(explain).mock.calls).toEqual([
    [url, { teamId: 7, stream: expect.objectContaining({ name: 'forms' }), id: 'f' }, version],
  ])
  expect(JSON.parse(stdout)).toEqual({
    ...{ team, stream: 'forms', id: 'f', states: [], events: [], dead_letters: [], refetch: null },
  })
})

const RUN = {
  ...{ run_id: 5, kind: 'verify', started_at: '2026-01-05T02:00:00+00:00', finished_at: null, options: {} },
  ...{ streams: [], error: null, is_waiting: false, canceled_by: null },
}
const FACTS = {
  ...{ run_id: 5, status: 'succeeded', equal: true, started_at: RUN.started_at, finished_at: null },
  teams: {},
}
const SLICE = {
  ...{ slice_id: 1, team: 'north', stream: 'forms', state: 'pending', epoch: 0, owner: null, takeovers: 0 },
  ...{ claimed_at: null, silent_seconds: null, settled_at: null, phase: null, pages: null, pages_left: null },
  ...{ fetched: null, expected: null, seconds: null, result: null },
}
const PROGRESS = {
  ...{ team: 'north', stream: 'forms', phase: 'fetch', pages: 1, pages_left: 3, seconds: 2, fetched: 4 },
  ...{ requests: 1, throttled: 0, expected: null, permitted_rate: null },
}

it.each(['succeeded', 'failed', 'interrupted', 'needs_attention'])(
  'of a run that is %s, runs show asks neither who executes it nor how far it is, but for what it found',
  async (status) => {
    vi.mocked(readRuns).mockResolvedValue([{ ...RUN, status, seconds: 1 } as never])
    for (const [part, answer] of [
      [readProgress, [PROGRESS]],
      [lockHolders, 'somebody'],
      [readSlices, [{ ...SLICE, state: 'done', pages: 1, seconds: 1 }]],
      [readLines, []],
      [verificationFacts, FACTS],
    ] as const)
      vi.mocked(part as () => unknown).mockResolvedValue(answer)
    const { code, stdout } = await run('runs show 5 --json')
    expect([code, JSON.parse(stdout)]).toMatchObject([
      0,
      { owner: null, progress: [], seconds_left: null, eta: null, verification: FACTS },
    ])
    expect(vi.mocked(verificationFacts).mock.calls).toEqual([['db', 5]])
    expect(vi.mocked(readRuns).mock.calls).toEqual([[url, 1, 5]])
  },
)

it('of a running run, runs show asks who executes it and how far it is, and for no result yet', async () => {
  vi.mocked(readRuns).mockResolvedValue([{ ...RUN, status: 'running', seconds: 1 } as never])
  vi.mocked(readProgress).mockResolvedValue([PROGRESS as never])
  vi.mocked(lockHolders).mockResolvedValue('host-1')
  vi.mocked(readSlices).mockResolvedValue([])
  vi.mocked(readLines).mockResolvedValue([])
  vi.mocked(verificationFacts).mockResolvedValue(FACTS)
  const live = { ...PROGRESS, rate: 2, seconds_left: 6 }
  expect(JSON.parse((await run('runs show 5 --json')).stdout)).toEqual({
    ...{ ...RUN, status: 'running', seconds: 1, owner: 'host-1', progress: [live], seconds_left: 6 },
    ...{ eta: null, slices: [], verification: null, log: [] },
  })
  expect(vi.mocked(lockHolders).mock.calls).toEqual([['db', 'run', '5']])
  // The time that is left of planned work is that of its slices.
  vi.mocked(readSlices).mockResolvedValue([SLICE as never])
  const planned = JSON.parse((await run('runs show 5 --json')).stdout)
  expect(planned).toMatchObject({ seconds_left: null, eta: { slices_left: 1, seconds_left: null } })
})

it('a run that the answer does not have is unknown, and a lost connection while one is canceled is named', async () => {
  for (const found of [[], [{ ...RUN, run_id: 4, status: 'succeeded' }]]) {
    vi.mocked(readRuns).mockResolvedValue(found as never)
    expect(JSON.parse((await run('runs show 5 --json')).stdout).error.code).toBe('unknown_run')
  }
  vi.mocked(cancelRun).mockRejectedValue(Object.assign(new Error('x'), { code: '57P01' }))
  const { code, stdout } = await run('runs cancel 5 --json')
  expect([code, JSON.parse(stdout).error.code]).toEqual([1, 'shutdown'])
})

it.each(['status', 'status --max-age 1d'])(
  'where there is no warehouse, %s says so and ends with 4',
  async (line) => {
    const data = join(folder, 'nothing')
    const env = { DATABASE_URL: '', INTAKE_DATA_DIR: data }
    const message = `there is no warehouse yet: DATABASE_URL is not set, and ${data} does not exist`
    const hint = 'set DATABASE_URL or INTAKE_DATA_DIR, or create it with intake-sync backfill'
    expect(await run(line, env)).toEqual({ code: 4, stdout: `${message}\n  hint: ${hint}\n`, stderr: '' })
    const { code, stdout, stderr } = await run(`${line} --json`, env)
    const error = { code: 'no_warehouse', message, hint }
    expect([code, JSON.parse(stdout), stderr]).toEqual([
      ...[4, { stale: [], streams: [], teams: [], slices_waiting: [], error }, ''],
    ])
    vi.mocked(openEmbedded).mockRejectedValue(
      new UsageError('not a folder', 'name one', 'INTAKE_DATA_DIR', 'data_dir_unusable'),
    )
    const broken = await run(`${line} --json`, { ...env, INTAKE_DATA_DIR: folder })
    expect([broken.code, JSON.parse(broken.stdout).error.code]).toEqual([2, 'data_dir_unusable'])
  },
)

it('a receipt of verify is of the run that it made, and is written before the command ends; a failure leaves no file', async () => {
  const file = join(folder, 'receipt')
  vi.mocked(verify).mockImplementation(async () => {
    // A path that cannot be written to would have ended the command by now.
    expect(readFileSync(file, 'utf8')).toBe('')
    return { runId: '8', status: 'succeeded', equal: true, teams: [] }
  })
  vi.mocked(verificationFacts).mockResolvedValue({ equal: true } as never)
  vi.mocked(signReceipt).mockImplementation(async (_, version, { kind, facts }) => {
    return JSON.stringify({ version, kind, facts })
  })
  expect((await run(`verify --receipt ${file}`)).code).toBe(0)
  expect(JSON.parse(readFileSync(file, 'utf8'))).toEqual({
    ...{ version: '1.2.3', kind: 'verification', facts: { equal: true } },
  })
  expect(vi.mocked(verificationFacts).mock.calls).toEqual([['db', 8]])
  const other = join(folder, 'other')
  vi.mocked(verify).mockResolvedValue({ runId: '9', status: 'succeeded', equal: true, teams: [] })
  vi.mocked(signReceipt).mockRejectedValueOnce(
    new IntakeError('no key', { code: 'disk_full', verdict: 'stop' }),
  )
  expect((await run(`verify --receipt ${other}`)).code).toBe(1)
  expect(existsSync(other)).toBe(false)
})
