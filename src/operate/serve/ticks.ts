/**
 * Who runs a moment of the schedule: whoever inserts its row.
 *
 * Invariant: of all processes that share the warehouse one takes a moment, for each team. A process that dies after
 * that leaves the moment taken: a run that was killed is not begun again behind the back of whoever killed it.
 */
import { sql } from 'kysely'
import { glance } from '../../warehouse/glance.ts'

/** Longer than two processes' clocks can differ, and long enough to look back. */
const KEPT = '30 days'
const LIMIT_MS = 10_000

export interface Tick {
  readonly job: string
  readonly due: Date
  readonly teams: readonly string[]
  /** A UUID of whoever asks: who asks twice, because an answer was lost, gets the same twice. */
  readonly by: string
}

/** Of the teams, those for which the moment is ours to run. Removes what is old. */
export async function takeTick(url: string, { job, due, teams, by }: Tick): Promise<readonly string[]> {
  return await glance({ url, purpose: 'schedule', milliseconds: LIMIT_MS }, async (db) => {
    await sql`delete from intake_ops.schedule_ticks where due_at < now() - ${KEPT}::interval`.execute(db)
    const { rows } = await sql<{ name: string }>`
      with taken as (
        insert into intake_ops.schedule_ticks as held (team_id, job, due_at, taken_by)
        select team_id, ${job}, ${due.toISOString()}::timestamptz, ${by}::uuid
        from intake.teams where name = any (${teams}::text[])
        order by team_id
        on conflict (team_id, job, due_at) do update set taken_by = excluded.taken_by
          where held.taken_by = excluded.taken_by
        returning team_id
      )
      select team.name from taken join intake.teams team using (team_id)`.execute(db)
    return teams.filter((team) => rows.some(({ name }) => name === team))
  })
}
