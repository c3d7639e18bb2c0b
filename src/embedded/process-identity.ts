/**
 * Identity of a process beyond its pid.
 *
 * Invariant: two calls return the same text only for the same process, so that a pid written to a file is never mistaken
 * for a later process with that pid, nor for one from before a reboot. A zombie is not running. (Windows returns a start time only through a slow query: there the pid alone is the identity.)
 */
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'

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
