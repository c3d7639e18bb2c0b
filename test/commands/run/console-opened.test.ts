/** The command `console` around its page, without a warehouse: what it is opened with, what is printed, and how it ends. */
import { userInfo } from 'node:os'
import { beforeEach, expect, it, vi } from 'vitest'
import { requireMigrated } from '../../../src/analytics/migrate.ts'
import { allChecks } from '../../../src/commands/inspect/doctor.ts'
import { openConsole } from '../../../src/console/server.ts'
import { IntakeError } from '../../../src/core/errors.ts'
import { runCommand } from '../../support/run-command.ts'

vi.mock('node:os', async (original) => ({ ...(await original<object>()), userInfo: vi.fn() }))
vi.mock('../../../src/analytics/migrate.ts', async (original) => ({
  ...(await original()),
  requireMigrated: vi.fn(),
}))
vi.mock('../../../src/commands/inspect/doctor.ts', async (original) => ({
  ...(await original()),
  allChecks: vi.fn(),
}))
vi.mock('../../../src/console/server.ts', async (original) => ({
  ...(await original()),
  openConsole: vi.fn(),
}))

/** Steps, in their order. */
let done: string[]
type Given = Parameters<typeof openConsole>[0]
const given = () => vi.mocked(openConsole).mock.calls[0]![0]

beforeEach(() => {
  vi.clearAllMocks()
  done = []
  vi.mocked(userInfo).mockReturnValue({ username: 'ada' } as never)
  vi.mocked(requireMigrated).mockResolvedValue(undefined)
  vi.mocked(openConsole).mockImplementation(async ({ host, port }: Given) => {
    done.push('opened')
    const link = (login: string, role: string) => `http://c/login?link=${login}:${role}`
    const close = async () => {
      await Promise.resolve()
      done.push('closed')
    }
    return { url: `http://${host}:${port}`, port, link, close } as never
  })
})

async function run(line: string, env: object = {}, reason?: string) {
  const stop = new AbortController()
  if (reason !== undefined) stop.abort(reason)
  const onOutput = () => {
    done.push('printed')
    stop.abort('SIGTERM')
  }
  const own = { DATABASE_URL: 'postgres://u@127.0.0.1:1/d', ...env }
  const options = { signal: stop.signal, version: '1.2.3', onOutput }
  const { code, stdout, stderr } = await runCommand(line.split(' '), own, options)
  done.push('ended')
  return { code, stdout, stderr }
}

it('its address and a link of an operator are printed, or one document of them, and it is closed before the command ends', async () => {
  const link = 'http://c/login?link=ada:operator'
  expect(await run('console')).toEqual({
    ...{ code: 0, stderr: '', stdout: `console at http://127.0.0.1:9091\nlog in, once: ${link}\n` },
  })
  expect(done).toEqual(['opened', 'printed', 'closed', 'ended'])
  const { stdout } = await run('console --json')
  expect(JSON.parse(stdout)).toEqual({ url: 'http://127.0.0.1:9091', link })
})

it.each([
  ['console', {}, 9_091],
  ['console', { INTAKE_CONSOLE_PORT: '7' }, 7],
  ['console --port 0', { INTAKE_CONSOLE_PORT: '7' }, 0],
  ['console --port 65535', {}, 65_535],
])('%s with the settings %j listens on port %i', async (line, env, port) => {
  await run(line, env)
  expect(given()).toMatchObject({ port })
})

it.each([
  ['ada', 'ada'],
  ['CLINIC\\ada lovelace', 'CLINIC_ada_lovelace'],
  ['a.b@c+d-e_f', 'a.b@c+d-e_f'],
  ['', 'operator'],
])('the person %j is the login %s', async (username, login) => {
  vi.mocked(userInfo).mockReturnValue({ username } as never)
  await run('console')
  expect(given()).toMatchObject({ login, linkRole: 'operator' })
})

it('a process whose user has no name is the login operator', async () => {
  vi.mocked(userInfo).mockImplementation(() => {
    throw new Error('no such user')
  })
  expect((await run('console', { INTAKE_CONSOLE_VALUES: '1' })).stdout).toContain('link=operator:steward\n')
  expect(given()).toMatchObject({ login: 'operator', linkRole: 'steward' })
})

it('later links are printed on standard output, and its checks end with its own signal', async () => {
  let later = ''
  vi.mocked(openConsole).mockImplementationOnce(async ({ onLink, checks }: Given) => {
    onLink!('http://c/later', 'operator')
    later = [...done].join()
    const own = AbortSignal.abort('over')
    await checks(own)
    expect(vi.mocked(allChecks).mock.calls).toEqual([[expect.objectContaining({ version: '1.2.3' })]])
    expect(vi.mocked(allChecks).mock.calls[0]![0].signal).toBe(own)
    return { url: 'u', link: () => 'l', close: async () => {} } as never
  })
  const { stdout, stderr } = await run('console')
  expect([later, stdout, stderr]).toEqual([
    ...['printed', 'log in, once: http://c/later\nconsole at u\nlog in, once: l\n', ''],
  ])
})

it('it ends where a signal came before it was open, and opens nothing where the warehouse is behind', async () => {
  expect((await run('console', {}, 'SIGINT')).code).toBe(0)
  expect(done).toEqual(['opened', 'printed', 'closed', 'ended'])
  vi.mocked(requireMigrated).mockRejectedValueOnce(
    new IntakeError('behind', { code: 'database_behind', verdict: 'stop' }),
  )
  const { code, stdout } = await run('console --json')
  expect([code, JSON.parse(stdout).error.code]).toEqual([1, 'database_behind'])
  expect(openConsole).toHaveBeenCalledTimes(1)
})
