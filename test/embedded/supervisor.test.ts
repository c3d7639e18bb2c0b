/** The supervisor of an embedded server, as a process; in place of Postgres, a program that notes how it was started. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { connect, createServer } from 'node:net'
import { join } from 'node:path'
import { afterAll, afterEach, beforeEach, describe, expect, test } from 'vitest'
import { findPostmaster } from '../../src/embedded/postmaster.ts'
import { identityOf, isRunning } from '../../src/embedded/process-identity.ts'
import { freePort } from '../../src/embedded/start-server.ts'
import { type Attachment, attach, readAddress, startSupervisor } from '../../src/embedded/supervise.ts'
import { makeFolder, removeFolder } from '../support/folders.ts'

const base = realpathSync(makeFolder('supervisor-'))
afterAll(() => removeFolder(base))

/**
 * Fails as often as the file `failing` says, or once; is not ready before `waiting` is gone, and does not stop before
 * `staying` is; notes if `orphan` still runs, and if there is the pid file of another server.
 */
const POSTGRES = `
import { appendFileSync, existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
const words = process.argv.slice(2)
const pidFile = 'postmaster.pid'
const orphaned = existsSync('orphan') && existsSync('/proc/' + readFileSync('orphan', 'utf8'))
appendFileSync('starts', JSON.stringify({ words, names: Object.keys(process.env), cwd: process.cwd(), orphaned, stale: existsSync(pidFile) }) + '\\n')
if (existsSync('failing')) {
  const more = Number(readFileSync('failing', 'utf8')) - 1
  if (more > 0) writeFileSync('failing', String(more))
  else rmSync('failing')
  console.error('FATAL:  for once')
  process.exit(1)
}
const port = words.find((word) => word.startsWith('port=')).slice(5)
const say = (status) => writeFileSync(pidFile, [process.pid, words[1], 0, port, '', '', '', status].join('\\n'))
say('starting')
const go = () => (existsSync('waiting') ? setTimeout(go, 20) : say('ready   '))
setTimeout(go, 200)
const end = () => {
  if (existsSync('staying')) return setTimeout(end, 20)
  rmSync(pidFile)
  process.exit(0)
}
process.on('SIGINT', end)
setInterval(() => {}, 60_000)
`

let homes = 0
let home: { directory: string; cluster: string; user: undefined }
let bin: string

beforeEach(() => {
  const directory = join(base, String(++homes))
  home = { directory, cluster: join(directory, 'cluster'), user: undefined }
  bin = join(directory, 'bin')
  for (const folder of [directory, home.cluster, bin]) mkdirSync(folder)
  writeFileSync(join(bin, 'program.mjs'), POSTGRES)
  // By the name of its shell too, so that it is taken for a server from its first moment, as Postgres is.
  mkdirSync(join(bin, 'shell'))
  symlinkSync('/bin/bash', join(bin, 'shell', 'postgres'))
  const shell = `#!${join(bin, 'shell', 'postgres')}\nexec -a "$0" ${process.execPath} ${join(bin, 'program.mjs')} "$@"\n`
  writeFileSync(join(bin, 'postgres'), shell)
  chmodSync(join(bin, 'postgres'), 0o755)
})

/** Ends what a failed test leaves. */
afterEach(async () => {
  const address = await readAddress(home)
  for (const pid of [Number.parseInt(address?.identity ?? '', 10), findPostmaster(home)?.pid])
    if (pid !== undefined && pid > 0) process.kill(pid, 'SIGKILL')
})

const enter = async () => (await attach(home)) as Attachment
const starts = () =>
  readFileSync(join(home.cluster, 'starts'), 'utf8')
    .trim()
    .split('\n')
    .map(
      (line) =>
        JSON.parse(line) as {
          words: string[]
          names: string[]
          cwd: string
          orphaned: boolean
          stale: boolean
        },
    )

