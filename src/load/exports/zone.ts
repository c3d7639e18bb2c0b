/** The time zone in which a transaction reads times without a zone. */
import type pg from 'pg'
import { IntakeError } from '../../core/errors.ts'
import { sqlstateOf } from '../../warehouse/sqlstate.ts'

const INVALID_PARAMETER = '22023'

/**
 * Applies until the end of the transaction. Postgres reads local times that are skipped or repeated as `timestamp at time
 * zone` does. Throws if Postgres does not know the zone.
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
