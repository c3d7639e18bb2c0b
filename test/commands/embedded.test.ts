/** Which warehouse a command opens, without one: the configured, or the embedded server, which it leaves again. */
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeEach, expect, it, vi } from 'vitest'
import { requireMigrated } from '../../src/analytics/migrate.ts'
import { openWarehouse, requireWarehouse } from '../../src/commands/context.ts'
import { openExistingWarehouse, storedSecrets } from '../../src/commands/webhooks/store.ts'
import { readConfig } from '../../src/config/config.ts'
import { IntakeError } from '../../src/core/errors.ts'
import { openEmbedded } from '../../src/embedded/server.ts'
import { secretStates } from '../../src/warehouse/webhook-secrets.ts'
import { makeFolder, removeFolder } from '../support/folders.ts'

vi.mock('../../src/embedded/server.ts', () => ({ openEmbedded: vi.fn() }))
vi.mock('../../src/analytics/migrate.ts', async (original) => ({
  ...(await original()),
  requireMigrated: vi.fn(),
}))
vi.mock('../../src/warehouse/connect.ts', async (original) => ({
  ...(await original()),
  openSession: async () => ({ db: 'db', [Symbol.asyncDispose]: async () => {} }),
}))
vi.mock('../../src/warehouse/webhook-secrets.ts', async (original) => ({
  ...(await original()),
  secretStates: vi.fn(),
}))

const folder = makeFolder('embedded-')
const dataDir = join(folder, 'data')
mkdirSync(dataDir)
afterAll(() => removeFolder(folder))

let said: string
const stop = vi.fn(async () => {})
const context = () => ({
  ...{ env: {}, stdout: { write: () => true }, signal: new AbortController().signal, version: '' },
  stderr: { write: (text: string | Uint8Array) => (said += String(text)) },
})
const embedded = readConfig({ INTAKE_DATA_DIR: dataDir })
const absent = readConfig({ INTAKE_DATA_DIR: join(folder, 'absent') })
const configured = readConfig({ DATABASE_URL: 'postgres://u@127.0.0.1:1/d', INTAKE_DATA_DIR: dataDir })
const behind = new IntakeError('the warehouse is behind', { code: 'database_behind', verdict: 'stop' })

beforeEach(() => {
  vi.resetAllMocks()
  said = ''
  vi.mocked(openEmbedded).mockImplementation(async ({ onNotice }) => {
    onNotice!('starts')
    onNotice!('has started')
    return { url: 'postgres://embedded', stop } as never
  })
})

it.each([
  ['a command that writes', openWarehouse],
  ['a command that reads', requireWarehouse],
  ['a command of webhooks', openExistingWarehouse],
])('%s says on standard error what the embedded server does, and leaves it once', async (_, open) => {
  const opened = (await open(context(), embedded))!
  expect([opened.url, said]).toEqual(['postgres://embedded', 'starts\nhas started\n'])
  expect(vi.mocked(openEmbedded).mock.calls).toEqual([[{ dataDir, onNotice: expect.any(Function) }]])
  expect(stop).not.toHaveBeenCalled()
  await opened[Symbol.asyncDispose]()
  expect(stop).toHaveBeenCalledOnce()
})

it.each([
  ['a command that writes', openWarehouse],
  ['a command that reads', requireWarehouse],
  ['a command of webhooks', openExistingWarehouse],
])('%s opens the configured warehouse, and starts no server', async (_, open) => {
  const opened = (await open(context(), configured))!
  await opened[Symbol.asyncDispose]()
  expect([opened.url, said]).toEqual([configured.databaseUrl, ''])
  expect(openEmbedded).not.toHaveBeenCalled()
})

it('only a command that writes creates a server', async () => {
  await expect(requireWarehouse(context(), absent)).rejects.toMatchObject({ code: 'no_warehouse' })
  expect(await openExistingWarehouse(context(), absent)).toBeNull()
  expect(openEmbedded).not.toHaveBeenCalled()
  await openWarehouse(context(), absent)
  expect(openEmbedded).toHaveBeenCalledOnce()
})

it('a server whose warehouse is behind is left again by commands of webhooks', async () => {
  vi.mocked(requireMigrated).mockRejectedValueOnce(behind)
  await expect(openExistingWarehouse(context(), embedded)).rejects.toBe(behind)
  expect(stop).toHaveBeenCalledOnce()
})

it('whether secrets are stored is read from a configured warehouse only, and where it cannot be, that is said', async () => {
  const states = new Map([['w', 'stored' as const]])
  vi.mocked(secretStates).mockResolvedValue(states)
  expect(await storedSecrets(context(), configured, 'north')).toBe(states)
  expect(vi.mocked(secretStates).mock.calls).toEqual([['db', 'north']])
  expect(await storedSecrets(context(), embedded, 'north')).toBeNull()
  expect([said, vi.mocked(openEmbedded).mock.calls]).toEqual(['', []])
  vi.mocked(requireMigrated).mockRejectedValueOnce(behind)
  expect(await storedSecrets(context(), configured, 'north')).toBeNull()
  vi.mocked(secretStates).mockRejectedValueOnce(Object.assign(new Error('x'), { code: '42501' }))
  expect(await storedSecrets(context(), configured, 'north')).toBeNull()
  expect(said.split('\n')).toEqual([
    'note: whether a secret is stored is not known: the warehouse is behind',
    expect.stringMatching(/^note: whether a secret is stored is not known: \S/),
    '',
  ])
})
