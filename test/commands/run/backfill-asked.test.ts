/** `backfill` without a warehouse: when it migrates, and which dates it refuses before anything is opened. */
import { beforeEach, expect, it, vi } from 'vitest'
import { migrate, migrationStatus } from '../../../src/analytics/migrate.ts'
import { runProgram } from '../../../src/commands/program.ts'
import { backfill } from '../../../src/extract/backfill.ts'
import { configOf } from '../../e2e/support/teams.ts'

vi.mock('../../../src/analytics/migrate.ts', async (original) => ({
  ...(await original()),
  ...{ migrate: vi.fn(), migrationStatus: vi.fn() },
}))
vi.mock('../../../src/load/budgets.ts', async (original) => ({
  ...(await original()),
  openBudgets: () => ({ [Symbol.asyncDispose]: async () => {} }),
}))
vi.mock('../../../src/operate/serve/retention.ts', () => ({ openRetention: vi.fn(), prune: vi.fn() }))
vi.mock('../../../src/extract/backfill.ts', () => ({ backfill: vi.fn() }))

const url = 'postgres://u@127.0.0.1:1/d'
const access = { baseUrl: 'http://127.0.0.1:1', apiKey: 'k', apiSecret: 's' }

beforeEach(() => {
  vi.resetAllMocks()
  vi.mocked(migrate).mockResolvedValue({ notes: ['pseudonyms changed'] } as never)
  vi.mocked(backfill).mockResolvedValue({
    ...{ runId: '1', status: 'succeeded', teams: [], waitingQuestions: [] },
  } as never)
})

async function run(words: readonly string[], env: object = {}) {
  const said = { stdout: '', stderr: '' }
  const code = await runProgram(['backfill', ...words], {
    env: {
      ...configOf([{ name: 'north', ...access }] as never),
      DATABASE_URL: url,
      LOG_LEVEL: 'warn',
      ...env,
    },
    stdout: { write: (text) => (said.stdout += String(text)) },
    stderr: { write: (text) => (said.stderr += String(text)) },
    ...{ signal: new AbortController().signal, version: '1.2.3' },
  })
  return { code, ...said }
}

const KEY = 'k'.repeat(32)

it.each([
  [[], [], null, false],
  [[], [], KEY, true],
  [[], ['0170_more'], null, true],
  [[], ['0170_more'], KEY, true],
  [['--dry-run'], [], KEY, false],
  [['--dry-run'], ['0170_more'], KEY, false],
] as const)('%j, with %j pending and the key %s: it migrates: %s', async (words, pending, key, migrates) => {
  vi.mocked(migrationStatus).mockResolvedValue({ applied: [], pending })
  const { code, stderr } = await run(words, key === null ? {} : { INTAKE_ANALYTICS_KEY: key })
  expect([code, stderr.includes('pseudonyms changed')]).toEqual([0, migrates])
  expect(vi.mocked(migrate).mock.calls).toEqual(
    migrates ? [[url, expect.objectContaining({ analyticsKey: key })]] : [],
  )
  expect(vi.mocked(backfill).mock.calls.map(([{ dry, migrated }]) => [dry, migrated])).toEqual([
    [words.length > 0, words.length === 0 || pending.length === 0],
  ])
})

it.each(['', '--full', '--full --dry-run', '--since 2026-01-02 --dry-run'])(
  'the dates and mode of the command line reach the backfill: %s',
  async (line) => {
    vi.mocked(migrationStatus).mockResolvedValue({ applied: [], pending: [] })
    expect((await run(line === '' ? [] : line.split(' '))).code).toBe(0)
    expect(vi.mocked(backfill).mock.calls.map(([{ window, dry }]) => [window, dry])).toEqual([
      [
        {
          ...{ lookbackDays: expect.any(Number), sweepDays: expect.any(Number) },
          full: line.includes('--full'),
          since: line.includes('--since') ? '2026-01-02T00:00:00.000000Z' : null,
        },
        line.includes('--dry-run'),
      ],
    ])
  },
)

it.each(['', ' ', 'yesterday', '2026-13-01', '2026-02-30', '5'])(
  '--since %j is refused as not a date, before anything is opened',
  async (since) => {
    const { code, stdout } = await run(['--since', since, '--json'])
    expect([code, JSON.parse(stdout).error]).toMatchObject([
      2,
      { code: 'usage', message: '--since is not a date', hint: 'write it as YYYY-MM-DD' },
    ])
    for (const part of [migrationStatus, migrate, backfill]) expect(part).not.toHaveBeenCalled()
  },
)
