/**
 * Where the server's files live.
 *
 * Invariant: INTAKE_DATA_DIR leads to exactly one home: itself where the server's user can reach it, else the
 * directory that the pointer file in it names. The pointer is written before the home is made, so that being killed
 * in between loses nothing; and a home is never taken over from a data directory that was removed.
 */
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { access, chmod, constants, lstat, mkdir, realpath, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { UsageError } from '../core/errors.ts'
import { createPrivate, giveToOwnerOfDirectory, isCode, readIfThere } from './private-file.ts'

export interface Home {
  /** Everything of this server: the files named below, and Postgres's own in `cluster`. */
  readonly directory: string
  /** Postgres's data directory. */
  readonly cluster: string
  /** Undefined: the server runs as ourselves. */
  readonly user: ServerUser | undefined
}

const POINTER = 'server-files-are-in'

/** Characters that a shell reads even between double quotes: `initdb` passes its paths through one. */
export const SHELL_CHARACTERS = /["$`\\\n\r]/

/**
 * Where the files go when the server's user cannot reach the data directory: the first of these that is ours and can be
 * written. The temporary directory may be emptied when the machine starts.
 */
export const OUTSIDE: readonly string[] = ['/var/lib/intake-sync', join(tmpdir(), 'intake-sync-root')]

export async function findHome(
  dataDir: string,
  onNotice: (line: string) => void,
  outside: readonly string[] = OUTSIDE,
): Promise<Home> {
  await makeDirectory(dataDir)
  const real = await realpath(dataDir)
  const pointed = (await readIfThere(join(real, POINTER)))?.trim()
  const user = await findServerUser([join(pointed ?? real, 'cluster'), real])
  if (pointed === undefined && (await canReach(user, real))) return await checked(real, user)
  const directory = pointed ?? (await choose(real, onNotice, outside))
  await makeDirectory(directory)
  // Root chose the place; others only use it.
  const why =
    user === undefined
      ? `root set up the embedded Postgres of ${real} outside of it`
      : `running as root: the embedded Postgres runs as the user ${user.name}, who cannot reach ${real}`
  onNotice(`${why}; its files are in ${directory}`)
  return await checked(await realpath(directory), user)
}

/** A new home outside, and the pointer to it. */
async function choose(
  real: string,
  onNotice: (line: string) => void,
  outside: readonly string[],
): Promise<string> {
  const name = createHash('sha256').update(real).digest('hex').slice(0, 16)
  const parent = await firstUsable(outside)
  for (let attempt = 1; ; attempt += 1) {
    const directory = join(parent, attempt === 1 ? name : `${name}-${attempt}`)
    const taken = await lstat(directory).catch(() => undefined)
    if (taken !== undefined) {
      onNotice(`an earlier warehouse of ${real} is left in ${directory}; remove it when nobody needs it`)
      continue
    }
    if (await createPrivate(join(real, POINTER), `${directory}\n`)) return directory
    return (await readIfThere(join(real, POINTER)))!.trim()
  }
}

async function firstUsable(parents: readonly string[]): Promise<string> {
  for (const parent of parents) {
    try {
      await makeDirectory(parent)
      const { uid } = await lstat(parent)
      await access(parent, constants.W_OK)
      if (uid === process.getuid?.()) return parent
    } catch (error) {
      if (!(error instanceof UsageError) && !isCode(error, 'EACCES', 'EROFS', 'EPERM')) throw error
    }
  }
  throw new UsageError(
    'found no directory in which the embedded Postgres could store its data',
    'Set INTAKE_DATA_DIR to a directory on a local disk that other users may pass through (mode 711).',
    'INTAKE_DATA_DIR',
    'data_dir_unusable',
  )
}

/** Makes the directory; the server's user must be able to pass through what root makes, whatever the umask. */
async function makeDirectory(path: string): Promise<void> {
  try {
    const first = await mkdir(path, { recursive: true, mode: 0o755 })
    if (first === undefined) return
    await chmod(path, process.getuid?.() === 0 ? 0o711 : 0o700)
    await giveToOwnerOfDirectory(path)
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code ?? 'unknown error'
    throw new UsageError(
      `the data directory ${path} cannot be created (${code})`,
      'Set INTAKE_DATA_DIR to a directory that this user may write.',
      'INTAKE_DATA_DIR',
      'data_dir_unusable',
    )
  }
}

/** The home, if Postgres can be set up in it and it is ours. */
async function checked(directory: string, user: ServerUser | undefined): Promise<Home> {
  if (SHELL_CHARACTERS.test(directory)) {
    throw new UsageError(
      `Postgres cannot be set up in ${directory}: its tools misread quotes, $, \` and \\ in a path`,
      'Set INTAKE_DATA_DIR to a path without them.',
      'INTAKE_DATA_DIR',
      'data_dir_unusable',
    )
  }
  try {
    await access(directory, constants.R_OK | constants.W_OK | constants.X_OK)
    return { directory, cluster: join(directory, 'cluster'), user }
  } catch {
    throw new UsageError(
      `the data directory ${directory} belongs to another user, or cannot be written`,
      'Run intake-sync as the user who created it, or set INTAKE_DATA_DIR to another directory.',
      'INTAKE_DATA_DIR',
      'data_dir_unusable',
    )
  }
}

/**
 * The user that the server runs as. Postgres refuses to run as root, so root starts it as another user of this machine.
 *
 * Invariant: undefined means "as ourselves", and is the answer for everyone but root; no user is ever created.
 */
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
    'embedded_unavailable',
  )
}

/** True when `user` may pass through every directory down to `path`, and enter it. Root and "ourselves" may. */
export async function canReach(user: ServerUser | undefined, path: string): Promise<boolean> {
  if (user === undefined) return true
  for (let folder = path; ; folder = dirname(folder)) {
    const { uid, gid, mode } = await stat(folder)
    const bits = uid === user.uid ? mode >> 6 : gid === user.gid ? mode >> 3 : mode
    if ((bits & 0o1) === 0) return false
    if (folder === dirname(folder)) return true
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
