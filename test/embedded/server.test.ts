/** Opening and leaving the embedded server, where supervisor and Postgres are played here. */
import { once } from 'node:events'
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { createServer, type Server, type Socket } from 'node:net'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setImmediate as turn } from 'node:timers/promises'
import { afterAll, afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { identityOf } from '../../src/embedded/process-identity.ts'
import { type EmbeddedServer, openEmbedded } from '../../src/embedded/server.ts'
import { writeAddress } from '../../src/embedded/supervise.ts'
import { makeFolder, removeFolder } from '../support/folders.ts'
import { type PlayedPostgres, playPostgres } from './played-postgres.ts'

const base = realpathSync(makeFolder('server-'))
chmodSync(base, 0o711)
afterAll(() => removeFolder(base))

const servers: Server[] = []
const sockets: Socket[] = []
let homes = 0
let dataDir: string
let postgres: PlayedPostgres
/** What the users of the server said to the supervisor. */
let lines: string[]
/** How the supervisor answers a line. */
let answer: (line: string, socket: Socket) => void
let notices: string[]
const opened: EmbeddedServer[] = []
const left = (socket: Socket) => void socket.end('left\n')

const usual = (line: string, socket: Socket) => {
  if (line === 'token') socket.write(`ready ${postgres.port}\n`)
  else left(socket)
}

beforeEach(async () => {
  dataDir = join(base, String(++homes))
  const cluster = join(dataDir, 'cluster')
  mkdirSync(cluster, { recursive: true })
  for (const path of [dataDir, cluster]) chmodSync(path, 0o711)
  writeFileSync(join(dataDir, 'password'), 'the-password')
  postgres = await playPostgres('the-password', cluster)
  lines = []
  notices = []
  answer = usual
  const supervisor = createServer((socket) => {
    sockets.push(socket.on('error', () => undefined))
    createInterface({ input: socket }).on('line', (line) => {
      lines.push(line)
      answer(line, socket)
    })
  })
  servers.push(supervisor)
  await once(supervisor.listen(0, '127.0.0.1'), 'listening')
  const { port } = supervisor.address() as { port: number }
  const home = { directory: dataDir, cluster, user: undefined }
  await writeAddress(home, { identity: identityOf(process.pid)!, port, token: 'token' })
})

afterEach(async () => {
  vi.useRealTimers()
  answer = usual
  for (const server of opened.splice(0)) await server.stop().catch(() => undefined)
  for (const socket of sockets.splice(0)) socket.destroy()
  for (const server of servers.splice(0)) server.close()
  await postgres.close()
})

async function open(): Promise<EmbeddedServer> {
  const mine = notices
  const server = await openEmbedded({ dataDir, onNotice: (line) => mine.push(line) })
  opened.push(server)
  return server
}
describe('opening a server', () => {
  test('returns its address with the password, and makes the database where there is none', async () => {
    const server = await open()
    expect(server).toMatchObject({
      url: `postgres://intake:the-password@127.0.0.1:${postgres.port}/intake`,
      directory: dataDir,
    })
    expect(postgres.databases).toEqual(['postgres'])
    expect(postgres.statements).toEqual([
      ...['show data_directory', 'select 1 from pg_database where datname = $1', 'create database intake'],
    ])
    expect(notices).toEqual([])
    expect(readdirSync(dataDir).sort()).toEqual(['cluster', 'password', 'supervisor.json'])
    postgres.hasDatabase = true
    postgres.statements.length = 0
    await open()
    expect(postgres.statements).toHaveLength(2)
    await expect.poll(() => postgres.connections).toBe(0)
  })

  test.each(['42P04', '23505'])('is not disturbed by another who makes the database (%s)', async (code) => {
    postgres.fails.set('create database intake', code)
    await open()
    expect(lines).toEqual(['token'])
  })

  test('that fails is an error, after the server was left', async () => {
    postgres.fails.set('create database intake', '42501')
    await expect(open()).rejects.toMatchObject({ code: '42501' })
    expect(lines).toEqual(['token', 'leave'])
    rmSync(join(dataDir, 'password'))
    await expect(open()).rejects.toMatchObject({ code: 'data_dir_unusable' })
    expect(lines).toEqual(['token', 'leave', 'token', 'leave'])
    await expect.poll(() => postgres.connections).toBe(0)
  })

  test('whose connection breaks is an error of the opening, and of nothing else', async () => {
    postgres.fails.set('create database intake', 'reset')
    await expect(open()).rejects.toMatchObject({ code: 'ECONNRESET' })
    expect(lines).toEqual(['token', 'leave'])
  })

  test('that meets the server of another directory is an error, which may pass', async () => {
    postgres.dataDirectory = base
    await expect(open()).rejects.toMatchObject({
      ...{ code: 'embedded_not_started', verdict: 'retry' },
      message: `port ${postgres.port} is served from ${base}, not from ${join(dataDir, 'cluster')}`,
    })
    expect(lines).toEqual(['token', 'leave'])
    expect(postgres.statements).toEqual(['show data_directory'])
  })

  test('waits for a server that is starting, stopping, or hangs up; not for one that refuses', async () => {
    postgres.refusals.push('57P03', '57P01', '57P02', 'reset')
    await open()
    expect(postgres.refusals).toEqual([])
    postgres.refusals.push('28P01', '57P03')
    await expect(open()).rejects.toMatchObject({ code: '28P01' })
    expect(postgres.refusals).toEqual(['57P03'])
  })

  test('that is refused for ten seconds is an error', async () => {
    vi.useFakeTimers({ toFake: ['Date'] })
    const passed: number[] = []
    const begun = Date.now()
    const refusals = postgres.refusals
    // Three seconds pass with each attempt.
    refusals.shift = () => {
      passed.push(Date.now() - begun)
      vi.setSystemTime(Date.now() + 3_000)
      return '57P03'
    }
    await expect(open()).rejects.toMatchObject({ code: '57P03' })
    expect(passed).toEqual([0, 3_000, 6_000, 9_000])
    expect(lines).toEqual(['token', 'leave'])
  })

  test('waits for the end of a supervisor that is about to stop, and then attaches to the next', async () => {
    let asked = 0
    answer = (line, socket) => {
      asked += 1
      if (asked < 3) socket.end('stopping\n')
      else usual(line, socket)
    }
    await open()
    expect(lines).toEqual(['token', 'token', 'token'])
    expect(readdirSync(dataDir)).not.toContain('lock')
  })

  test.each([
    ['four minutes, and then uses its server', 4, undefined],
    ['five minutes, and no longer', Number.POSITIVE_INFINITY, { code: 'embedded_busy', verdict: 'retry' }],
  ])('waits for another process that starts it for %s', async (_, minutes, error) => {
    const [address, lock] = ['supervisor.json', 'lock'].map((name) => join(dataDir, name)) as [string, string]
    const text = readFileSync(address, 'utf8')
    rmSync(address)
    writeFileSync(lock, `${identityOf(process.pid)}\nanother`)
    const start = Date.now()
    let passed = -1
    // A minute passes with each look at the lock.
    using _clock = vi.spyOn(Date, 'now').mockImplementation(() => {
      if (existsSync(lock)) passed += 1
      if (passed === minutes) {
        writeFileSync(address, text)
        rmSync(lock, { force: true })
      }
      return start + passed * 60_000
    })
    if (error === undefined) await open()
    else await expect(open()).rejects.toMatchObject(error)
    expect([passed, lines]).toEqual(error === undefined ? [4, ['token']] : [6, []])
    rmSync(lock, { force: true })
  })

  test('is an error where the server does not start', async () => {
    answer = (_, socket) => void socket.write('failed\n')
    writeFileSync(join(dataDir, 'server.log'), '2026 [7] FATAL:  out of room\n')
    await expect(open()).rejects.toMatchObject({
      ...{ code: 'embedded_not_started', verdict: 'stop' },
      message: 'the embedded Postgres did not start: out of room',
    })
  })

  test('says after five seconds that it is still starting, and nothing where it is quicker', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    let waiting: Socket | undefined
    answer = (_, socket) => {
      waiting = socket
    }
    const opening = open()
    while (waiting === undefined) await turn()
    vi.advanceTimersByTime(4999)
    expect(notices).toEqual([])
    vi.advanceTimersByTime(1)
    const slow = [
      'the embedded Postgres is still starting, which takes longer the first time and after a crash',
    ]
    expect(notices).toEqual(slow)
    waiting.write(`ready ${postgres.port}\n`)
    await opening
    answer = (_, socket) => void socket.write(`ready ${postgres.port}\n`)
    await open()
    vi.advanceTimersByTime(60_000)
    expect(notices).toEqual(slow)
  })
})

