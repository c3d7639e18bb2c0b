/** `serve` and `work` around their parts, without a warehouse: what is said, in which order, and which failure is whose. */
import { beforeEach, expect, it, vi } from 'vitest'
import { migrate, requireMigrated } from '../../../src/analytics/migrate.ts'
import { openConsole } from '../../../src/console/server.ts'
import { IntakeError, UsageError } from '../../../src/core/errors.ts'
import { openServe } from '../../../src/operate/serve/serve.ts'
import { configOf } from '../../e2e/support/teams.ts'
import { runCommand } from '../../support/run-command.ts'

vi.mock('../../../src/analytics/migrate.ts', async (original) => ({
  ...(await original()),
  ...{ migrate: vi.fn(), requireMigrated: vi.fn() },
}))
vi.mock('../../../src/operate/serve/serve.ts', () => ({ openServe: vi.fn() }))
vi.mock('../../../src/console/server.ts', async (original) => ({
  ...(await original()),
  openConsole: vi.fn(),
}))

/** Steps, in their order. */
let done: string[]
let stop: AbortController

const later = (what: string) => async () => {
  await Promise.resolve()
  done.push(what)
}
const opens = (admin = 'http://h:2') =>
  ({
    ...{ ingest: 'http://h:1', admin, next: new Date('2026-01-05T02:00:00Z') },
    [Symbol.asyncDispose]: later('parts closed'),
  }) as never

beforeEach(() => {
  vi.clearAllMocks()
  done = []
  stop = new AbortController()
  vi.mocked(requireMigrated).mockResolvedValue(undefined)
  vi.mocked(migrate).mockResolvedValue({ notes: [] } as never)
  vi.mocked(openServe).mockImplementation(async () => opens())
  vi.mocked(openConsole).mockImplementation(
    async () => ({ url: 'http://h:3', link: () => 'http://h:3/x', close: later('console closed') }) as never,
  )
})

const access = (name: string) => ({ name, baseUrl: 'http://127.0.0.1:1', apiKey: 'k', apiSecret: 's' })

async function run(line: string, names = ['north']) {
  const env = {
    ...configOf(names.map(access)),
    ...{ DATABASE_URL: 'postgres://u@127.0.0.1:1/d', INTAKE_ADMIN_PORT: '7' },
  }
  const onOutput = () => void setImmediate(() => stop.abort('SIGTERM'))
  const options = { signal: stop.signal, version: '1.2.3', onOutput }
  const { code, stdout, stderr } = await runCommand(line.split(' '), env, options)
  done.push('ended')
  const lines = stderr.match(/.+\n/g) ?? []
  return { code, stdout, stderr: lines.map((each) => (each.startsWith('{') ? logged(each) : each)) }
}
const logged = (line: string | Uint8Array) => {
  const { level, msg } = JSON.parse(String(line)) as { level: number; msg: string }
  return `${level} ${msg}`
}
const ENDS = '30 stopping: accepted events are stored; current batches will finish'
const WORK_ENDS = '30 stopping: current batches will finish; other workers go on with the rest'

it('serve warns of each note of the migration, says where it is and when it stops, and closes its parts before it ends', async () => {
  vi.mocked(migrate).mockResolvedValue({ notes: ['one', 'two'] } as never)
  expect(await run('serve')).toEqual({
    code: 0,
    stdout:
      'ready: webhooks of north at http://h:1/webhooks\nhealth and metrics at http://h:2\nnext backfill at 2026-01-05T02:00:00.000Z\n',
    stderr: ['40 one', '40 two', ENDS],
  })
  expect(done).toEqual(['parts closed', 'ended'])
})

it('serve --console says where the console is, whose figures are those of its own process, and closes it first', async () => {
  const { stdout } = await run('serve --console --cron off')
  expect(stdout).toBe(
    [
      'ready: webhooks of north at http://h:1/webhooks\nhealth and metrics at http://h:2',
      'next backfill at 2026-01-05T02:00:00.000Z\noff: schedule (--cron off)',
      'console at http://h:3\nlog in, once: http://h:3/x\n',
    ].join('\n'),
  )
  expect(vi.mocked(openConsole).mock.calls[0]![0]).toMatchObject({
    ...{ metricsUrl: 'http://h:2/metrics', port: 9_091, version: '1.2.3' },
  })
  expect(done).toEqual(['console closed', 'parts closed', 'ended'])
  vi.clearAllMocks()
  await run('serve')
  expect(openConsole).not.toHaveBeenCalled()
})

it('a console that cannot be opened ends serve, whose parts are closed', async () => {
  vi.mocked(openConsole).mockRejectedValue(new UsageError('in use', 'another', 'X', 'port_unusable'))
  expect((await run('serve --console')).code).toBe(2)
  expect(done).toEqual(['parts closed', 'ended'])
})

