/**
 * The supervisor of an embedded server: starts it, restarts it when it dies, and stops it after its last user has
 * left. One for each home, in a session of its own, so that Ctrl-C in a terminal ends the command but not
 * the server under it.
 *
 * Invariant: the server runs while it has a user and no longer; this program runs as long as the server. It ends only
 * that way, and ignores the signals that end its users. Its state:
 *
 *   starting → ready → (starting → ready …) → stopping → end
 *      └───────────────► failed ────────────────────────► end
 */
import { randomBytes, timingSafeEqual } from 'node:crypto'
import { rmSync } from 'node:fs'
import { createServer, type Server, type Socket } from 'node:net'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { text } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'
import { findPostmaster, stopPostmaster } from './postmaster.ts'
import { identityOf } from './process-identity.ts'
import { type RunningServer, startServer } from './start-server.ts'
import { type Orders, readAddress, type SupervisorAddress, writeAddress } from './supervise.ts'

type State = 'starting' | 'ready' | 'stopping' | 'failed'

/** How long a server waits for its first user, which may have been killed since. */
const FIRST_USER_MILLISECONDS = 30_000
/**
 * How long a server that was taken over is kept for the users of the previous supervisor: they reconnect as soon as they
 * see that it was killed.
 */
const RETURN_MILLISECONDS = 2_000
/** Starts that fail in a row before the supervisor gives up. */
const ATTEMPTS = 6

const orders = JSON.parse(await text(process.stdin)) as Orders
const { home } = orders
const token = randomBytes(24).toString('base64url')
const users = new Set<Socket>()
let state: State = 'starting'
let server: RunningServer | undefined
/** The users that left last and wait until the server has stopped. */
const leaving: Socket[] = []
/** A server that another supervisor started is not stopped before this time, in milliseconds since process start. */
let keptUntil = 0
let stopped: Promise<void> | undefined

for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => undefined)

if ((await readAddress(home)) === undefined) {
  if (findPostmaster(home) !== undefined) keptUntil = performance.now() + RETURN_MILLISECONDS
  const control = createServer(receive)
  await new Promise<void>((resolve) => control.listen({ port: 0, host: '127.0.0.1' }, resolve))
  const address = { identity: identityOf(process.pid)!, port: portOf(control), token }
  await writeAddress(home, address)
  setTimeout(stopWithoutUsers, FIRST_USER_MILLISECONDS).unref()
  await keepRunning()
  await stopped
  control.close()
  await leaveHome(address)
}
process.exit(0)

/** Runs the server until it is to stop, or cannot be started. */
async function keepRunning(): Promise<void> {
  for (let failures = 0; state !== 'stopping' && failures < ATTEMPTS; ) {
    state = 'starting'
    server = await startServer(orders)
    if (isStopping()) await stop()
    if (await server.ready) {
      failures = 0
      enter('ready', `ready ${server.port}`)
    } else {
      failures += 1
    }
    await server.ended
    if (!isStopping()) await sleep(failures * 250)
  }
  if (!isStopping()) enter('failed', 'failed')
}

function isStopping(): boolean {
  return state === 'stopping'
}

function enter(next: State, line: string): void {
  if (isStopping()) return
  state = next
  for (const user of users) user.write(`${line}\n`)
}

function receive(socket: Socket): void {
  socket.on('error', () => undefined)
  const lines = createInterface({ input: socket }).on('error', () => undefined)
  lines.on('line', (line) => {
    if (users.has(socket)) {
      if (line === 'leave') leave(socket)
    } else if (!isToken(line)) socket.destroy()
    else if (isStopping()) socket.write('stopping\n')
    else welcome(socket)
  })
}

function welcome(socket: Socket): void {
  users.add(socket)
  for (const last of leaving.splice(0)) last.end('left\n')
  socket.once('close', () => {
    if (users.delete(socket)) stopWithoutUsers()
  })
  if (state === 'ready') socket.write(`ready ${server!.port}\n`)
}

function leave(socket: Socket): void {
  users.delete(socket)
  if (users.size > 0) {
    socket.end('left\n')
    return
  }
  leaving.push(socket)
  stopWithoutUsers()
}

function stopWithoutUsers(): void {
  if (users.size > 0 || isStopping()) return
  const early = keptUntil - performance.now()
  if (early > 0) {
    setTimeout(stopWithoutUsers, early)
    return
  }
  state = 'stopping'
  stopped = stop()
}

async function stop(): Promise<void> {
  const { pid, isRunning } = server ?? {}
  if (pid !== undefined) await stopPostmaster(pid, home, orders.bin, isRunning)
}

/** Takes the address away, unless another supervisor has put its own there, and lets the last user go. */
async function leaveHome(address: SupervisorAddress): Promise<void> {
  const current = await readAddress(home)
  if (current?.token === address.token) rmSync(join(home.directory, 'supervisor.json'), { force: true })
  for (const last of leaving) last.end('stopped\n')
  // Time for the last line to leave the socket before the process goes.
  await sleep(20)
}

function isToken(line: string): boolean {
  const given = Buffer.from(line)
  const expected = Buffer.from(token)
  return given.length === expected.length && timingSafeEqual(given, expected)
}

function portOf(control: Server): number {
  const address = control.address()
  if (typeof address === 'object' && address !== null) return address.port
  throw new Error('the control connection has no port')
}
