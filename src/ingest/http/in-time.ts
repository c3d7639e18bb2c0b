/**
 * Work in the warehouse with a time limit. A late statement continues there, so its connection cannot be used again.
 *
 * Times are in milliseconds.
 */
import type { Clock } from '../../core/clock.ts'
import { timedOut } from '../../warehouse/bounded-queries.ts'

/** Created once: creating an error for each statement would capture a stack each time. */
const DONE = new Error('done in time')

/** Rejects with `timedOut` when `work` takes longer. */
export async function withTimeout<Result>(
  clock: Clock,
  milliseconds: number,
  work: Promise<Result>,
): Promise<Result> {
  const done = new AbortController()
  const late = clock.sleep(milliseconds, done.signal).then(() => {
    throw timedOut()
  })
  late.catch(() => {})
  work.catch(() => {})
  try {
    return await Promise.race([work, late])
  } finally {
    done.abort(DONE)
  }
}
