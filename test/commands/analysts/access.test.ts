/** What `access` says of a grant: on both outputs, of a new one and of one that was there. */
import { beforeEach, expect, test, vi } from 'vitest'
import { grantAccess, revokeAccess } from '../../../src/analytics/access.ts'
import { runProgram } from '../../../src/commands/program.ts'

const session = { db: 'db', [Symbol.asyncDispose]: async () => {} }
vi.mock('../../../src/warehouse/connect.ts', async (original) => ({
  ...(await original()),
  openSession: async () => session,
}))
vi.mock('../../../src/analytics/migrate.ts', async (original) => ({
  ...(await original()),
  requireMigrated: async () => {},
}))
vi.mock('../../../src/analytics/access.ts', async (original) => ({
  ...(await original()),
  ...{ grantAccess: vi.fn(), revokeAccess: vi.fn() },
}))
beforeEach(() => vi.clearAllMocks())

async function run(line: string) {
  const said = { stdout: '', stderr: '' }
  const code = await runProgram(line.split(' '), {
    env: { DATABASE_URL: 'postgres://u@127.0.0.1:1/d', LOG_LEVEL: 'silent' },
    stdout: { write: (text) => (said.stdout += String(text)) },
    stderr: { write: (text) => (said.stderr += String(text)) },
    ...{ signal: new AbortController().signal, version: '1.2.3' },
  })
  return { code, ...said }
}

const NOTE =
  'note: the login has none of intake_analyst, intake_clinical and intake_researcher: grant it one of them\n'

test.each([
  [true, true, 'a, b'],
  [true, false, null],
  [false, true, null],
  [false, false, null],
])('a grant that changes something: %s, to a login with a role: %s', async (changed, hasRole, searchPath) => {
  vi.mocked(grantAccess).mockResolvedValue({ changed, hasRole, searchPath })
  const stderr = hasRole ? '' : NOTE
  expect(await run('access grant ada south')).toEqual({
    ...{ code: 0, stdout: changed ? 'granted\n' : 'already granted\n', stderr },
  })
  const json = await run('access grant ada south --json')
  expect([json.code, json.stderr, JSON.parse(json.stdout)]).toEqual([
    ...[0, stderr, { login: 'ada', team: 'south', changed, search_path: searchPath }],
  ])
  expect(vi.mocked(grantAccess).mock.calls).toEqual(Array(2).fill(['db', 'ada', 'south']))
})

test.each([
  [true, 'revoked\n'],
  [false, 'was not granted\n'],
])('a revocation that changes something: %s', async (changed, stdout) => {
  vi.mocked(revokeAccess).mockResolvedValue(changed)
  expect(await run('access revoke ada south')).toEqual({ code: 0, stdout, stderr: '' })
  expect(JSON.parse((await run('access revoke ada south --json')).stdout)).toEqual({
    ...{ login: 'ada', team: 'south', changed },
  })
  expect(vi.mocked(revokeAccess).mock.calls).toEqual(Array(2).fill(['db', 'ada', 'south']))
})
