/**
 * Assigns a tick of the schedule to the process that inserts its row.
 *
 * Invariant: one process takes a tick for each team. The tick stays taken if that process ends, so that a run that a
 * person killed does not start again.
 */
import { sql } from 'kysely'
import { glance } from '../../warehouse/glance.ts'

/** Retention of ticks: longer than the clocks of two processes can differ. */
const KEPT = '30 days'
const LIMIT_MS = 10_000

export interface Tick {
  readonly job: string
  readonly due: Date
  readonly teams: readonly string[]
  /** A UUID of the caller. A repeated call with the same UUID, after a lost response, returns the same teams. */
  readonly by: string
}

/** Returns the teams whose tick the caller took. Deletes old ticks. */
export async function takeTick(url: string, { job, due, teams, by }: Tick): Promise<readonly string[]> {
  return await glance({ url, purpose: 'schedule', milliseconds: LIMIT_MS }, async (db) => {
    await sql`delete from intake_ops.schedule_ticks where due_at < now() - ${KEPT}::interval`.execute(db)
    const { rows } = await sql<{ name: string }>`
      with taken as (
        insert into intake_ops.schedule_ticks as stored (team_id, job, due_at, taken_by)
        select team_id, ${job}, ${due.toISOString()}::timestamptz, ${by}::uuid
        from intake.teams where name = any (${teams}::text[])
        order by team_id
        on conflict (team_id, job, due_at) do update set taken_by = excluded.taken_by
          where stored.taken_by = excluded.taken_by
        returning team_id
      )
      select team.name from taken join intake.teams team using (team_id)`.execute(db)
    return teams.filter((team) => rows.some(({ name }) => name === team))
  })
}
