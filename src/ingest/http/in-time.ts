/**
 * Work in the warehouse with a time limit. A late statement continues there, so its connection cannot be used again.
 *
 * Times are in milliseconds.
 */
import type { Clock } from '../../core/clock.ts'
import { IntakeError } from '../../core/errors.ts'
import type { Session } from '../../warehouse/connect.ts'

/** The code of a failure to answer in time. */
export const TIMED_OUT = 'warehouse_slow'

/** Created once: creating an error for each statement would capture a stack each time. */
const DONE = new Error('done in time')

/** Rejects with `TIMED_OUT` when `work` takes longer. */
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

/** Closes the connection; destroys its socket when the warehouse does not close in time. */
export async function closeWithTimeout(clock: Clock, milliseconds: number, session: Session): Promise<void> {
  try {
    await withTimeout(clock, milliseconds, session.close())
  } catch {
    destroySocket(session)
  }
}

/** Destroys the socket of a connection: everything that waits for its answers fails. */
export function destroySocket({ client }: Session): void {
  const { connection } = client as unknown as { connection: { stream: { destroy(): void } } }
  connection.stream.destroy()
}

export function timedOut(): IntakeError {
  return new IntakeError('the warehouse did not answer in time', {
    code: TIMED_OUT,
    verdict: 'retry',
    hint: 'look at its load and its locks (pg_stat_activity)',
  })
}
