/**
 * The user that the server runs as. Postgres refuses to run as root, so root starts it as another user of this machine.
 *
 * Invariant: undefined means "as ourselves", and is the answer for everyone but root; no user is ever created.
 */
import { execFileSync } from 'node:child_process'
import { stat } from 'node:fs/promises'
import { dirname } from 'node:path'
import { UsageError } from '../core/errors.ts'
import { isCode } from './private-file.ts'

export interface ServerUser {
  readonly name: string
  readonly uid: number
  readonly gid: number
}

/** In this order: made for the purpose first, then those that own nothing. `initdb` insists that the user has a name. */
const CANDIDATES = ['postgres', '_postgres', 'nobody', 'daemon', 'bin']

/** The owner of the first of `places` that exists and is not root's; else a user who owns nothing much. */
export async function findServerUser(places: readonly string[]): Promise<ServerUser | undefined> {
  if (process.getuid?.() !== 0) return undefined
  for (const place of places) {
    const owner = await ownerOf(place)
    const name = owner === undefined || owner.uid === 0 ? undefined : idOf(['-un', String(owner.uid)])
    if (name !== undefined) return { name, ...owner! }
  }
  for (const name of CANDIDATES) {
    const uid = Number(idOf(['-u', name])) | 0
    const gid = Number(idOf(['-g', name])) | 0
    if (uid !== 0 && gid !== 0 && mayBecome(uid, gid)) return { name, uid, gid }
  }
  throw new UsageError(
    'Postgres refuses to run as root, and this machine has no other user that it could run as',
    'Run intake-sync as an ordinary user, or set DATABASE_URL to a Postgres 15 to 18.',
    'DATABASE_URL',
  )
}

/** True when `user` may pass through every directory down to `path`, and enter it. Root and "ourselves" may. */
export async function canReach(user: ServerUser | undefined, path: string): Promise<boolean> {
  if (user === undefined) return true
  for (let at = path; ; at = dirname(at)) {
    const { uid, gid, mode } = await stat(at)
    const bits = uid === user.uid ? mode >> 6 : gid === user.gid ? mode >> 3 : mode
    if ((bits & 0o1) === 0) return false
    if (at === dirname(at)) return true
  }
}

async function ownerOf(path: string): Promise<{ uid: number; gid: number } | undefined> {
  try {
    const { uid, gid } = await stat(path)
    return { uid, gid }
  } catch (error) {
    if (isCode(error, 'ENOENT', 'ENOTDIR')) return undefined
    throw error
  }
}

/** What `id` answers; it knows users from directories too, where /etc/passwd does not. */
function idOf(parameters: string[]): string | undefined {
  try {
    return execFileSync('id', parameters, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).trim()
  } catch {
    return undefined
  }
}

/** A container may have given root no right to become someone else. */
function mayBecome(uid: number, gid: number): boolean {
  try {
    execFileSync('id', ['-u'], { uid, gid, stdio: 'ignore', cwd: '/' })
    return true
  } catch {
    return false
  }
}
