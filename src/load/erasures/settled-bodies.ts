/**
 * Retention of the bodies of settled dead letters, which are health data: removed with old events.
 *
 * Invariant: the dead letters themselves stay, with reason, record and status; waiting ones keep their bodies.
 */
import { sql } from 'kysely'
import { openSession } from '../../warehouse/connect.ts'
import { warehouseError } from '../../warehouse/sqlstate.ts'

/** Bodies removed by one statement. */
const PORTION = 1_000

/** `days`: INTAKE_INBOX_DAYS. Returns how many were removed. */
export async function removeSettledBodies(
  url: string,
  { days, now }: { readonly days: number; readonly now: Date },
): Promise<number> {
  const before = new Date(now.getTime() - days * 86_400_000).toISOString()
  await using session = await openSession({ url, purpose: 'settled dead letters' })
  try {
    for (let removed = 0; ; ) {
      const { numAffectedRows } = await sql`
        delete from intake_raw.set_aside where dead_letter_id = any(array(
          select body.dead_letter_id
          from intake_ops.dead_letters dead join intake_raw.set_aside body on body.dead_letter_id = dead.id
          where dead.settled_at < ${before} and dead.status <> 'waiting'
          limit ${PORTION}
        ))`.execute(session.db)
      const count = Number(numAffectedRows ?? 0n)
      removed += count
      if (count < PORTION) return removed
    }
  } catch (error) {
    throw warehouseError(error)
  }
}
