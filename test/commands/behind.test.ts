/**
 * Which commands read only a warehouse of their own version, under which name Postgres lists their sessions, and that
 * sessions and servers are closed where a command fails, without a warehouse.
 */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeEach, expect, it, vi } from 'vitest'
import { requireMigrated } from '../../src/analytics/migrate.ts'
import { everyCommand } from '../../src/commands/program.ts'
import { IntakeError } from '../../src/core/errors.ts'
import { openEmbedded } from '../../src/embedded/server.ts'
import { openSession } from '../../src/warehouse/connect.ts'
import { configOf } from '../e2e/support/teams.ts'
import { makeFolder, removeFolder } from '../support/folders.ts'
import { runCommand } from '../support/run-command.ts'

vi.mock('../../src/analytics/migrate.ts', async (original) => ({
  ...(await original()),
  requireMigrated: vi.fn(),
}))
vi.mock('../../src/embedded/server.ts', () => ({ openEmbedded: vi.fn() }))
vi.mock('../../src/warehouse/connect.ts', async (original) => ({
  ...(await original()),
  openSession: vi.fn(),
}))

const folder = makeFolder('behind-')
writeFileSync(join(folder, 'receipt'), '{}')
afterAll(() => removeFolder(folder))

const url = 'postgres://u@127.0.0.1:1/d'
const access = { baseUrl: 'http://127.0.0.1:1', apiKey: 'k', apiSecret: 's' }
const closed = new IntakeError('no session', { code: 'connections', verdict: 'retry' })
const behind = new IntakeError('behind', { code: 'database_behind', verdict: 'stop' })

beforeEach(() => {
  vi.resetAllMocks()
  vi.mocked(openSession).mockRejectedValue(closed)
  vi.mocked(requireMigrated).mockResolvedValue(undefined)
})

async function codeOf(line: string, env: object = { DATABASE_URL: url }): Promise<unknown> {
  const { code, stderr } = await runCommand(
    line.split(' ').map((word) => word.replace('FOLDER', folder)),
    {
      ...configOf([{ name: 'north', ...access }] as never),
      ...{ INTAKE_ENCRYPTION_KEY: Buffer.alloc(32).toString('base64'), PATH: '/nowhere', ...env },
    },
  )
  return [code, /^code: (\w+)/m.exec(stderr)?.[1]]
}

/** Lines of each command that refuses a warehouse of another version; and the name of its session, if that is its own. */
const STRICT: Readonly<Record<string, string | null>> = {
  runs: null,
  'runs show 1': null,
  'runs cancel 1': null,
  status: null,
  'explain patients p': null,
  'wait patients': 'wait',
  'wait patients p': 'wait',
  verify: null,
  'verify --detach': null,
  replay: null,
  'replay --detach': null,
  'replay --inbox --since 2026-01-01': null,
  work: null,
  console: null,
  'psql -c select': 'psql',
  'psql --as analyst -c select': 'psql',
  'dead-letters list': 'dead-letters',
  'dead-letters show 1': 'dead-letters',
  'dead-letters retry 1': 'dead-letters',
  'dead-letters discard 1': 'dead-letters',
  'classify list': 'classify',
  'classify set q hidden': 'classify',
  'classify tag': 'classify',
  'access list': 'access',
  'access grant ada north': 'access',
  'access revoke ada north': 'access',
  'instruments list': 'instruments',
  'instruments import x': 'instruments',
  'instruments remove x': 'instruments',
  'privacy report': 'privacy report',
  'dbt init FOLDER/new': 'dbt',
  'erase patient p --yes': null,
  'teams list': null,
  'teams remove x --keep-data': null,
  'receipt key': 'receipt',
  'receipt check FOLDER/receipt': 'receipt',
  'webhooks create --url https://h/x': 'webhooks',
  'webhooks delete w': null,
}

it.each(Object.entries(STRICT))('%s does nothing in a warehouse that is behind', async (line, name) => {
  vi.mocked(requireMigrated).mockRejectedValue(behind)
  expect(await codeOf(line)).toEqual([1, 'database_behind'])
  expect(vi.mocked(requireMigrated).mock.calls).toEqual([[url]])
  expect(openSession).not.toHaveBeenCalled()
  if (name === null) return
  vi.mocked(requireMigrated).mockReset().mockResolvedValue(undefined)
  expect(await codeOf(line)).toEqual([1, 'connections'])
  expect(vi.mocked(openSession).mock.calls.map(([{ purpose }]) => purpose)).toEqual([name])
})

it.each([
  ['export answers --out FOLDER/new', 'export'],
  ['export --format fhir-ndjson --out FOLDER/new', 'export'],
])('%s leaves it to the reader’s rights', async (line, name) => {
  vi.mocked(requireMigrated).mockRejectedValue(behind)
  expect(await codeOf(line)).toEqual([1, 'connections'])
  expect(vi.mocked(openSession).mock.calls.map(([{ purpose }]) => purpose)).toEqual([name])
})

const OPEN_A_SESSION = [
  ...Object.entries(STRICT).flatMap(([line, name]) => (name === null ? [] : [line])),
  ...['export answers --out FOLDER/new', 'export --format fhir-ndjson --out FOLDER/new'],
]

it.each(OPEN_A_SESSION)('%s closes its session where a query fails', async (line) => {
  const refuse = () => {
    throw Object.assign(new Error('x'), { code: '53100' })
  }
  const close = vi.fn(async () => {})
  const session = {
    db: new Proxy({}, { get: () => refuse }),
    client: new Proxy({}, { get: () => async () => refuse() }),
    [Symbol.asyncDispose]: close,
  }
  vi.mocked(openSession).mockResolvedValue(session as never)
  expect(await codeOf(line)).toEqual([
    expect.any(Number),
    expect.stringMatching(/^(disk_full|file_unreadable|role_refused)$/),
  ])
  expect([close.mock.calls.length, vi.mocked(openSession).mock.calls.length]).toEqual([1, 1])
})

it.each([...Object.keys(STRICT), ...OPEN_A_SESSION.slice(-2)])(
  '%s leaves an embedded server where it fails',
  async (line) => {
    const stop = vi.fn(async () => {})
    vi.mocked(openEmbedded).mockResolvedValue({ url, stop } as never)
    vi.mocked(requireMigrated).mockRejectedValue(behind)
    expect(await codeOf(line, { INTAKE_DATA_DIR: folder })).toEqual([
      1,
      expect.stringMatching(/^(database_behind|connections)$/),
    ])
    expect([vi.mocked(openEmbedded).mock.calls.length, stop.mock.calls.length]).toEqual([1, 1])
  },
)

it('every command at the top level is one of these, leaves it to the reader’s rights, migrates, or opens no warehouse', async () => {
  const output = { write: () => true }
  const commands = await everyCommand({
    ...{ env: {}, stdout: output, stderr: output, signal: new AbortController().signal, version: '' },
  })
  const strict = new Set(Object.keys(STRICT).map((line) => line.split(' ')[0]))
  expect(commands.map((each) => each.name()).filter((name) => !strict.has(name))).toEqual([
    ...['init', 'migrate', 'backfill', 'serve', 'patients', 'api', 'export', 'config', 'doctor'],
    ...['completion', 'emulator', 'demo'],
  ])
})
