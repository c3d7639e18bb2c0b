/**
 * A query of the warehouse with a deadline, for callers that must answer in time.
 *
 * Invariant: ends within its limit, also when the server hangs, and leaves no statement running there.
 */
import type { Kysely } from 'kysely'
import { IntakeError } from '../core/errors.ts'
import { openSession } from './connect.ts'
import { warehouseError } from './sqlstate.ts'
import type { Warehouse } from './tables.ts'

export interface GlanceOptions {
  readonly url: string
  readonly purpose: string
  readonly milliseconds: number
}

export async function glance<Result>(
  { url, purpose, milliseconds }: GlanceOptions,
  look: (db: Kysely<Warehouse>) => Promise<Result>,
): Promise<Result> {
  const begun = performance.now()
  const session = await openSession({
    url,
    purpose,
    connectTimeoutMs: milliseconds,
    planner: [`statement_timeout=${milliseconds}`],
  })
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    const left = Math.max(1, milliseconds - (performance.now() - begun))
    timer = setTimeout(() => reject(tooSlow()), left)
  })
  try {
    return await Promise.race([look(session.db), late])
  } catch (error) {
    throw warehouseError(error)
  } finally {
    clearTimeout(timer)
    // Closing ends a statement that is still running; a server that hangs is not waited for.
    void session.close()
  }
}

function tooSlow(): IntakeError {
  return new IntakeError('the warehouse did not answer in time', {
    code: 'warehouse_slow',
    verdict: 'retry',
    hint: 'look at its load and its locks (pg_stat_activity)',
  })
}
