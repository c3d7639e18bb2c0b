/**
 * Temporary folders of tests, named for the process that makes them.
 *
 * Invariant: removing a folder also removes the embedded server that was set up in it, even when that server's files are
 * elsewhere because its user cannot reach the folder. Folders of processes that have ended are removed, unless a server runs in them.
 */
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { identityOf } from '../../src/embedded/process-identity.ts'

const NAME = /^intake-sync-test-(\d+)-/
/** Points to the server's files: src/embedded/home.ts. */
const POINTER = 'server-files-are-in'
/** The first set-up may still be writing after its command was killed. */
const REMOVE = { recursive: true, force: true, maxRetries: 20, retryDelay: 100 } as const

export function makeFolder(purpose = '', place: string = tmpdir()): string {
  return mkdtempSync(join(place, `intake-sync-test-${process.pid}-${purpose}`))
}

export function removeFolder(folder: string): void {
  for (const path of [...serversOf(folder), folder]) rmSync(path, REMOVE)
}

/** Folders in `place` whose runs were killed. Their servers stop on their own. */
export function removeForgotten(place: string): void {
  for (const entry of readdirSync(place)) {
    const maker = NAME.exec(entry)?.[1]
    if (maker === undefined || identityOf(Number(maker)) !== undefined) continue
    const folder = join(place, entry)
    if (statSync(folder, { throwIfNoEntry: false })?.uid !== process.getuid?.()) continue
    try {
      if (![folder, ...serversOf(folder)].some(isServed)) removeFolder(folder)
    } catch {
      // Another run removes it at the same time; a later run skips or removes it.
    }
  }
}

/** Folders outside `folder` where its servers keep their files. */
function serversOf(folder: string, depth = 0): readonly string[] {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name)
    if (entry.name === POINTER) return [readFileSync(path, 'utf8').trim()]
    return entry.isDirectory() && entry.name !== 'cluster' && depth < 4 ? serversOf(path, depth + 1) : []
  })
}

/** True if Postgres runs on the files in `home`. */
function isServed(home: string): boolean {
  try {
    const [pid] = readFileSync(join(home, 'cluster', 'postmaster.pid'), 'utf8').split('\n')
    return identityOf(Number(pid)) !== undefined
  } catch {
    return false
  }
}
