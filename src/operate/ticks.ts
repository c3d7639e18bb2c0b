/**
 * Who runs a moment of the schedule: whoever inserts its row.
 *
 * Invariant: of all processes that share the warehouse one takes a moment, for each team. A process that dies after
 * that leaves the moment taken: a run that was killed is not begun again behind the back of whoever killed it.
 */
import { sql } from 'kysely'
import { openSession } from '../warehouse/connect.ts'
import { warehouseError } from '../warehouse/sqlstate.ts'

/** Longer than two processes' clocks can differ, and long enough to look back. */
const KEPT = '30 days'

/** Of `teams`, those for which the moment `due` of `job` is ours to run. Removes what is old. */
export async function takeTick(
  url: string,
  job: string,
  due: Date,
  teams: readonly string[],
): Promise<readonly string[]> {
  await using session = await openSession({ url, purpose: 'schedule' })
  try {
    await sql`
      delete from intake_ops.schedule_ticks where due_at < now() - ${KEPT}::interval`.execute(session.db)
    const { rows } = await sql<{ name: string }>`
      with taken as (
        insert into intake_ops.schedule_ticks (team_id, job, due_at)
        select team_id, ${job}, ${due.toISOString()}::timestamptz
        from intake.teams where name = any (${teams}::text[])
        order by team_id
        on conflict do nothing
        returning team_id
      )
      select team.name from taken join intake.teams team using (team_id)`.execute(session.db)
    return teams.filter((team) => rows.some(({ name }) => name === team))
  } catch (error) {
    throw warehouseError(error)
  }
}
