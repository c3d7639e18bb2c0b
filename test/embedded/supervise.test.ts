/** Attaching to the supervisor of an embedded server, which is played here, and leaving it. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, statSync, writeFileSync } from 'node:fs'
import { createServer, type Server, type Socket } from 'node:net'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { afterAll, afterEach, describe, expect, test } from 'vitest'
import { identityOf } from '../../src/embedded/process-identity.ts'
import {
  type Attachment,
  attach,
  notStarted,
  readAddress,
  writeAddress,
} from '../../src/embedded/supervise.ts'
import { makeFolder, removeFolder } from '../support/folders.ts'

const base = makeFolder('supervise-')
const own = identityOf(process.pid)!
const servers: Server[] = []
const sockets: Socket[] = []
afterAll(() => removeFolder(base))
afterEach(() => {
  for (const server of servers.splice(0)) server.close()
  for (const socket of sockets.splice(0)) socket.destroy()
})

let homes = 0
function newHome() {
  const directory = join(base, String(++homes))
  mkdirSync(directory)
  return { directory, cluster: join(directory, 'cluster'), user: undefined }
}

/** A home whose supervisor does `answer` for each line; the lines that it received. */
async function supervised(answer: (line: string, socket: Socket) => void, identity = own) {
  const home = newHome()
  const lines: string[] = []
  const server = createServer((socket) => {
    sockets.push(socket.on('error', () => undefined))
    createInterface({ input: socket }).on('line', (line) => {
      lines.push(line)
      answer(line, socket)
    })
  })
  servers.push(server)
  await once(server.listen(0, '127.0.0.1'), 'listening')
  await writeAddress(home, { identity, port: (server.address() as { port: number }).port, token: 'token' })
  return { home, lines }
}

const attachedTo = async (home: ReturnType<typeof newHome>) => (await attach(home)) as Attachment

describe('the address of a supervisor', () => {
  test('is readable for its owner only, and gone with its process', async () => {
    const home = newHome()
    expect([await readAddress(home), await attach(home)]).toEqual([undefined, 'none'])
    const address = { identity: own, port: 7, token: 't' }
    await writeAddress(home, address)
    expect(await readAddress(home)).toEqual(address)
    expect(statSync(join(home.directory, 'supervisor.json')).mode & 0o777).toBe(0o600)
    await writeAddress(home, { ...address, identity: own.replace(/ \S+/, ' 1') })
    expect([await readAddress(home), await attach(home)]).toEqual([undefined, 'none'])
    writeFileSync(join(home.directory, 'supervisor.json'), '{')
    expect(await readAddress(home)).toBeUndefined()
  })
})

