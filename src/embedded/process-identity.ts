/**
 * Identity of a process beyond its pid, and a lock file that belongs to one.
 *
 * Invariant: two calls return the same text only for the same process, so that a pid written to a file is never
 * mistaken for a later process with that pid, nor for one from before a reboot. A zombie is not running. (Windows
 * returns a start time only through a slow query: there the pid alone is the identity.)
 */
import { execFileSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { link, rename, rm } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { IntakeError } from '../core/errors.ts'
import { createPrivate, isCode, readIfThere } from './private-file.ts'

/** The identity of the running process `pid`; undefined when there is none. */
export function identityOf(pid: number): string | undefined {
  if (!Number.isSafeInteger(pid) || pid <= 0) return undefined
  if (process.platform === 'linux') return identityFromProc(pid)
  return process.platform === 'win32' ? identityFromSignal(pid) : identityFromPs(pid)
}

/** True while the process that had `identity` runs. */
export function isRunning(identity: string): boolean {
  return identityOf(Number.parseInt(identity, 10)) === identity
}

let bootId: string | undefined

function identityFromProc(pid: number): string | undefined {
  const stat = readOrUndefined(`/proc/${pid}/stat`)
  if (stat === undefined) return undefined
  // "pid (name, with anything in it) state ppid … starttime …": starttime is the 22nd field, in ticks since boot.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  if (fields[0] === 'Z' || fields[0] === 'X') return undefined
  bootId ??= readOrUndefined('/proc/sys/kernel/random/boot_id')?.trim() ?? 'unknown'
  return `${pid} ${fields[19]} ${bootId}`
}

function identityFromPs(pid: number): string | undefined {
  try {
    const options = { encoding: 'utf8', env: { LC_ALL: 'C', TZ: 'UTC', PATH: process.env.PATH } } as const
    const line = execFileSync('ps', ['-o', 'stat=,lstart=', '-p', String(pid)], options).trim()
    if (line === '' || line.startsWith('Z')) return undefined
    return `${pid} ${line.replace(/^\S+\s+/, '')}`
  } catch {
    return undefined
  }
}

function identityFromSignal(pid: number): string | undefined {
  try {
    process.kill(pid, 0)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ESRCH') return undefined
  }
  return `${pid}`
}

function readOrUndefined(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return undefined
  }
}

const POLL_MILLISECONDS = 50

/**
 * Runs `action` while holding the lock file `path`; waits for another live holder at most `timeoutMs`. The lock ends with
 * its process: the next one sees that the holder was killed.
 */
export async function withLock<T>(path: string, timeoutMs: number, action: () => Promise<T>): Promise<T> {
  const mine = `${identityOf(process.pid)}\n${randomBytes(8).toString('hex')}`
  const deadline = Date.now() + timeoutMs
  while (!(await createPrivate(path, mine))) {
    const holder = await readIfThere(path)
    if (holder === undefined) continue
    if (!isRunning(holder.split('\n')[0]!)) {
      await remove(path, holder)
      continue
    }
    if (Date.now() > deadline) throw busy(path)
    await sleep(POLL_MILLISECONDS)
  }
  try {
    return await action()
  } finally {
    await remove(path, mine)
  }
}

/** Removes the lock if it still is `expected`. Renaming first makes sure that only one process removes it. */
async function remove(path: string, expected: string): Promise<void> {
  const aside = `${path}.released-${process.pid}-${randomBytes(4).toString('hex')}`
  try {
    await rename(path, aside)
  } catch (error) {
    if (isCode(error, 'ENOENT')) return
    throw error
  }
  if ((await readIfThere(aside)) !== expected) {
    // Another process was faster, and this is already the next holder's lock: put it back.
    await link(aside, path).catch(() => undefined)
  }
  await rm(aside, { force: true })
}

function busy(path: string): IntakeError {
  return new IntakeError(`another process has been starting the embedded Postgres for too long (${path})`, {
    code: 'embedded_busy',
    verdict: 'retry',
    hint: 'Check whether an intake-sync process hangs; the lock is released when that process ends.',
  })
}
