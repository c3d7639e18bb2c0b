/**
 * A lock file: one process at a time sets a server up.
 *
 * Invariant: the lock belongs to a process identity and ends with it: the next process sees that the holder was killed.
 * Postgres also locks its data directory, so a failure of this lock could cost time but not data.
 */
import { randomBytes } from 'node:crypto'
import { link, rename, rm } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { IntakeError } from '../core/errors.ts'
import { createPrivate, isCode, readIfThere } from './private-file.ts'
import { identityOf, isRunning } from './process-identity.ts'

const POLL_MILLISECONDS = 50

/** Runs `action` while holding the lock file `path`; waits for another live holder at most `timeoutMs`. */
export async function withLock<T>(path: string, timeoutMs: number, action: () => Promise<T>): Promise<T> {
  const mine = `${identityOf(process.pid)}\n${randomBytes(8).toString('hex')}`
  const deadline = Date.now() + timeoutMs
  while (!(await createPrivate(path, mine))) {
    const holder = await readIfThere(path)
    if (holder === undefined) continue
    if (!isRunning(holder.split('\n')[0]!)) {
      await remove(path, holder)
      continue
    }
    if (Date.now() > deadline) throw busy(path)
    await sleep(POLL_MILLISECONDS)
  }
  try {
    return await action()
  } finally {
    await remove(path, mine)
  }
}

/** Removes the lock if it still is `expected`. Renaming first makes sure that only one process removes it. */
async function remove(path: string, expected: string): Promise<void> {
  const aside = `${path}.released-${process.pid}-${randomBytes(4).toString('hex')}`
  try {
    await rename(path, aside)
  } catch (error) {
    if (isCode(error, 'ENOENT')) return
    throw error
  }
  if ((await readIfThere(aside)) !== expected) {
    // Another process was faster, and this is already the next holder's lock: put it back.
    await link(aside, path).catch(() => undefined)
  }
  await rm(aside, { force: true })
}

function busy(path: string): IntakeError {
  return new IntakeError(`another process has been starting the embedded Postgres for too long (${path})`, {
    code: 'embedded_busy',
    verdict: 'retry',
    hint: 'Check whether an intake-sync process hangs; the lock is released when that process ends.',
  })
}