test('a server runs while it has a user, survives signals and its own failures, and ends with its last user', async () => {
  writeFileSync(join(home.cluster, 'failing'), '')
  writeFileSync(join(home.directory, 'server.log'), 'x'.repeat(1_000_001))
  const port = await freePort(undefined)
  writeFileSync(join(home.directory, 'port'), `${port}\n`)
  process.env.INTAKE_API_SECRET = 'secret'
  const children = () => process.getActiveResourcesInfo().filter((name) => name === 'ProcessWrap').length
  const usual = children()
  expect(await startSupervisor({ home, bin, unsafe: true })).toBe('started')
  expect(children()).toBeLessThanOrEqual(usual)
  delete process.env.INTAKE_API_SECRET
  const { identity, port: control, token } = (await readAddress(home))!
  const first = await enter()
  // Not before it accepts connections.
  expect(findPostmaster(home)?.ready).toBe(true)
  const second = await enter()
  expect([first.port, second.port]).toEqual([port, port])
  expect(starts()).toHaveLength(2)
  expect(starts()[1]).toMatchObject({ cwd: home.cluster })
  expect(starts()[1]!.words).toEqual(
    expect.arrayContaining(['-D', home.cluster, '-c', 'fsync=off', `port=${port}`, 'log_statement=none']),
  )
  expect(starts()[1]!.names).not.toContain('INTAKE_API_SECRET')
  expect(readFileSync(join(home.directory, 'server.log'), 'utf8')).toBe('FATAL:  for once\n')
  expect(statSync(join(home.directory, 'server.log.old')).size).toBe(1_000_001)
  for (const name of ['server.log', 'supervisor.log', 'port', 'supervisor.json'])
    expect([name, statSync(join(home.directory, name)).mode & 0o777]).toEqual([name, 0o600])
  const supervisor = Number.parseInt(identity, 10)
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.kill(supervisor, signal)
  const stranger = connect({ host: '127.0.0.1', port: control })
  stranger.write(`${token.slice(1)}x\n`)
  await once(stranger, 'close')

  const before = findPostmaster(home)!.pid
  process.kill(before, 'SIGKILL')
  await expect.poll(() => findPostmaster(home)?.pid ?? before).not.toBe(before)
  await expect.poll(() => findPostmaster(home)?.port).toBe(port)
  const { pid } = findPostmaster(home)!
  expect(await first.leave()).toBe('left')
  expect([isRunning(identity), findPostmaster(home)?.pid]).toEqual([true, pid])
  expect(await second.leave()).toBe('stopped')
  expect([identityOf(pid), isRunning(identity)]).toEqual([undefined, false])
  expect(existsSync(join(home.directory, 'supervisor.json'))).toBe(false)
})

test('a server starts once the processes of the last one have ended, and stops once its users were killed', async () => {
  // The half minute for which it waits for a first user never passes.
  playing(withFirst(NEVER_HALF_A_MINUTE))
  const waiting = join(home.cluster, 'waiting')
  writeFileSync(waiting, '')
  const ending = 'until [ -e ../supervisor.json ]; do sleep 0.05; done; sleep 1; :'
  const orphan = spawn('bash', ['-c', ending], { argv0: 'postgres: writer ', cwd: home.cluster })
  writeFileSync(join(home.cluster, 'orphan'), String(orphan.pid))
  // Of a server before it, whose number another process has now.
  writeFileSync(join(home.cluster, 'postmaster.pid'), `${process.pid}\n${home.cluster}\n`)
  expect(await startSupervisor({ home, bin, unsafe: false })).toBe('started')
  const { identity, port, token } = (await readAddress(home))!
  await expect.poll(() => findPostmaster(home)?.ready).toBe(false)
  const user = connect({ host: '127.0.0.1', port })
  user.write(`${token}\n`)
  const other = connect({ host: '127.0.0.1', port })
  other.write(`${token}\n`)
  const heard = [user, other].map((each) => once(each, 'data'))
  // The supervisor reads this connection after those of the users, who have no answer yet.
  const stranger = connect({ host: '127.0.0.1', port })
  stranger.write('x\n')
  await once(stranger, 'close')
  rmSync(waiting)
  for (const each of heard) expect(String((await each)[0])).toMatch(/^ready \d+\n$/)
  expect(findPostmaster(home)?.ready).toBe(true)
  expect(starts()[0]!.words).toContain('fsync=on')
  expect(starts()[0]).toMatchObject({ orphaned: false, stale: false })
  const { pid } = findPostmaster(home)!
  for (const each of [user, other]) each.destroy()
  await expect.poll(() => [identityOf(pid), isRunning(identity)]).toEqual([undefined, false])
  expect(starts()).toHaveLength(1)
})

/** A user who speaks for itself; what it heard. */
async function connectUser() {
  const { port, token } = (await readAddress(home))!
  const socket = connect({ host: '127.0.0.1', port })
  const user = { said: '', isEnded: false, write: (line: string) => void socket.write(`${line}\n`) }
  socket.on('data', (data) => {
    user.said += String(data)
  })
  socket.on('close', () => {
    user.isEnded = true
  })
  user.write(token)
  return user
}

