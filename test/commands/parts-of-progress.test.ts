/** How far a run is: bars are named after teams where it may have several, follow the run, and are gone before the result. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import pino from 'pino'
import { afterAll, beforeEach, expect, it, vi } from 'vitest'
import { runProgram } from '../../src/commands/program.ts'
import { scheduledBackfill } from '../../src/commands/run/backfill.ts'
import { openProgress } from '../../src/commands/run/progress.ts'
import { systemClock } from '../../src/core/clock.ts'
import { backfill } from '../../src/extract/backfill.ts'
import { replay } from '../../src/reconcile/replay.ts'
import { verify } from '../../src/reconcile/verify/verify.ts'
import { json, startService } from '../api/support/service.ts'
import { configOf } from '../e2e/support/teams.ts'
import { makeFolder, removeFolder } from '../support/folders.ts'

vi.mock('../../src/commands/run/progress.ts', async (original) => ({
  ...(await original()),
  openProgress: vi.fn(),
}))
vi.mock('../../src/warehouse/connect.ts', async (original) => ({
  ...(await original()),
  openSession: async () => ({ db: 'db', client: {}, [Symbol.asyncDispose]: async () => {} }),
}))
vi.mock('../../src/analytics/migrate.ts', async (original) => ({
  ...(await original()),
  ...{ requireMigrated: async () => {}, migrationStatus: async () => ({ pending: [] }) },
}))
vi.mock('../../src/load/budgets.ts', async (original) => ({
  ...(await original()),
  openBudgets: () => ({ [Symbol.asyncDispose]: async () => {} }),
}))
vi.mock('../../src/operate/serve/retention.ts', () => ({ openRetention: vi.fn(), prune: vi.fn() }))
vi.mock('../../src/extract/backfill.ts', () => ({ backfill: vi.fn() }))
vi.mock('../../src/reconcile/replay.ts', () => ({ replay: vi.fn() }))
vi.mock('../../src/reconcile/verify/verify.ts', () => ({ verify: vi.fn() }))

const folder = makeFolder('progress-')
afterAll(() => removeFolder(folder))

/** What happened, in its order. */
const happened: string[] = []
const update = vi.fn()

beforeEach(() => {
  vi.clearAllMocks()
  happened.length = 0
  vi.mocked(openProgress).mockReturnValue({
    update,
    stderr: { write: (text) => happened.push(`above the bars: ${JSON.parse(String(text)).msg}`) },
    [Symbol.dispose]: () => void happened.push('no bars'),
  })
})

const access = { baseUrl: 'http://127.0.0.1:1', apiKey: 'k', apiSecret: 's' }

async function run(
  line: string,
  env: object = configOf(['north', 'south'].map((name) => ({ name, ...access }))),
) {
  const { signal } = new AbortController()
  const code = await runProgram(line.split(' '), {
    env: { DATABASE_URL: 'postgres://u@127.0.0.1:1/d', ...env } as NodeJS.ProcessEnv,
    stdout: { write: () => happened.push('result') },
    stderr: { write: (text) => happened.push(`stderr: ${text}`) },
    ...{ signal, version: '1.2.3' },
  })
  return { code, signal }
}

const RUNS = { backfill, replay, verify } as const
type Name = keyof typeof RUNS

it.each([
  ['backfill', true],
  ['backfill --team north', false],
  ['verify --streams forms', true],
  ['verify --team north', false],
  ['replay', true],
  ['replay --team south', false],
])('%s: names of teams in its bars: %s', async (line, several) => {
  const part = vi.mocked(RUNS[line.split(' ')[0] as Name] as () => Promise<unknown>)
  part.mockImplementation(async (...[options]: unknown[]) => {
    const { logger, onProgress } = options as {
      logger: pino.Logger
      onProgress: (...given: unknown[]) => void
    }
    logger.warn('slow')
    if (line.startsWith('replay')) onProgress('north', 'forms', 7)
    else onProgress('north', 'forms', { fetched: 7, expected: 9 })
    return { runId: '1', status: 'succeeded', equal: true, teams: [], waitingQuestions: [] }
  })
  const { code, signal } = await run(line)
  expect(vi.mocked(openProgress).mock.calls).toEqual([
    [expect.objectContaining({ version: '1.2.3' }), several],
  ])
  const expected = line.startsWith('replay') ? null : 9
  expect(update.mock.calls).toEqual([['north', 'forms', { fetched: 7, expected }]])
  const [options] = part.mock.calls[0] as unknown as [{ signal: AbortSignal }]
  expect(options.signal).toBe(signal)
  const lines = happened.filter((each) => !each.includes('expired rows'))
  expect([code, lines]).toEqual([
    0,
    ['above the bars: slow', 'no bars', 'result', ...(line.startsWith('backfill') ? ['result'] : [])],
  ])
})

it('an upload has one bar, of the rows that the service has processed', async () => {
  vi.spyOn(systemClock, 'sleep').mockResolvedValue()
  const file = join(folder, 'people.csv')
  writeFileSync(file, 'first_name,last_name\nA,B\n')
  const states = [
    { id: 'u', processed_rows: 1, total_rows: 4 },
    { id: 'u' },
    { id: 'u', processed_rows: 4, total_rows: 4 },
  ]
  await using service = await startService((_, response, index) => json(response, states[index]!))
  const env = configOf([{ name: 'north', ...access, baseUrl: service.url }])
  expect((await run(`patients upload ${file}`, { ...env, LOG_LEVEL: 'silent' })).code).toBe(0)
  expect(vi.mocked(openProgress).mock.calls).toEqual([[expect.anything(), false]])
  expect(update.mock.calls).toEqual([
    ['north', 'patients', { fetched: 1, expected: 4 }],
    ['north', 'patients', { fetched: 4, expected: 4 }],
  ])
  expect(happened).toEqual(['no bars', 'result'])
})

it.each([
  ['succeeded', 30],
  ['needs_attention', 40],
  ['failed', 40],
  ['interrupted', 40],
])(
  'a scheduled backfill that is %s is two lines of the log, with the teams and the sums of all streams',
  async (status, level) => {
    const report = { fetched: 1, changed: 20, deleted: 300, deadLetters: 4_000 }
    const streams = [
      { stream: 'a', report },
      { stream: 'b', report },
    ]
    vi.mocked(backfill).mockResolvedValue({
      runId: '3',
      status,
      teams: [{ streams }, { streams: streams.slice(1) }],
    } as never)
    const said: unknown[] = []
    const logger = pino(
      { base: null, timestamp: false },
      { write: (line: string) => void said.push(JSON.parse(line)) },
    )
    const place = { url: 'u', config: { lookbackDays: 2, sweepDays: 7 }, logger, version: '1' }
    await scheduledBackfill(
      place,
      [{ name: 'north' }, { name: 'south' }] as never,
      new AbortController().signal,
    )
    expect(said).toEqual([
      { level: 30, teams: ['north', 'south'], msg: 'scheduled backfill started' },
      {
        ...{ level, run: '3', fetched: 3, changed: 60, deleted: 900, dead_letters: 12_000 },
        msg: `scheduled backfill: ${status.replace('_', ' ')}`,
      },
    ])
  },
)
