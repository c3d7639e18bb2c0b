/**
 * Small files that only their owner may read: the password, the state of a running server, locks.
 *
 * Invariant: a reader sees all of a file or none of it, whoever is killed while writing; and each file belongs to
 * the owner of its directory, so that a command run by root does not lock an ordinary user out of the data.
 */
import { randomBytes } from 'node:crypto'
import { chown, link, open, readFile, rename, rm, stat } from 'node:fs/promises'
import { dirname } from 'node:path'

/** Writes `text`, in place of what was there. */
export async function writePrivate(path: string, text: string): Promise<void> {
  const draft = await writeDraft(path, text)
  await rename(draft, path)
}

/** Writes `text` unless the file exists already. True when this call created it; one of many callers does. */
export async function createPrivate(path: string, text: string): Promise<boolean> {
  const draft = await writeDraft(path, text)
  try {
    await link(draft, path)
    return true
  } catch (error) {
    if (isCode(error, 'EEXIST')) return false
    throw error
  } finally {
    await rm(draft, { force: true })
  }
}

/** The text of a file; undefined when there is none. */
export async function readIfThere(path: string): Promise<string | undefined> {
  try {
    return await readFile(path, 'utf8')
  } catch (error) {
    if (isCode(error, 'ENOENT')) return undefined
    throw error
  }
}

export function isCode(error: unknown, ...codes: string[]): boolean {
  return error instanceof Error && codes.includes((error as NodeJS.ErrnoException).code ?? '')
}

/** Gives what root made in another user's directory to that user. */
export async function giveToOwnerOfDirectory(path: string): Promise<void> {
  if (process.getuid?.() !== 0) return
  const { uid, gid } = await stat(dirname(path))
  await chown(path, uid, gid)
}

async function writeDraft(path: string, text: string): Promise<string> {
  const draft = `${path}.draft-${process.pid}-${randomBytes(4).toString('hex')}`
  const file = await open(draft, 'wx', 0o600)
  try {
    await file.writeFile(text)
    await file.sync()
  } finally {
    await file.close()
  }
  await giveToOwnerOfDirectory(draft)
  return draft
}
