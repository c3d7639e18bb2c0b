/**
 * Whether a process belongs to the server of a home.
 *
 * Invariant: yes only on proof, by the command line or by the directory it works in (every process of a Postgres
 * works in its data directory). The second may not be readable for a root without CAP_SYS_PTRACE, as in a container;
 * then the server's own user is asked.
 */
import { execFileSync } from 'node:child_process'
import { readdirSync, readFileSync, readlinkSync } from 'node:fs'
import type { Home } from './home.ts'
import { isCode } from './private-file.ts'
import { identityOf } from './process-identity.ts'

/** True while `pid` is a process of the server of `home`, the postmaster or one of its children. */
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
export function serverProcesses(home: Home): number[] {
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
