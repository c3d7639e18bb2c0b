/** A process counts as the server of a home, and is ended, only on proof; here the server is any process with its name. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import {
  endOrphans,
  findPostmaster,
  removeStalePidFile,
  serves,
  stopPostmaster,
} from '../../src/embedded/postmaster.ts'
import { startServer } from '../../src/embedded/start-server.ts'
import { makeFolder, removeFolder } from '../support/folders.ts'

const base = makeFolder('postmaster-')
afterAll(() => removeFolder(base))

let homes = 0
let home: ReturnType<typeof newHome>
const started: ChildProcess[] = []

beforeEach(() => {
  home = newHome()
})
afterEach(() => {
  vi.useRealTimers()
  vi.restoreAllMocks()
  for (const child of started.splice(0)) child.kill('SIGKILL')
})

function newHome() {
  const directory = join(base, String(++homes))
  const cluster = join(directory, 'cluster')
  mkdirSync(cluster, { recursive: true })
  return { directory, cluster, user: undefined }
}

async function run(argv0: string, cwd: string, program = 'sleep', ...words: string[]): Promise<ChildProcess> {
  const child = spawn(program, words.length === 0 ? ['60'] : words, { argv0, cwd })
  started.push(child)
  await once(child, 'spawn')
  // The system may say that a program was started just before its words can be read.
  const line = `/proc/${child.pid}/cmdline`
  if (existsSync(line)) await expect.poll(() => readFileSync(line, 'utf8')).not.toBe('')
  return child
}

/** As Postgres writes it; the status is padded. */
function pidFile(pid: number, status = 'ready   '): void {
  const lines = [pid, home.cluster, 1_700_000_000, 5433, '', '127.0.0.1', '  123 4', status]
  writeFileSync(join(home.cluster, 'postmaster.pid'), `${lines.join('\n')}\n`)
}

/** Waits for this line on its input, so that it has words of its own. */
const WAITING = 'read x'

test('a server is a process of that name, in the data directory or started for it', async () => {
  const at = async (child: Promise<ChildProcess>) => serves((await child).pid!, home)
  expect(await at(run('postgres', home.cluster))).toBe(true)
  expect(await at(run('/usr/lib/postgres', home.cluster))).toBe(true)
  expect(await at(run('postgres: checkpointer ', home.cluster))).toBe(true)
  expect(await at(run('postgres', base, 'sh', '-c', WAITING, '-D', home.cluster))).toBe(true)
  expect(await at(run('postgres', base))).toBe(false)
  expect(await at(run('postgres', newHome().cluster))).toBe(false)
  expect(await at(run('postgres', base, 'sh', '-c', WAITING, '-D', `${home.cluster}/other`))).toBe(false)
  expect(await at(run('sleep', home.cluster))).toBe(false)
  expect(await at(run('postgresql', home.cluster))).toBe(false)
  expect(await at(run('mypostgres', home.cluster))).toBe(false)
  expect([serves(0, home), serves(-1, home), serves(process.pid, home)]).toEqual([false, false, false])
})

test.runIf(process.platform === 'linux')(
  'elsewhere its name and its data directory are read with ps',
  async () => {
    const pid = async (child: Promise<ChildProcess>) => (await child).pid!
    const own = await pid(run('postgres', base, 'sh', '-c', WAITING, '-D', home.cluster))
    const others = [
      await pid(run('postgres', base, 'sh', '-c', WAITING, '-D', newHome().cluster)),
      await pid(run('other', base, 'sh', '-c', WAITING, '-D', home.cluster)),
    ]
    vi.spyOn(process, 'platform', 'get').mockReturnValue('darwin')
    expect([serves(own, home), ...others.map((other) => serves(other, home))]).toEqual([true, false, false])
    expect(serves(2 ** 31 - 1, home)).toBe(false)
  },
)

describe('the server of a home', () => {
  test('is what its pid file names, with its port, once it is ready', async () => {
    expect(findPostmaster(home)).toBeUndefined()
    const { pid } = (await run('postgres', home.cluster)) as { pid: number }
    pidFile(pid)
    expect(findPostmaster(home)).toEqual({ pid, port: 5433, ready: true })
    for (const status of ['starting', 'stopping', 'standby ', ''])
      expect([status, pidFile(pid, status), findPostmaster(home)?.ready]).toEqual([status, undefined, false])
    // Of a session of a single user.
    pidFile(-pid)
    expect(findPostmaster(home)?.pid).toBe(pid)
  })

  test('is none where the file is stale, which is removed; that of a server stays', async () => {
    const path = join(home.cluster, 'postmaster.pid')
    await removeStalePidFile(home)
    pidFile((await run('sleep', home.cluster)).pid!)
    expect(findPostmaster(home)).toBeUndefined()
    await removeStalePidFile(home)
    expect(existsSync(path)).toBe(false)
    const { pid } = (await run('postgres', home.cluster)) as { pid: number }
    for (const status of ['starting', 'stopping', 'ready   ']) {
      pidFile(pid, status)
      await removeStalePidFile(home)
      expect(existsSync(path)).toBe(true)
    }
  })
})