test('a server that becomes ready while it is stopped stops all the same; who comes meanwhile waits for its end', async () => {
  const [waiting, staying] = ['waiting', 'staying'].map((name) => join(home.cluster, name)) as [
    string,
    string,
  ]
  for (const path of [waiting, staying]) writeFileSync(path, '')
  expect(await startSupervisor({ home, bin, unsafe: true })).toBe('started')
  const { identity } = (await readAddress(home))!
  await expect.poll(() => findPostmaster(home)?.ready).toBe(false)
  const first = await connectUser()
  first.write('leave')
  const later = await connectUser()
  await expect.poll(() => later.said).toBe('stopping\n')
  rmSync(waiting)
  await expect.poll(() => findPostmaster(home)?.ready).toBe(true)
  expect([later.isEnded, first.said, first.isEnded]).toEqual([false, '', false])
  // The address of another supervisor is left where it is.
  const path = join(home.directory, 'supervisor.json')
  const next = spawn('sleep', ['60'])
  const other = JSON.stringify({ identity: identityOf(next.pid!), port: 1, token: 'of another' })
  writeFileSync(path, other)
  rmSync(staying)
  await expect.poll(() => [first.isEnded, later.isEnded, isRunning(identity)]).toEqual([true, true, false])
  expect([first.said, later.said]).toEqual(['stopped\n', 'stopping\n'])
  expect([starts().length, findPostmaster(home), readFileSync(path, 'utf8')]).toEqual([1, undefined, other])
  next.kill('SIGKILL')
})

test.each([
  ['is stopped as soon as it is', ''],
  // For three seconds it is a shell, which is not recognized as Postgres.
  [
    'is stopped as soon as it is, though its command line is not that of Postgres yet',
    'while ((SECONDS < 3)); do :; done',
  ],
])('a server whose last user left before it was started %s', async (_, first) => {
  if (first !== '') {
    const slow = `#!/bin/bash\n${first}\nexec -a "$0" ${process.execPath} ${join(bin, 'program.mjs')} "$@"\n`
    writeFileSync(join(bin, 'postgres'), slow)
  }
  const orphan = spawn('sleep', ['60'], { argv0: 'postgres: writer ', cwd: home.cluster })
  await once(orphan, 'spawn')
  // For the supervisor no time passes, so that it waits for the orphan until that has ended.
  playing(withFirst('const now = Date.now(); Date.now = () => now'))
  expect(await startSupervisor({ home, bin, unsafe: true })).toBe('started')
  const { identity } = (await readAddress(home))!
  const user = await connectUser()
  user.write('leave')
  const later = await connectUser()
  await expect.poll(() => later.said).toBe('stopping\n')
  expect(existsSync(join(home.cluster, 'starts'))).toBe(false)
  orphan.kill('SIGKILL')
  await expect.poll(() => [user.said, user.isEnded, isRunning(identity)]).toEqual(['stopped\n', true, false])
  expect(findPostmaster(home)).toBeUndefined()
})

test('a server is given up after six failed starts in a row, and not for those before it was ready', async () => {
  const failing = join(home.cluster, 'failing')
  writeFileSync(failing, '')
  expect(await startSupervisor({ home, bin, unsafe: true })).toBe('started')
  const { identity, port, token } = (await readAddress(home))!
  const user = connect({ host: '127.0.0.1', port })
  let said = ''
  user.on('data', (data) => {
    said += String(data)
  })
  user.write(`${token}\n`)
  await expect.poll(() => said).toMatch(/^ready \d+\n$/)
  expect(starts()).toHaveLength(2)
  writeFileSync(failing, '100')
  process.kill(findPostmaster(home)!.pid, 'SIGKILL')
  await expect.poll(() => said).toMatch(/^ready \d+\nfailed\n$/)
  expect(starts()).toHaveLength(2 + 6)
  await expect
    .poll(() => [isRunning(identity), existsSync(join(home.directory, 'supervisor.json'))])
    .toEqual([false, false])
  user.destroy()
})

test('a server that lost its supervisor is taken over as it runs, and stopped after its last user', async () => {
  const port = await freePort(undefined)
  const server = spawn(join(bin, 'postgres'), ['-D', home.cluster, '-c', `port=${port}`], {
    cwd: home.cluster,
  })
  const ended = once(server, 'exit')
  await expect.poll(() => findPostmaster(home)?.ready).toBe(true)
  expect(await startSupervisor({ home, bin, unsafe: true })).toBe('started')
  const user = await enter()
  expect([user.port, findPostmaster(home)!.pid, starts().length]).toEqual([port, server.pid, 1])
  expect(await user.leave()).toBe('stopped')
  expect([await ended, findPostmaster(home), await readAddress(home)]).toEqual([
    [0, null],
    undefined,
    undefined,
  ])
})

test('the last user of a server that was taken over goes as soon as another comes, and the server stays', async () => {
  const port = await freePort(undefined)
  const words = ['-D', home.cluster, '-c', `port=${port}`]
  const server = spawn(join(bin, 'postgres'), words, { cwd: home.cluster })
  const ended = once(server, 'exit')
  await expect.poll(() => findPostmaster(home)?.ready).toBe(true)
  expect(await startSupervisor({ home, bin, unsafe: true })).toBe('started')
  const [first, second] = [await enter(), await enter()]
  expect(await second.leave()).toBe('left')
  // It is kept for the users of the former supervisor, who come back.
  const leaving = first.leave()
  const third = await enter()
  expect(await leaving).toBe('left')
  expect(findPostmaster(home)?.pid).toBe(server.pid)
  expect(await third.leave()).toBe('stopped')
  await ended
})

