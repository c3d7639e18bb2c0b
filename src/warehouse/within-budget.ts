/**
 * One query among several of a session, with its own time limit.
 *
 * Invariant: a query that takes longer, or waits for a lock that long, is canceled and returns null; the session stays
 * usable. Any other error is thrown.
 */
import { type Kysely, sql } from 'kysely'
import { SQLSTATE, sqlstateOf } from './sqlstate.ts'
import type { Warehouse } from './tables.ts'

export async function withinBudget<Result>(
  db: Kysely<Warehouse>,
  milliseconds: number,
  look: (db: Kysely<Warehouse>) => Promise<Result>,
): Promise<Result | null> {
  await sql`
    select set_config('statement_timeout', own.value, false), set_config('lock_timeout', own.value, false)
    from (values (${String(Math.max(1, Math.ceil(milliseconds)))}::text)) as own (value)`.execute(db)
  try {
    return await look(db)
  } catch (error) {
    const state = sqlstateOf(error)
    if (state === SQLSTATE.queryCanceled || state === SQLSTATE.lockNotAvailable) return null
    throw error
  } finally {
    await sql`
      select set_config(name, reset_val, false) from pg_settings where name in ('statement_timeout', 'lock_timeout')`
      .execute(db)
      .catch(() => {})
  }
}