test.runIf(process.platform === 'linux')(
  'children of a killed server may end by themselves, and are killed after a time',
  async () => {
    const slow = await run('postgres: checkpointer ', home.cluster)
    const other = await run('postgres', newHome().cluster)
    const patient = await run('postgres: writer ', home.cluster, 'sh', '-c', WAITING)
    const ends = [patient, slow].map((child) => once(child, 'exit'))
    slow.kill('SIGTERM')
    const waiting = endOrphans(home, 60_000)
    patient.stdin!.end()
    await waiting
    const signals = (await Promise.all(ends)).map(([_code, signal]) => signal)
    expect(signals).toEqual([null, 'SIGTERM'])
    const late = await run('postgres: writer ', home.cluster)
    const ended = once(late, 'exit')
    await endOrphans(home, -1)
    expect(await ended).toEqual([null, 'SIGKILL'])
    expect(other.signalCode).toBeNull()
  },
)

test.runIf(process.platform === 'linux')(
  'a server is asked to stop, urged after a minute, and killed ten seconds after that',
  async () => {
    const program = `for (const name of ['SIGINT', 'SIGQUIT']) process.on(name, () => console.log(name)); console.log('runs'); setInterval(() => {}, 60_000)`
    const stubborn = await run('postgres', home.cluster, process.execPath, '-e', program)
    const said = () => once(stubborn.stdout!, 'data').then(([text]) => String(text).trim())
    expect(await said()).toBe('runs')
    vi.useFakeTimers({ toFake: ['Date'] })
    const ended = once(stubborn, 'exit')
    const first = said()
    // A child of it, which ends on its own.
    const writer = await run('postgres: writer ', home.cluster, 'sh', '-c', WAITING)
    const stopping = stopPostmaster(stubborn.pid!, home, '/none')
    expect(await first).toBe('SIGINT')
    const second = said()
    // Several looks later it still has its time.
    const later = () => new Promise((resolve) => setTimeout(resolve, 250, 'waits'))
    vi.setSystemTime(Date.now() + 59_000)
    expect(await Promise.race([second, later()])).toBe('waits')
    vi.setSystemTime(Date.now() + 2_000)
    expect(await second).toBe('SIGQUIT')
    vi.setSystemTime(Date.now() + 9_000)
    expect(await Promise.race([ended, later()])).toBe('waits')
    vi.setSystemTime(Date.now() + 2_000)
    expect(await ended).toEqual([null, 'SIGKILL'])
    expect(writer.exitCode).toBeNull()
    // Its children have five seconds more.
    vi.setSystemTime(Date.now() + 4_000)
    await later()
    expect([writer.exitCode, writer.signalCode]).toEqual([null, null])
    writer.stdin!.end()
    await stopping
    expect(serves(writer.pid!, home)).toBe(false)
    const willing = await run('postgres', home.cluster)
    const left = once(willing, 'exit')
    await stopPostmaster(willing.pid!, home, '/none')
    expect(await left).toEqual([null, 'SIGINT'])
  },
)

test.runIf(process.platform === 'linux')(
  'a child of a server that cannot be killed is given up five seconds after that was tried',
  async () => {
    const child = await run('postgres: writer ', home.cluster)
    const other = await run('postgres: checkpointer ', home.cluster)
    vi.useFakeTimers({ toFake: ['Date'] })
    const tried: unknown[] = []
    vi.spyOn(process, 'kill').mockImplementation((...words) => {
      tried.push(words)
      return true
    })
    const waiting = endOrphans(home, 3_000)
    const later = () => new Promise((resolve) => setTimeout(resolve, 250, 'waits'))
    vi.setSystemTime(Date.now() + 2_900)
    expect([await Promise.race([waiting, later()]), tried]).toEqual(['waits', []])
    vi.setSystemTime(Date.now() + 5_000)
    expect(await Promise.race([waiting, later()])).toBe('waits')
    for (const { pid } of [child, other]) expect(tried).toContainEqual([pid, 'SIGKILL'])
    vi.setSystemTime(Date.now() + 200)
    await waiting
    expect(serves(child.pid!, home)).toBe(true)
  },
)

test('a server that still starts or recovers is taken over: it is ready when it says so, and has ended when it is gone', async () => {
  const child = await run('postgres', home.cluster)
  pidFile(child.pid!, 'starting')
  const server = await startServer({ home, bin: base, unsafe: false })
  expect([server.pid, server.port]).toEqual([child.pid, 5433])
  let hasEnded = false
  void server.ended.then(() => (hasEnded = true))
  pidFile(child.pid!)
  expect([await server.ready, hasEnded]).toEqual([true, false])
  child.kill('SIGKILL')
  await server.ended
})
