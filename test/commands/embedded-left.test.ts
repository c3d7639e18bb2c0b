/** Commands that bring the warehouse up to date, or read how far it is, let go of the embedded server however they end. */
import { afterAll, beforeEach, expect, it, vi } from 'vitest'
import { migrate, migrationStatus } from '../../src/analytics/migrate.ts'
import { planMigration } from '../../src/analytics/plan.ts'
import { prepareWarehouse } from '../../src/commands/init/probe.ts'
import { readConfig } from '../../src/config/config.ts'
import { IntakeError } from '../../src/core/errors.ts'
import { openEmbedded } from '../../src/embedded/server.ts'
import { checkWarehouse } from '../../src/operate/doctor/warehouse.ts'
import { configOf } from '../e2e/support/teams.ts'
import { makeFolder, removeFolder } from '../support/folders.ts'
import { runCommand } from '../support/run-command.ts'
import { contextOf } from './output-context.ts'

vi.mock('../../src/analytics/migrate.ts', async (original) => ({
  ...(await original()),
  ...{ migrate: vi.fn(), migrationStatus: vi.fn() },
}))
vi.mock('../../src/analytics/plan.ts', () => ({ planMigration: vi.fn() }))
vi.mock('../../src/embedded/server.ts', () => ({ openEmbedded: vi.fn() }))
vi.mock('../../src/operate/doctor/warehouse.ts', async (original) => ({
  ...(await original()),
  checkWarehouse: vi.fn(),
}))

const folder = makeFolder('embedded-left-')
afterAll(() => removeFolder(folder))

const team = { name: 'north', baseUrl: 'http://127.0.0.1:1', apiKey: 'k', apiSecret: 's' }
const env = { ...configOf([team]), INTAKE_DATA_DIR: folder, LOG_LEVEL: 'silent' }
const slow = new IntakeError('it does not answer', { code: 'warehouse_slow', verdict: 'retry' })
const stop = vi.fn(async () => {})

beforeEach(() => {
  vi.resetAllMocks()
  vi.mocked(openEmbedded).mockResolvedValue({ url: 'postgres://u@127.0.0.1:1/d', stop } as never)
  for (const part of [migrate, migrationStatus, planMigration, checkWarehouse])
    vi.mocked(part as () => Promise<never>).mockRejectedValue(slow)
})

const counts = () => [vi.mocked(openEmbedded).mock.calls.length, stop.mock.calls.length]

it.each(['backfill', 'backfill --dry-run', 'serve', 'migrate', 'migrate --status', 'migrate --plan'])(
  '%s stops the embedded server once when it fails',
  async (line) => {
    const { code, stderr } = await runCommand(line.split(' '), env)
    expect([code, stderr.includes('code: warehouse_slow')], stderr).toEqual([1, true])
    expect(counts()).toEqual([1, 1])
  },
)

it.each([
  ['migrate', 0],
  ['migrate --status', 4],
  ['migrate --plan', 0],
])('%s stops the embedded server once when it ends with %i', async (line, exit) => {
  vi.mocked(migrate).mockResolvedValue({ migrated: [], applied: [], rolesNote: null, notes: [] } as never)
  vi.mocked(migrationStatus).mockResolvedValue({ applied: [], pending: ['1'] } as never)
  vi.mocked(planMigration).mockResolvedValue([])
  expect((await runCommand(line.split(' '), env)).code).toBe(exit)
  expect(counts()).toEqual([1, 1])
})

it('init stops the embedded server once when it cannot prepare the warehouse', async () => {
  await expect(prepareWarehouse(contextOf(undefined, env), readConfig(env))).rejects.toBe(slow)
  expect(counts()).toEqual([1, 1])
})
