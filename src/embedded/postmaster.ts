/**
 * The main process of a running Postgres, read from its `postmaster.pid`.
 *
 * Invariant: a process is treated as the server, or signalled, only on proof that it serves this home; the pid in a
 * stale file may belong to an unrelated process.
 */
import { execFileSync, spawn } from 'node:child_process'
import { readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Home } from './home.ts'
import { isCode } from './private-file.ts'
import { identityOf } from './process-identity.ts'
import { serverEnvironment } from './settings.ts'

export interface Postmaster {
  readonly pid: number
  readonly port: number
  /** Accepting connections; false while it starts, recovers or stops. */
  readonly ready: boolean
}

const POLL_MILLISECONDS = 25

/** The postmaster that serves `home`; undefined when none runs. */
export function findPostmaster(home: Home): Postmaster | undefined {
  // Lines: pid (negative: a single-user session), data directory, start time, port, socket, address, memory, status.
  const lines = pidFileLines(home)
  const pid = Math.abs(Number(lines?.[0]))
  if (lines === undefined || !serves(pid, home)) return undefined
  return { pid, port: Number(lines[3]), ready: lines[7]?.trim() === 'ready' }
}

/** Removes a `postmaster.pid` whose process does not serve this home: Postgres itself trusts the number. */
export async function removeStalePidFile(home: Home): Promise<void> {
  if (pidFileLines(home) === undefined || findPostmaster(home) !== undefined) return
  await rm(join(home.cluster, 'postmaster.pid'), { force: true })
}

/**
 * Stops the postmaster `pid`: fast, then immediate, then by force. Returns when no process of it is left. `isRunning`
 * returns whether `pid` is still the postmaster.
 */
export async function stopPostmaster(
  pid: number,
  home: Home,
  bin: string,
  isRunning = () => serves(pid, home),
): Promise<void> {
  const steps = [
    { mode: 'fast', signal: 'SIGINT', milliseconds: 60_000 },
    { mode: 'immediate', signal: 'SIGQUIT', milliseconds: 10_000 },
    { mode: 'immediate', signal: 'SIGKILL', milliseconds: 5_000 },
  ] as const
  for (const { mode, signal, milliseconds } of steps) {
    if (!isRunning()) break
    if (process.platform === 'win32') runPgCtl(bin, home, mode)
    else sendSignal(pid, signal)
    const deadline = Date.now() + milliseconds
    while (isRunning() && Date.now() < deadline) await sleep(POLL_MILLISECONDS)
  }
  await endOrphans(home, 5_000)
}

/**
 * Waits for the children of a killed postmaster to exit; after `timeoutMs` kills the rest. They keep the
 * shared memory in use, and a new server does not start until it is free.
 */
export async function endOrphans(home: Home, timeoutMs: number): Promise<void> {
  const deadline = Date.now() + timeoutMs
  for (let left = serverProcesses(home); left.length > 0; left = serverProcesses(home)) {
    if (Date.now() > deadline + 5_000) return
    if (Date.now() > deadline) for (const pid of left) sendSignal(pid, 'SIGKILL')
    await sleep(POLL_MILLISECONDS)
  }
}

function pidFileLines(home: Home): string[] | undefined {
  try {
    return readFileSync(join(home.cluster, 'postmaster.pid'), 'utf8').split('\n')
  } catch {
    return undefined
  }
}

function sendSignal(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal)
  } catch {
    // It went between the look and the signal.
  }
}

function runPgCtl(bin: string, home: Home, mode: string): void {
  const options = { env: serverEnvironment(), stdio: 'ignore', windowsHide: true } as const
  spawn(join(bin, 'pg_ctl'), ['stop', '-D', home.cluster, '-m', mode, '-W'], options).once(
    'error',
    () => undefined,
  )
}

/**
 * True while `pid` is a process of the server of `home`, the postmaster or one of its children.
 *
 * Invariant: yes only on proof, by the command line or by the directory it works in (every process of a Postgres
 * works in its data directory). The second may not be readable for a root without CAP_SYS_PTRACE, as in a container;
 * then a process of the server's own user reads it.
 */
export function serves(pid: number, home: Home): boolean {
  if (!(pid > 0) || identityOf(pid) === undefined) return false
  if (process.platform === 'linux') return isOursOnLinux(pid, home)
  try {
    const command =
      process.platform === 'win32'
        ? execFileSync('tasklist', ['/FI', `PID eq ${pid}`, '/NH'], { encoding: 'utf8' })
        : execFileSync('ps', ['-ww', '-o', 'command=', '-p', String(pid)], { encoding: 'utf8' })
    return command.includes('postgres') && (process.platform === 'win32' || command.includes(home.cluster))
  } catch {
    return false
  }
}

/** All processes of the server on Linux; none elsewhere. */
function serverProcesses(home: Home): number[] {
  if (process.platform !== 'linux') return []
  return readdirSync('/proc')
    .map(Number)
    .filter((pid) => pid > 0 && serves(pid, home))
}

function isOursOnLinux(pid: number, home: Home): boolean {
  const words = commandLine(pid)
  if (!/(^|\/)postgres(:|$)/.test(words[0] ?? '')) return false
  const place = words.indexOf('-D')
  if (place > 0 && words[place + 1] === home.cluster) return true
  return workingDirectory(pid, home) === home.cluster
}

/** A child of the postmaster has a command line of one word: `postgres: checkpointer `. */
function commandLine(pid: number): string[] {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0')
  } catch {
    return []
  }
}

function workingDirectory(pid: number, home: Home): string | undefined {
  const link = `/proc/${pid}/cwd`
  try {
    return readlinkSync(link)
  } catch (error) {
    if (home.user === undefined || !isCode(error, 'EACCES', 'EPERM')) return undefined
  }
  try {
    const { uid, gid } = home.user
    const answer = execFileSync('readlink', [link], {
      uid,
      gid,
      cwd: '/',
      stdio: ['ignore', 'pipe', 'ignore'],
    })
    return answer.toString('utf8').replace(/\n$/, '')
  } catch {
    return undefined
  }
}
