/** The zone in which a transaction's times without one are read. */
import type pg from 'pg'
import { IntakeError } from '../../core/errors.ts'
import { sqlstateOf } from '../../warehouse/sqlstate.ts'

const INVALID_PARAMETER = '22023'

/**
 * Until the end of the transaction. What Postgres makes of a time that a clock skips or shows twice is what
 * `timestamp at time zone` makes of it. Throws when this Postgres does not know the zone.
 */
export async function useZone(client: pg.Client, zone: string): Promise<void> {
  try {
    await client.query("select set_config('timezone', $1, true)", [zone])
  } catch (error) {
    if (sqlstateOf(error) !== INVALID_PARAMETER) throw error
    throw new IntakeError(`the warehouse does not know the time zone ${zone}`, {
      code: 'unknown_zone',
      verdict: 'stop',
      hint: 'set INTAKE_TIMEZONE to a name of pg_timezone_names',
    })
  }
}
