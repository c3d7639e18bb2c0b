/**
 * The library links that the platform package lists and that its install script would have made, had npm run it.
 *
 * Invariant: idempotent, also in two processes at once; existing links are left alone.
 */
import { copyFile, lstat, readFile, rename, rm, symlink } from 'node:fs/promises'
import { dirname, join, relative } from 'node:path'
import { isCode } from './private-file.ts'

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
