/**
 * Postgres's programs, in a place where they run.
 *
 * Invariant: what is returned has its library links, can be reached and run by the server's user, and is whole. The
 * package itself is used where that is possible; else a private copy in the server's home, which takes its name only
 * when it is complete.
 */
import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import {
  access,
  chmod,
  constants,
  copyFile,
  lstat,
  mkdir,
  readdir,
  readFile,
  readlink,
  rename,
  rm,
  stat,
  symlink,
} from 'node:fs/promises'
import { dirname, join, relative } from 'node:path'
import { promisify } from 'node:util'
import { UsageError } from '../core/errors.ts'
import { canReach, type Home, type ServerUser, SHELL_CHARACTERS } from './home.ts'
import { findPackage, OTHER_SERVER, type PostgresPackage } from './package.ts'
import { isCode } from './private-file.ts'
import { serverEnvironment } from './settings.ts'

export interface Binaries {
  readonly bin: string
  readonly major: string
}

export async function prepareBinaries(
  home: Home,
  onNotice: (line: string) => void,
  from: PostgresPackage = findPackage(),
): Promise<Binaries> {
  const why = await reasonNotInPlace(from, home.user)
  let directory = from.directory
  if (why !== undefined) {
    const copy = await copyPackage(from, home)
    directory = copy.directory
    if (copy.made) onNotice(`${why}; a private copy of Postgres is in ${directory}`)
  }
  const bin = join(directory, 'native', 'bin')
  await testPrograms(join(bin, 'postgres'), home.user)
  return { bin, major: from.major }
}

/** Undefined when the package can be used where it lies; else the reason why it cannot. Makes missing links. */
async function reasonNotInPlace(
  from: PostgresPackage,
  user: ServerUser | undefined,
): Promise<string | undefined> {
  if (SHELL_CHARACTERS.test(from.directory))
    return 'the path of node_modules holds characters that Postgres misreads'
  if (!(await readable(from.directory, user))) return `node_modules cannot be read by the user ${user?.name}`
  if (!(await makeLibraryLinks(from.directory)))
    return 'library links are missing in node_modules, which is read-only'
  const runs = await access(join(from.directory, 'native', 'bin', 'postgres'), constants.X_OK).then(
    () => true,
    () => false,
  )
  return runs ? undefined : 'the programs in node_modules are not executable'
}

/** Looks at the places where a strict umask at install time would show. */
async function readable(directory: string, user: ServerUser | undefined): Promise<boolean> {
  if (user === undefined) return true
  for (const part of ['bin', 'lib/postgresql', 'share/postgresql/timezone']) {
    const path = join(directory, 'native', part)
    const there = await stat(path).catch(() => undefined)
    if (there !== undefined && !(await canReach(user, path))) return false
  }
  const { mode, uid } = await stat(join(directory, 'native', 'bin', 'postgres'))
  return (mode & 0o005) === 0o005 || uid === user.uid
}

async function testPrograms(postgres: string, user: ServerUser | undefined): Promise<void> {
  try {
    await promisify(execFile)(postgres, ['--version'], {
      cwd: '/',
      env: serverEnvironment(),
      ...(user === undefined ? {} : { uid: user.uid, gid: user.gid }),
    })
  } catch {
    // The error's text would hold the loader's complaint; its usual reasons are musl, and a C library that is too old.
    throw new UsageError(
      `the embedded Postgres does not run on this system (${postgres}); it needs glibc on Linux`,
      OTHER_SERVER,
      'DATABASE_URL',
      'embedded_unavailable',
    )
  }
}

/**
 * Copies the platform package `from` into the home, readable by everybody, for when it cannot be used where it is. A
 * whole copy of that version stays; copies of older versions are removed.
 *
 * Invariant: a directory that has its final name is complete; being killed leaves only a `.draft-…`, which the next
 * copy removes. Called under the start-up lock, so no draft is in use by another process.
 */
export async function copyPackage(
  from: PostgresPackage,
  home: Home,
): Promise<{ directory: string; made: boolean }> {
  const name = `binaries-${from.version}`
  const directory = join(home.directory, name)
  if (await isWhole(from.directory, directory)) return { directory, made: false }
  for (const entry of await readdir(home.directory)) {
    if (entry.startsWith('binaries-')) await rm(join(home.directory, entry), { recursive: true, force: true })
  }
  const draft = join(home.directory, `binaries-.draft-${process.pid}-${randomBytes(4).toString('hex')}`)
  await mkdir(draft)
  await chmod(draft, 0o755)
  await copyTree(join(from.directory, 'native'), join(draft, 'native'))
  await makeLibraryLinks(draft)
  await rename(draft, directory)
  return { directory, made: true }
}

/** A power cut can leave a renamed directory with empty files: the sizes of the programs and libraries must agree. */
async function isWhole(source: string, copy: string): Promise<boolean> {
  for (const part of ['bin', 'lib']) {
    for (const entry of await readdir(join(source, 'native', part), { withFileTypes: true })) {
      if (!entry.isFile() || isForDevelopers(entry.name)) continue
      const original = await lstat(join(source, 'native', part, entry.name))
      const there = await lstat(join(copy, 'native', part, entry.name)).catch(() => undefined)
      if (there?.size !== original.size) return false
    }
  }
  return true
}

async function copyTree(source: string, target: string): Promise<void> {
  await mkdir(target)
  await chmod(target, 0o755)
  for (const entry of await readdir(source, { withFileTypes: true })) {
    const from = join(source, entry.name)
    const to = join(target, entry.name)
    if (entry.isDirectory()) await copyTree(from, to)
    else if (entry.isSymbolicLink()) await symlink(await readlink(from), to)
    else if (!isForDevelopers(entry.name)) {
      await copyFile(from, to)
      await chmod(to, (await lstat(from)).mode & 0o111 ? 0o755 : 0o644)
    }
  }
}

function isForDevelopers(name: string): boolean {
  return name.endsWith('.a')
}

/**
 * The library links that the platform package lists and that its install script would have made, had npm run it.
 *
 * Invariant: idempotent, also in two processes at once; existing links are left alone.
 */
interface Link {
  readonly source: string
  readonly target: string
}

/** Makes what is missing below the package root `directory`. False when that may not be written. */
export async function makeLibraryLinks(directory: string): Promise<boolean> {
  for (const { source, target } of await listedLinks(directory)) {
    const path = join(directory, target)
    if (await exists(path)) continue
    try {
      await symlink(relative(dirname(path), join(directory, source)), path)
    } catch (error) {
      if (isCode(error, 'EEXIST')) continue
      if (!(await copyInstead(join(directory, source), path))) return false
    }
  }
  return true
}

async function listedLinks(directory: string): Promise<readonly Link[]> {
  try {
    return JSON.parse(await readFile(join(directory, 'native', 'pg-symlinks.json'), 'utf8')) as Link[]
  } catch (error) {
    // Windows has no links to make, and no list.
    if (isCode(error, 'ENOENT')) return []
    throw error
  }
}

/** For file systems that know no links. Complete before it has its name. */
async function copyInstead(source: string, path: string): Promise<boolean> {
  const draft = `${path}.draft-${process.pid}`
  try {
    await copyFile(source, draft)
    await rename(draft, path)
    return true
  } catch {
    await rm(draft, { force: true }).catch(() => undefined)
    return false
  }
}

async function exists(path: string): Promise<boolean> {
  return lstat(path).then(
    () => true,
    () => false,
  )
}
