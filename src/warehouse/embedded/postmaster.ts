/**
 * The main process of a running Postgres, as its `postmaster.pid` tells.
 *
 * Invariant: only a process that is proved to serve this data directory is ever taken for the server, or signalled;
 * the number in a stale file may be a stranger's by now.
 */
import { execFileSync, spawn } from 'node:child_process'
import { readdirSync, readFileSync, readlinkSync, realpathSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { identityOf } from './process-identity.ts'
import { serverEnvironment } from './settings.ts'

export interface Postmaster {
  readonly pid: number
  readonly port: number
  /** Accepting connections; false while it starts, recovers or stops. */
  readonly ready: boolean
}

const POLL_MILLISECONDS = 25

/** The postmaster that serves `cluster`; undefined when none runs. */
export function findPostmaster(cluster: string): Postmaster | undefined {
  // Lines: pid, data directory, start time, port, socket directory, address, shared memory, status.
  const lines = pidFileLines(cluster)
  const pid = Number(lines?.[0])
  if (lines === undefined || !serves(pid, cluster)) return undefined
  return { pid, port: Number(lines[3]), ready: lines[7]?.trim() === 'ready' }
}

/** Removes a `postmaster.pid` that no server of this directory stands behind: Postgres itself trusts the number. */
export async function removeStalePidFile(cluster: string): Promise<void> {
  if (pidFileLines(cluster) === undefined || findPostmaster(cluster) !== undefined) return
  await rm(join(cluster, 'postmaster.pid'), { force: true })
}

export function isGone(pid: number, cluster: string): boolean {
  return !serves(pid, cluster)
}

/** Stops the postmaster `pid`: fast, then immediate, then by force. Returns when no process of it is left. */
export async function stopPostmaster(pid: number, cluster: string, bin: string): Promise<void> {
  const steps = [
    { mode: 'fast', signal: 'SIGINT', milliseconds: 60_000 },
    { mode: 'immediate', signal: 'SIGQUIT', milliseconds: 10_000 },
    { mode: 'immediate', signal: 'SIGKILL', milliseconds: 5_000 },
  ] as const
  for (const { mode, signal, milliseconds } of steps) {
    if (isGone(pid, cluster)) break
    if (process.platform === 'win32') askPgCtl(bin, cluster, mode)
    else sendSignal(pid, signal)
    const deadline = Date.now() + milliseconds
    while (!isGone(pid, cluster) && Date.now() < deadline) await sleep(POLL_MILLISECONDS)
  }
  await endOrphans(cluster, 5_000)
}

/**
 * Waits for the children of a postmaster that was killed; after `patience` milliseconds kills those that are too busy
 * to notice. They hold the shared memory, without which no new server may start. (Only Linux tells who they are.)
 */
export async function endOrphans(cluster: string, patience: number): Promise<void> {
  if (process.platform !== 'linux') return
  const deadline = Date.now() + patience
  for (let left = serverProcesses(cluster); left.length > 0; left = serverProcesses(cluster)) {
    if (Date.now() > deadline + 5_000) return
    if (Date.now() > deadline) for (const pid of left) sendSignal(pid, 'SIGKILL')
    await sleep(POLL_MILLISECONDS)
  }
}

function serverProcesses(cluster: string): number[] {
  return readdirSync('/proc')
    .map(Number)
    .filter((pid) => pid > 0 && serves(pid, cluster))
}

function serves(pid: number, cluster: string): boolean {
  if (!(pid > 0) || identityOf(pid) === undefined) return false
  try {
    if (process.platform === 'linux') {
      // Every process of a server works in its data directory.
      return (
        isPostgres(readlinkSync(`/proc/${pid}/exe`)) && readlinkSync(`/proc/${pid}/cwd`) === real(cluster)
      )
    }
    if (process.platform === 'win32') {
      const list = execFileSync('tasklist', ['/FI', `PID eq ${pid}`, '/NH'], { encoding: 'utf8' })
      return list.toLowerCase().includes('postgres')
    }
    const command = execFileSync('ps', ['-ww', '-o', 'command=', '-p', String(pid)], { encoding: 'utf8' })
    return command.includes('postgres') && command.includes(real(cluster))
  } catch {
    return false
  }
}

function isPostgres(executable: string): boolean {
  return /(^|\/)postgres( \(deleted\))?$/.test(executable)
}

function pidFileLines(cluster: string): string[] | undefined {
  try {
    return readFileSync(join(cluster, 'postmaster.pid'), 'utf8').split('\n')
  } catch {
    return undefined
  }
}

function real(path: string): string {
  return realpathSync(path)
}

function sendSignal(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal)
  } catch {
    // It went between the look and the signal.
  }
}

function askPgCtl(bin: string, cluster: string, mode: string): void {
  const options = { env: serverEnvironment(), stdio: 'ignore', windowsHide: true } as const
  spawn(join(bin, 'pg_ctl'), ['stop', '-D', cluster, '-m', mode, '-W'], options).once(
    'error',
    () => undefined,
  )
}
