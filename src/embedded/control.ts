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
import { connect, type Socket } from 'node:net'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Home } from './home.ts'
import { readIfThere, writePrivate } from './private-file.ts'
import { isRunning } from './process-identity.ts'

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
