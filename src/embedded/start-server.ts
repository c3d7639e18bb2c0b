/**
 * Starts Postgres, or takes over one that still runs because its supervisor was killed.
 *
 * Invariant: Postgres's own lock on the data directory decides who may serve it; a second server never starts. The
 * log is for the operator and holds no value of a row (see settings.ts).
 */
import { spawn } from 'node:child_process'
import { closeSync, openSync, renameSync, statSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Home } from './home.ts'
import { endOrphans, findPostmaster, type Postmaster, removeStalePidFile, serves } from './postmaster.ts'
import { giveToOwnerOfDirectory, readIfThere, writePrivate } from './private-file.ts'
import { serverEnvironment, settings } from './settings.ts'
import type { Orders } from './supervise.ts'

export interface RunningServer {
  readonly pid: number | undefined
  readonly port: number
  /** True when it accepts connections, false when it ended before. */
  readonly ready: Promise<boolean>
  readonly ended: Promise<void>
  /**
   * Whether `pid` is still this server. Our own child is, until it has exited: just after it was started it has no command
   * line yet, so `serves` would be false.
   */
  isRunning(): boolean
}

const POLL_MILLISECONDS = 25
const ADOPTED_POLL_MILLISECONDS = 250
const LOG_BYTES = 1_000_000

export async function startServer({ home, bin, unsafe }: Orders): Promise<RunningServer> {
  const running = findPostmaster(home)
  if (running !== undefined) return adopt(home, running)
  await removeStalePidFile(home)
  await endOrphans(home, 3_000)
  const portFile = join(home.directory, 'port')
  const remembered = Number(await readIfThere(portFile))
  const isPort = Number.isInteger(remembered) && remembered > 0 && remembered < 65_536
  const port = await freePort(isPort ? remembered : undefined)
  await writePrivate(portFile, `${port}\n`)
  const log = await openLog(home)
  const parameters = Object.entries(settings(port, unsafe)).flatMap(([name, value]) => [
    '-c',
    `${name}=${value}`,
  ])
  const child = spawn(join(bin, 'postgres'), ['-D', home.cluster, ...parameters], {
    // Postgres changes to this directory anyway; starting there makes the process recognizable from its first moment.
    cwd: home.cluster,
    env: serverEnvironment(),
    stdio: ['ignore', log, log],
    windowsHide: true,
    ...(home.user === undefined ? {} : { uid: home.user.uid, gid: home.user.gid }),
  })
  closeSync(log)
  const ended = new Promise<void>((resolve) => {
    child.once('exit', () => resolve()).once('error', () => resolve())
  })
  return watch(home, child.pid, port, ended)
}

function adopt(home: Home, { pid, port }: Postmaster): RunningServer {
  return watch(home, pid, port, whenGone(home, pid), () => serves(pid, home))
}

function watch(
  home: Home,
  pid: number | undefined,
  port: number,
  ended: Promise<void>,
  proof?: () => boolean,
): RunningServer {
  let over = false
  const end = ended.then(() => {
    over = true
  })
  const becomeReady = async (): Promise<boolean> => {
    while (!over) {
      const found = findPostmaster(home)
      if (found?.pid === pid && found?.ready === true) return true
      await sleep(POLL_MILLISECONDS)
    }
    return false
  }
  return { pid, port, ready: becomeReady(), ended: end, isRunning: proof ?? (() => !over) }
}

async function whenGone(home: Home, pid: number): Promise<void> {
  while (serves(pid, home)) await sleep(ADOPTED_POLL_MILLISECONDS)
}

async function openLog(home: Home): Promise<number> {
  const path = join(home.directory, 'server.log')
  const size = statSync(path, { throwIfNoEntry: false })?.size ?? 0
  if (size > LOG_BYTES) renameSync(path, `${path}.old`)
  const log = openSync(path, 'a', 0o600)
  await giveToOwnerOfDirectory(path)
  return log
}

/**
 * The server's port: the one it had last time, so that a tool's saved connection goes on working, unless a stranger
 * took it.
 *
 * Invariant: loopback only. A port that was free may be taken the moment after; the caller starts again then.
 */
export async function freePort(preferred: number | undefined): Promise<number> {
  if (preferred !== undefined && (await listenOnce(preferred)) !== undefined) return preferred
  return (await listenOnce(0))!
}

/** Listens on `port` and stops at once; the port it got, or undefined when it is taken. */
function listenOnce(port: number): Promise<number | undefined> {
  return new Promise((resolve, reject) => {
    const server = createServer()
    server.once('error', (error) => (port === 0 ? reject(error) : resolve(undefined)))
    server.listen({ port, host: '127.0.0.1', exclusive: true }, () => {
      const address = server.address()
      const got = typeof address === 'object' && address !== null ? address.port : undefined
      server.close(() => resolve(got))
    })
  })
}
