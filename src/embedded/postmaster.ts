/**
 * The main process of a running Postgres, read from its `postmaster.pid`.
 *
 * Invariant: a process is treated as the server, or signalled, only on proof that it serves this home; the pid in a
 * stale file may belong to an unrelated process.
 */
import { spawn } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Home } from './home.ts'
import { serverProcesses, serves } from './server-process.ts'
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

/** Stops the postmaster `pid`: fast, then immediate, then by force. Returns when no process of it is left. */
export async function stopPostmaster(pid: number, home: Home, bin: string): Promise<void> {
  const steps = [
    { mode: 'fast', signal: 'SIGINT', milliseconds: 60_000 },
    { mode: 'immediate', signal: 'SIGQUIT', milliseconds: 10_000 },
    { mode: 'immediate', signal: 'SIGKILL', milliseconds: 5_000 },
  ] as const
  for (const { mode, signal, milliseconds } of steps) {
    if (!serves(pid, home)) break
    if (process.platform === 'win32') askPgCtl(bin, home, mode)
    else sendSignal(pid, signal)
    const deadline = Date.now() + milliseconds
    while (serves(pid, home) && Date.now() < deadline) await sleep(POLL_MILLISECONDS)
  }
  await endOrphans(home, 5_000)
}

/**
 * Waits for the children of a killed postmaster to exit; after `patience` milliseconds kills the rest. They keep the
 * shared memory in use, and a new server does not start until it is free.
 */
export async function endOrphans(home: Home, patience: number): Promise<void> {
  const deadline = Date.now() + patience
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

function askPgCtl(bin: string, home: Home, mode: string): void {
  const options = { env: serverEnvironment(), stdio: 'ignore', windowsHide: true } as const
  spawn(join(bin, 'pg_ctl'), ['stop', '-D', home.cluster, '-m', mode, '-W'], options).once(
    'error',
    () => undefined,
  )
}
