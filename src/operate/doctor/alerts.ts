/** Checks that alerts are posted and accepted. Invariant: posts nothing, and shows no part of the URL. */
import { sql } from 'kysely'
import type { Session } from '../../warehouse/connect.ts'
import { type Check, ok, warning } from './check.ts'

/** Null if no URL is set. */
export type AlertSecret = { readonly secret: string | null } | null

export async function alertsCheck(session: Session | null, alerts: AlertSecret): Promise<Check> {
  if (alerts === null) return ok('alerts', 'off: INTAKE_ALERT_URL is not set')
  if (session !== null) {
    const { rows } = await sql<{ waiting: number; attempts: number }>`
      select count(*)::int as waiting, coalesce(max(attempts), 0)::int as attempts
      from intake_ops.alerts where attempts > 0`.execute(session.db)
    const { waiting, attempts } = rows[0]!
    const hint = 'check INTAKE_ALERT_URL, and that its receiver is running'
    if (waiting > 0)
      return warning('alerts', `${waiting} could not be posted, tried ${attempts} time(s)`, hint)
  }
  if (alerts.secret !== null) return ok('alerts', 'posted to INTAKE_ALERT_URL, signed')
  const hint = 'set INTAKE_ALERT_SECRET, so that the receiver can verify the sender'
  return warning('alerts', 'posted to INTAKE_ALERT_URL without a signature', hint)
}
