/**
 * Postgres's programs, in a place where they run.
 *
 * Invariant: what is returned has its library links, can be reached and run by the server's user, and is whole. The
 * package itself is used where that is possible; else a private copy in the server's home, which takes its name only
 * when it is complete.
 */
import { execFile } from 'node:child_process'
import { access, constants, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { UsageError } from '../core/errors.ts'
import { copyPackage } from './copy-package.ts'
import { type Home, SHELL_CHARACTERS } from './home.ts'
import { makeLibraryLinks } from './library-links.ts'
import { findPackage, OTHER_SERVER, type PostgresPackage } from './package.ts'
import { canReach, type ServerUser } from './server-user.ts'
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
  const why = await whyNotInPlace(from, home.user)
  let directory = from.directory
  if (why !== undefined) {
    const copy = await copyPackage(from, home)
    directory = copy.directory
    if (copy.made) onNotice(`${why}; a private copy of Postgres is in ${directory}`)
  }
  const bin = join(directory, 'native', 'bin')
  await tryOut(join(bin, 'postgres'), home.user)
  return { bin, major: from.major }
}

/** Undefined when the package can be used where it lies; else the reason why it cannot. Makes missing links. */
async function whyNotInPlace(
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

async function tryOut(postgres: string, user: ServerUser | undefined): Promise<void> {
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
    )
  }
}