describe('a server that is left', () => {
  test('is left once, however often', async () => {
    const server = await open()
    await Promise.all([server.stop(), server.stop(), server[Symbol.asyncDispose]()])
    await server.stop()
    expect(lines).toEqual(['token', 'leave'])
    // Whose supervisor is gone then is nobody's concern.
    await turn()
    expect([lines, notices]).toEqual([['token', 'leave'], []])
  })

  test.each([
    [1, 2, undefined],
    [2, 3, undefined],
    [3, 3, { code: 'embedded_busy', verdict: 'stop', message: 'the embedded Postgres could not be stopped' }],
  ])(
    'while %i supervisors were killed is attached to and left anew: %i times',
    async (killed, leaves, error) => {
      let count = 0
      answer = (line, socket) => {
        if (line === 'token') socket.write(`ready ${postgres.port}\n`)
        else if (++count <= killed) socket.destroy()
        else left(socket)
      }
      const server = await open()
      if (error === undefined) await server.stop()
      else await expect(server.stop()).rejects.toMatchObject(error)
      expect(lines.filter((line) => line === 'leave')).toHaveLength(leaves)
      expect(lines.filter((line) => line === 'token')).toHaveLength(leaves)
    },
  )
})

describe('a supervisor that is killed', () => {
  test('is replaced, each time, and the last one is left in the end', async () => {
    const users: Socket[] = []
    answer = (line, socket) => {
      if (line === 'leave') return left(socket)
      users.push(socket)
      socket.write(`ready ${postgres.port}\n`)
    }
    const server = await open()
    for (const count of [1, 2]) {
      expect(users).toHaveLength(count)
      users.at(-1)!.destroy()
      await expect.poll(() => users.length).toBe(count + 1)
    }
    await server.stop()
    expect(lines).toEqual(['token', 'token', 'token', 'leave'])
    expect(users.at(-1)!.writableEnded).toBe(true)
    expect(notices).toEqual([])
  })

  test('and replaced while its user leaves is left once, and that one is not used again', async () => {
    const users: Socket[] = []
    answer = (line, socket) => {
      if (line === 'leave') return left(socket)
      users.push(socket)
      if (users.length === 1) socket.write(`ready ${postgres.port}\n`)
    }
    const server = await open()
    users[0]!.destroy()
    await expect.poll(() => users.length).toBe(2)
    let isStopped = false
    const stopping = server.stop().then(() => {
      isStopped = true
    })
    for (let turns = 0; turns < 20; turns++) await turn()
    expect([isStopped, lines]).toEqual([false, ['token', 'token']])
    users[1]!.write(`ready ${postgres.port}\n`)
    await stopping
    expect([lines, notices]).toEqual([['token', 'token', 'leave'], []])
    for (const user of users) user.destroy()
    for (let turns = 0; turns < 20; turns++) await turn()
    expect([lines, notices]).toEqual([['token', 'token', 'leave'], []])
  })

  test('and cannot be replaced is reported', async () => {
    let user: Socket | undefined
    answer = (_, socket) => {
      if (user !== undefined) return void socket.write('failed\n')
      user = socket
      socket.write(`ready ${postgres.port}\n`)
    }
    await open()
    user!.destroy()
    await expect
      .poll(() => notices)
      .toEqual(['the embedded Postgres was lost: the embedded Postgres did not start'])
  })
})
