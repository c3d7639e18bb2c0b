/**
 * A private copy of the platform package, readable by everybody, for when the package cannot be used where it lies.
 *
 * Invariant: a directory that has its final name is complete; being killed leaves only a `.draft-…`, which the next
 * copy removes. Called under the start-up lock, so no draft is in use by another process.
 */
import { randomBytes } from 'node:crypto'
import { chmod, copyFile, lstat, mkdir, readdir, readlink, rename, rm, symlink } from 'node:fs/promises'
import { join } from 'node:path'
import type { Home } from './home.ts'
import { makeLibraryLinks } from './library-links.ts'
import type { PostgresPackage } from './package.ts'

/** Copies `from` into the home, unless a whole copy of that version is there; older versions' copies are removed. */
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
