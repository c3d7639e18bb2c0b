/** The warehouse of webhook secrets: opened where it exists, and closed again where it cannot be used. */
import { join } from 'node:path'
import { afterAll, beforeEach, expect, it, vi } from 'vitest'
import { requireMigrated } from '../../../src/analytics/migrate.ts'
import { openExistingWarehouse, storedSecrets, withStore } from '../../../src/commands/webhooks/store.ts'
import { readConfig } from '../../../src/config/config.ts'
import { IntakeError } from '../../../src/core/errors.ts'
import { openEmbedded } from '../../../src/embedded/server.ts'
import { openSession } from '../../../src/warehouse/connect.ts'
import { secretStates } from '../../../src/warehouse/webhook-secrets.ts'
import { makeFolder, removeFolder } from '../../support/folders.ts'

vi.mock('../../../src/analytics/migrate.ts', async (original) => ({
  ...(await original()),
  requireMigrated: vi.fn(),
}))
vi.mock('../../../src/embedded/server.ts', async (original) => ({
  ...(await original()),
  openEmbedded: vi.fn(),
}))
vi.mock('../../../src/warehouse/connect.ts', async (original) => ({
  ...(await original()),
  openSession: vi.fn(),
}))
vi.mock('../../../src/warehouse/webhook-secrets.ts', async (original) => ({
  ...(await original()),
  secretStates: vi.fn(),
}))

const folder = makeFolder('webhook-store-')
afterAll(() => removeFolder(folder))

let said: string
let steps: string[]
const context = {
  ...{ env: {}, stdout: { write: () => true }, signal: new AbortController().signal, version: '' },
  stderr: { write: (text: string | Uint8Array) => (said += String(text)) },
}
const url = 'postgres://u@127.0.0.1:1/d'
const behind = new IntakeError('it is behind', { code: 'database_behind', verdict: 'stop' })

beforeEach(() => {
  vi.resetAllMocks()
  said = ''
  steps = []
  vi.mocked(openEmbedded).mockImplementation(async ({ dataDir, onNotice }) => {
    onNotice?.('starting')
    steps.push(`opened ${dataDir}`)
    return { url, stop: async () => void steps.push('stopped') } as never
  })
  vi.mocked(openSession).mockImplementation(async (options) => {
    steps.push(`session of ${options.purpose}`)
    return { db: 'db', [Symbol.asyncDispose]: async () => void steps.push('session closed') } as never
  })
})

it('an embedded warehouse that was never created is none, and is not created', async () => {
  const config = readConfig({ INTAKE_DATA_DIR: join(folder, 'none') })
  expect(await openExistingWarehouse(context, config)).toBeNull()
  expect([steps, said]).toEqual([[], ''])
})

it('one that exists runs until it is disposed of, and at once no longer where it is behind', async () => {
  const config = readConfig({ INTAKE_DATA_DIR: folder })
  {
    await using warehouse = await openExistingWarehouse(context, config)
    expect([warehouse?.url, steps, said]).toEqual([url, [`opened ${folder}`], 'starting\n'])
    expect(requireMigrated).toHaveBeenCalledExactlyOnceWith(url)
  }
  expect(steps).toEqual([`opened ${folder}`, 'stopped'])
  vi.mocked(requireMigrated).mockRejectedValueOnce(behind)
  await expect(openExistingWarehouse(context, config)).rejects.toBe(behind)
  expect(steps.slice(2)).toEqual([`opened ${folder}`, 'stopped'])
})

it('the states of a team are read only where a warehouse is configured; why they are not known is a note', async () => {
  expect(await storedSecrets(context, readConfig({ INTAKE_DATA_DIR: folder }), 'north')).toBeNull()
  expect([steps, said]).toEqual([[], ''])
  const config = readConfig({ DATABASE_URL: url })
  const states = new Map([['w', 'stored' as const]])
  vi.mocked(secretStates).mockResolvedValueOnce(states)
  expect(await storedSecrets(context, config, 'south')).toBe(states)
  expect(vi.mocked(secretStates).mock.calls).toEqual([['db', 'south']])
  expect(steps).toEqual(['session of webhooks', 'session closed'])
  vi.mocked(requireMigrated).mockRejectedValueOnce(behind)
  expect(await storedSecrets(context, config, 'south')).toBeNull()
  expect(said).toBe('note: whether a secret is stored is not known: it is behind\n')
})

it('a session is closed where the work with it fails, and the failure is one of the warehouse', async () => {
  const failing = withStore(url, async () => {
    throw Object.assign(new Error('x'), { code: '53100' })
  })
  await expect(failing).rejects.toMatchObject({ code: 'disk_full' })
  expect(steps).toEqual(['session of webhooks', 'session closed'])
})