const own = process.execPath
const playing = (lines: string) => {
  const path = join(bin, 'node')
  writeFileSync(path, `#!/bin/sh\n${lines}\n`)
  chmodSync(path, 0o755)
  process.execPath = path
}
/** Node, which runs `lines` before its program. */
const withFirst = (lines: string) =>
  `exec '${own}' --import 'data:text/javascript,${encodeURIComponent(lines)}' "$@"`
const NEVER_HALF_A_MINUTE =
  'const real = setTimeout; globalThis.setTimeout = (then, ms) => real(ms === 30000 ? () => {} : then, ms)'
const start = () => startSupervisor({ home, bin, unsafe: true })
afterEach(() => {
  process.execPath = own
})

test('a server whose first user was killed before it came is stopped after half a minute', async () => {
  // Half a minute has passed once the test says so.
  const passed = join(home.directory, 'passed')
  const waiting = `import { existsSync } from "node:fs"
    const real = setTimeout
    const look = (then) => (existsSync(${JSON.stringify(passed)}) ? then() : real(look, 20, then))
    globalThis.setTimeout = (then, ms) => (ms === 30000 ? real(look, 20, then) : real(then, ms))`
  playing(withFirst(waiting))
  expect(await start()).toBe('started')
  const { identity } = (await readAddress(home))!
  await expect.poll(() => findPostmaster(home)?.ready).toBe(true)
  writeFileSync(passed, '')
  await expect.poll(() => [isRunning(identity), findPostmaster(home)]).toEqual([false, undefined])
  expect([starts().length, existsSync(join(home.directory, 'supervisor.json'))]).toEqual([1, false])
})

test('a server that was taken over, and whose user leaves at once, is stopped soon, not after the half minute of a first user', async () => {
  const port = await freePort(undefined)
  const server = spawn(join(bin, 'postgres'), ['-D', home.cluster, '-c', `port=${port}`], {
    cwd: home.cluster,
  })
  const ended = once(server, 'exit')
  await expect.poll(() => findPostmaster(home)?.ready).toBe(true)
  // Half a minute never passes.
  playing(withFirst(NEVER_HALF_A_MINUTE))
  expect(await start()).toBe('started')
  const user = await enter()
  expect(await user.leave()).toBe('stopped')
  await ended
})

describe('a supervisor that ends before it has an address', () => {
  test('by itself is an error with its reason; it got its orders, and words of its program alone', async () => {
    playing(
      `cat > '${join(bin, 'orders')}'; echo "$@" > '${join(bin, 'words')}'
      echo "$PWD $(ps -o pgid= -p $$ | tr -d ' ') $$" > '${join(bin, 'place')}'; echo 'Error: played' >&2; exit 1`,
    )
    await expect(start()).rejects.toMatchObject({
      ...{ code: 'embedded_not_started', message: 'the embedded Postgres did not start: played' },
    })
    expect(JSON.parse(readFileSync(join(bin, 'orders'), 'utf8'))).toEqual({ home, bin, unsafe: true })
    expect(readFileSync(join(bin, 'words'), 'utf8')).toMatch(/^--import file:\S+ \S+\/supervisor\.ts\n$/)
    // In a group of its own, which the Ctrl-C of a terminal does not reach.
    expect(readFileSync(join(bin, 'place'), 'utf8')).toMatch(/^\/ (\d+) \1\n$/)
    expect(statSync(join(home.directory, 'supervisor.log')).mode & 0o777).toBe(0o600)
  })

  test('because it was killed may be tried again, whatever the signal was', async () => {
    for (const signal of [9, 15, 6]) {
      playing(`kill -${signal} $$`)
      expect(await start()).toBe('killed')
    }
  })

  test('because its program cannot be run is an error', async () => {
    process.execPath = join(bin, 'none')
    await expect(start()).rejects.toMatchObject({ code: 'embedded_not_started', verdict: 'stop' })
  })

  test('has started where its address is there by then', async () => {
    const address = { identity: identityOf(process.pid), port: 1, token: 'x' }
    const path = join(home.directory, 'supervisor.json')
    playing(`echo '${JSON.stringify(address)}' > '${path}'; exit 1`)
    expect(await start()).toBe('started')
    rmSync(path)
  })
})

test('its port is the one that it had, unless another program took it', async () => {
  const port = await freePort(undefined)
  expect(await freePort(port)).toBe(port)
  const other = createServer().listen(port, '127.0.0.1')
  await once(other, 'listening')
  const found = await freePort(port)
  expect(found).not.toBe(port)
  expect(found).toBeGreaterThan(0)
  await new Promise((closed) => other.close(closed))
})