it('a signal while it migrates ends serve before anything is opened; one while it opens its parts is not lost', async () => {
  vi.mocked(migrate).mockImplementation(async () => {
    stop.abort('SIGTERM')
    return { notes: ['kept'] } as never
  })
  expect(await run('serve')).toEqual({ code: 0, stdout: '', stderr: ['40 kept'] })
  expect(openServe).not.toHaveBeenCalled()
  stop = new AbortController()
  vi.mocked(openServe).mockImplementation(async () => {
    stop.abort('SIGTERM')
    return opens()
  })
  vi.mocked(migrate).mockResolvedValue({ notes: [] } as never)
  done.length = 0
  expect(await run('serve')).toMatchObject({ code: 0, stderr: [ENDS] })
  expect(done).toEqual(['parts closed', 'ended'])
})

it('a worker says for whom it works, or one document, and when it stops', async () => {
  expect(await run('work', ['north', 'south'])).toEqual({
    ...{ code: 0, stderr: [WORK_ENDS] },
    stdout: 'ready: executes runs of north, south; health and metrics at http://h:2\n',
  })
  expect(done).toEqual(['parts closed', 'ended'])
  stop = new AbortController()
  const { stdout } = await run('work --json --concurrency 4', ['north', 'south'])
  expect(JSON.parse(stdout)).toEqual({ admin: 'http://h:2', teams: ['north', 'south'], concurrency: 4 })
  stop = new AbortController()
  vi.mocked(openServe).mockClear()
  const twice = await run('work --json --teams south,north,south', ['north', 'south', 'west'])
  expect(JSON.parse(twice.stdout).teams).toEqual(['south', 'north'])
  const [opened] = vi.mocked(openServe).mock.calls[0]!
  for (const teams of [opened.teams, opened.ingestTeams])
    expect(teams.map(({ name }) => name)).toEqual(['south', 'north'])
})

it('a worker whose port is in use opens another, and says so; any other failure ends it', async () => {
  const ports: unknown[] = []
  vi.mocked(openServe).mockImplementation(async ({ admin }) => {
    ports.push(admin)
    if (ports.length === 1) throw new UsageError('port 7 is in use', 'another', 'X', 'port_unusable')
    return opens('http://h:9')
  })
  expect(await run('work')).toEqual({
    code: 0,
    stdout: 'ready: executes runs of north; health and metrics at http://h:9\n',
    stderr: ['40 port 7 is in use: health and metrics are on another port', WORK_ENDS],
  })
  expect(ports).toEqual([7, 0].map((port) => ({ host: '127.0.0.1', port })))
  const [first, second] = vi.mocked(openServe).mock.calls.map(([{ admin: _, backfill: __, ...rest }]) => rest)
  expect(second).toEqual(first)
  for (const [failure, code] of [
    [new UsageError('no', 'x', 'X', 'setting_invalid'), 2],
    [new IntakeError('no', { code: 'unreachable', verdict: 'retry' }), 1],
  ] as const) {
    vi.mocked(openServe).mockReset().mockRejectedValueOnce(failure)
    expect([(await run('work')).code, vi.mocked(openServe).mock.calls.length]).toEqual([code, 1])
  }
})

it('a worker migrates nothing, and does not start in a warehouse that is behind', async () => {
  vi.mocked(requireMigrated).mockRejectedValue(
    new IntakeError('behind', { code: 'database_behind', verdict: 'stop' }),
  )
  const { code, stdout } = await run('work --json')
  expect([code, JSON.parse(stdout).error.code]).toEqual([1, 'database_behind'])
  for (const part of [migrate, openServe]) expect(part).not.toHaveBeenCalled()
})

it('serve names every team whose webhooks it receives, in its text and its document, and every part that does not run', async () => {
  const names = ['north', 'south', 'west']
  const addresses = Object.fromEntries(
    names.map((name) => [name, `http://h:1/webhooks/${encodeURIComponent(name)}`]),
  )
  const { stdout } = await run('serve --no-ingest --no-drain --no-schedule --no-work --json', names)
  const why = { ingest: '--no-ingest', drain: '--no-drain', schedule: '--no-schedule', work: '--no-work' }
  expect(JSON.parse(stdout)).toMatchObject({ teams: addresses, off: why })
  stop = new AbortController()
  const text = await run('serve --no-ingest --no-drain --no-schedule --no-work', names)
  expect(text.stdout.split('\n').filter((line) => line.startsWith('off: '))).toEqual(
    Object.entries(why).map(([part, reason]) => `off: ${part} (${reason})`),
  )
  for (const [name, address] of Object.entries(addresses))
    expect(text.stdout).toContain(`webhooks of ${name} at ${address}\n`)
  expect(vi.mocked(openServe).mock.calls[0]![0].ingestTeams.map(({ name }) => name)).toEqual(names)
})