describe('a user of a server', () => {
  test('shows the token first, and waits until the server is ready', async () => {
    const { home, lines } = await supervised((_, socket) => socket.write('starting\nready 5433\nfailed\n'))
    const { port } = await attachedTo(home)
    expect([port, lines]).toEqual([5433, ['token']])
  })

  test('may exit without leaving it', async () => {
    const open = () => process.getActiveResourcesInfo().filter((name) => name === 'TCPSocketWrap').length
    const { home } = await supervised((_, socket) => socket.write('ready 5433\n'))
    const before = open()
    await attachedTo(home)
    // The supervisor's end of the connection, which is in this process too.
    expect(open() - before).toBeLessThanOrEqual(1)
  })

  test('keeps its process running from when it leaves until that is answered', async () => {
    const open = () => process.getActiveResourcesInfo().filter((name) => name === 'TCPSocketWrap').length
    const { home, lines } = await supervised((line, socket) => {
      if (line === 'token') socket.write('ready 5433\n')
    })
    const attachment = await attachedTo(home)
    const before = open()
    const leaving = attachment.leave()
    expect(open()).toBe(before + 1)
    await expect.poll(() => lines).toEqual(['token', 'leave'])
    sockets.at(-1)!.end('left\n')
    expect(await leaving).toBe('left')
  })

  test.each([
    ['failed', 'failed\n', 'failed'],
    ['is about to stop', 'stopping\n', 'none'],
    ['was killed', '', 'none'],
  ])('has no server where the supervisor %s', async (_, text, expected) => {
    const { home } = await supervised((__, socket) => void socket.end(text))
    expect(await attach(home)).toBe(expected)
  })

  test('disconnects from a supervisor whose server does not start, even if that supervisor keeps running', async () => {
    const { home } = await supervised((_, socket) => void socket.write('failed\n'))
    expect(await attach(home)).toBe('failed')
    await once(sockets.at(-1)!, 'close')
  })

  test('has none where nobody listens', async () => {
    const home = newHome()
    await writeAddress(home, { identity: own, port: 1, token: 't' })
    expect(await attach(home)).toBe('none')
  })

  test.each(['left', 'stopped', 'lost'] as const)('that leaves hears: %s', async (word) => {
    const supervisor = spawn('sleep', ['60'])
    const ended = once(supervisor, 'exit')
    const answer = word === 'lost' ? '' : `ready 1\n${word}\n`
    const { home } = await supervised((line, socket) => {
      if (line === 'token') socket.write('ready 1\n')
      else socket.end(answer)
      // It ends a little after its last line.
      if (line === 'leave' && word === 'stopped') setTimeout(() => supervisor.kill('SIGKILL'), 20)
    }, identityOf(supervisor.pid!)!)
    const lost: string[] = []
    const attachment = await attachedTo(home)
    attachment.onLost(() => lost.push('lost'))
    expect(await attachment.leave()).toBe(word)
    // After the last user has left, the supervisor ends too.
    expect(identityOf(supervisor.pid!) === undefined).toBe(word === 'stopped')
    supervisor.kill('SIGKILL')
    await ended
    expect(lost).toEqual([])
  })

  test('is called back when the supervisor goes away', async () => {
    const { home } = await supervised((_, socket) => void socket.end('ready 1\n'))
    const { onLost } = await attachedTo(home)
    await new Promise<void>((resolve) => onLost(resolve))
  })
})

test.each([
  [
    'x\n2026 [7] FATAL:  the first\n2026 [7] FATAL:  could not create lock file\n',
    '',
    ': could not create lock file',
  ],
  ['2026 [7] PANIC:  no space\n', '', ': no space'],
  ['', 'node:internal\nError: spawn ENOENT\n    at x\n', ': spawn ENOENT'],
  ['2026 [7] FATAL:  old\n', '', ': old'],
  [`FATAL:  too old\n${'line\n'.repeat(20)}`, '', ''],
  // Only the last twenty lines are searched, an empty one included.
  [`FATAL:  too old\n${'line\n'.repeat(19)}`, undefined, ''],
  [`FATAL:  old enough\n${'line\n'.repeat(18)}`, undefined, ': old enough'],
  ['2026 [7] FATAL:  of the server\n', 'Error: of the supervisor\n', ': of the supervisor'],
  ['2026 [7] FATAL:  before that: Error: and this\n', '', ': before that: Error: and this'],
  ['2026 [7] LOG:  an error\n', 'a fatal one\n', ''],
  [undefined, undefined, ''],
])(
  'a server that does not start is reported with the last reason in its log: %j',
  (log, supervisor, reason) => {
    const home = newHome()
    const [path, other] = ['server.log', 'supervisor.log'].map((name) => join(home.directory, name)) as [
      string,
      string,
    ]
    if (log !== undefined) writeFileSync(path, log)
    if (supervisor !== undefined) writeFileSync(other, supervisor)
    expect(notStarted(home)).toMatchObject({
      ...{
        code: 'embedded_not_started',
        verdict: 'stop',
        message: `the embedded Postgres did not start${reason}`,
      },
      hint: `Its log is ${path}. To use your own Postgres instead, set DATABASE_URL.`,
    })
  },
)
