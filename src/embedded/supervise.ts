/**
 * Starts the supervisor (supervisor.ts) as a process of its own, and attaches to it.
 *
 * Invariant: it outlives us, shares no terminal, no environment secret and no pipe with us, and works alike from the
 * built JavaScript and from the sources (where Node needs tsx to read it; what is published needs nothing).
 */
import { spawn } from 'node:child_process'
import { closeSync, openSync, readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { connect, type Socket } from 'node:net'
import { extname, join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { IntakeError } from '../core/errors.ts'
import type { Home } from './home.ts'
import { giveToOwnerOfDirectory, readIfThere, writePrivate } from './private-file.ts'
import { isRunning } from './process-identity.ts'
import { serverEnvironment } from './settings.ts'

/** Input of the supervisor, as JSON on its standard input. */
export interface Orders {
  readonly home: Home
  /** The directory of Postgres's programs. */
  readonly bin: string
  /** For tests: the data need not survive a power cut. */
  readonly unsafe: boolean
}

const RECENT_LINES = 20
const POLL_MILLISECONDS = 10

/**
 * `started`: clients can attach; the server may still be starting. `killed`: a signal ended it before that, and a new
 * attempt may succeed. Throws when it ended by itself.
 */
export async function startSupervisor(orders: Orders): Promise<'started' | 'killed'> {
  const suffix = extname(fileURLToPath(import.meta.url))
  const program = fileURLToPath(new URL(`./supervisor${suffix}`, import.meta.url))
  const logPath = join(orders.home.directory, 'supervisor.log')
  const log = openSync(logPath, 'w', 0o600)
  await giveToOwnerOfDirectory(logPath)
  const child = spawn(process.execPath, [...loader(suffix), program], {
    cwd: '/',
    detached: true,
    env: serverEnvironment(),
    stdio: ['pipe', log, log],
    windowsHide: true,
  })
  closeSync(log)
  let over: 'ended' | 'killed' | undefined
  child
    .once('exit', (_, signal) => {
      over = signal === null ? 'ended' : 'killed'
    })
    .once('error', () => {
      over = 'ended'
    })
  child.stdin?.on('error', () => undefined).end(JSON.stringify(orders))
  child.unref()
  while (over === undefined && (await readAddress(orders.home)) === undefined) await sleep(POLL_MILLISECONDS)
  if (over === undefined || (await readAddress(orders.home)) !== undefined) return 'started'
  if (over === 'killed') return 'killed'
  throw notStarted(orders.home)
}

/** The error for a server that did not start, with the reason from its log. */
export function notStarted(home: Home): IntakeError {
  const path = join(home.directory, 'server.log')
  const lines = readLines(path).concat(readLines(join(home.directory, 'supervisor.log')))
  const reason = lines.slice(-RECENT_LINES).findLast((line) => /FATAL|PANIC|Error:/.test(line))
  const detail = reason === undefined ? '' : `: ${reason.replace(/^.*?(FATAL|PANIC|Error):\s*/, '')}`
  return new IntakeError(`the embedded Postgres did not start${detail}`, {
    code: 'embedded_not_started',
    verdict: 'stop',
    hint: `Its log is ${path}. To use your own Postgres instead, set DATABASE_URL.`,
  })
}

function loader(suffix: string): string[] {
  if (suffix !== '.ts') return []
  return ['--import', pathToFileURL(createRequire(import.meta.url).resolve('tsx')).href]
}

function readLines(path: string): string[] {
  try {
    return readFileSync(path, 'utf8').split('\n')
  } catch {
    return []
  }
}

/**
 * The protocol between users of a server and its supervisor: lines over a loopback connection that stays open while the
 * server is in use. The kernel closes it when a user dies, however it dies, so that an abandoned server stops.
 *
 *   user → supervisor   `<token>`     attach; the token comes from a file that only its owner may read
 *   supervisor → user   `ready <port>` each time the server accepts connections, also after it was started again
 *                       `failed`      it does not start
 *                       `stopping`    attach again after this connection has closed
 *   user → supervisor   `leave`       detach
 *   supervisor → user   `left`        others still use the server
 *                       `stopped`     that was the last user, and the server has stopped
 *
 * Invariant: a user that received `ready` keeps the server running until it leaves or dies.
 */
export interface SupervisorAddress {
  /** See process-identity.ts. */
  readonly identity: string
  readonly port: number
  readonly token: string
}

export interface Attachment {
  readonly port: number
  /** Resolves to what the supervisor answered, or `lost` when it was killed. */
  leave(): Promise<'left' | 'stopped' | 'lost'>
  /** Calls back once if the supervisor goes away while we use the server. */
  onLost(callback: () => void): void
}

export type AttachResult = Attachment | 'none' | 'failed'

/** Longer than the supervisor takes to stop a server by force. */
const LEAVE_MILLISECONDS = 120_000
const ADDRESS_FILE = 'supervisor.json'

export async function writeAddress(home: Home, address: SupervisorAddress): Promise<void> {
  await writePrivate(join(home.directory, ADDRESS_FILE), JSON.stringify(address))
}

/** Where the living supervisor of this home listens. */
export async function readAddress(home: Home): Promise<SupervisorAddress | undefined> {
  const text = await readIfThere(join(home.directory, ADDRESS_FILE))
  if (text === undefined) return undefined
  try {
    const address = JSON.parse(text) as SupervisorAddress
    return isRunning(address.identity) ? address : undefined
  } catch {
    return undefined
  }
}

/** Attaches to the running server. `none`: there is no supervisor; start one. */
export async function attach(home: Home): Promise<AttachResult> {
  const address = await readAddress(home)
  if (address === undefined) return 'none'
  const socket = connect({ host: '127.0.0.1', port: address.port })
  const closed = new Promise<'closed'>((resolve) => {
    socket.once('close', () => resolve('closed'))
    socket.on('error', () => undefined)
  })
  const nextLine = lineReader(socket)
  socket.write(`${address.token}\n`)
  for (;;) {
    const line = await Promise.race([nextLine(), closed])
    if (line === 'closed') return 'none'
    if (line === 'failed') {
      socket.destroy()
      return 'failed'
    }
    if (line.startsWith('ready ')) {
      return attachment(socket, address.identity, Number(line.slice(6)), nextLine, closed)
    }
  }
}

function attachment(
  socket: Socket,
  supervisor: string,
  port: number,
  nextLine: () => Promise<string>,
  closed: Promise<'closed'>,
): Attachment {
  // A process may exit without detaching.
  socket.unref()
  let leaving = false
  return {
    port,
    async leave() {
      leaving = true
      socket.ref()
      socket.write('leave\n')
      const late = sleep(LEAVE_MILLISECONDS, 'closed' as const, { ref: false })
      for (;;) {
        const line = await Promise.race([nextLine(), closed, late])
        if (line === 'closed') {
          socket.destroy()
          return 'lost'
        }
        if (line === 'left' || line === 'stopped') {
          await closed
          if (line === 'stopped') await whenEnded(supervisor)
          return line
        }
      }
    },
    onLost(callback) {
      void closed.then(() => {
        if (!leaving) callback()
      })
    },
  }
}

/** The supervisor sends its last line shortly before it exits. */
async function whenEnded(supervisor: string): Promise<void> {
  for (let waited = 0; isRunning(supervisor) && waited < 2_000; waited += 10) await sleep(10)
}

/** The lines of a socket, one a call. */
function lineReader(socket: Socket): () => Promise<string> {
  const waiting: ((line: string) => void)[] = []
  const lines: string[] = []
  const reader = createInterface({ input: socket }).on('error', () => undefined)
  reader.on('line', (line) => {
    const first = waiting.shift()
    if (first === undefined) lines.push(line)
    else first(line)
  })
  return () => {
    const line = lines.shift()
    return line === undefined ? new Promise((resolve) => waiting.push(resolve)) : Promise.resolve(line)
  }
}
