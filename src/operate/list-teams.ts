/**
 * Reads the teams of a warehouse for `teams list`: counts and times.
 *
 * Invariant: reads kept counts, so that it takes no longer with more records.
 */
import { sql } from 'kysely'
import { openSession } from '../warehouse/connect.ts'
import { warehouseError } from '../warehouse/sqlstate.ts'

export interface ListedTeam {
  readonly name: string
  readonly team_id: number
  readonly environment: string | null
  /** Records of all streams that are not tombstones. */
  readonly rows: number
  readonly pending_events: number
  /** Start of the newest run that included the team. */
  readonly last_run_at: string | null
  /** Null unless the team was removed. */
  readonly removed_at: string | null
  /** Whether a removed team's data is kept. `deleted`: the deletion has not finished; after that the team is not listed. */
  readonly data: 'kept' | 'deleted' | null
}

export async function listTeams(url: string): Promise<readonly ListedTeam[]> {
  await using session = await openSession({ url, purpose: 'teams list' })
  try {
    const { rows } = await sql<ListedTeam>`
      select team.name, team.team_id, team.environment,
        (select coalesce(sum(live), 0)::int from intake_ops.record_counts counts
          where counts.team_id = team.team_id) as rows,
        (select count(*)::int from intake_raw.inbox event
          where event.team_id = team.team_id and event.status = 'pending') as pending_events,
        (select to_json(max(run.started_at)) #>> '{}'
          from intake_ops.run_streams part join intake_ops.runs run using (run_id)
          where part.team_id = team.team_id) as last_run_at,
        to_json(removed.removed_at) #>> '{}' as removed_at, removed.data
      from intake.teams team left join intake_ops.removed_teams removed using (team_id)
      order by team.name`.execute(session.db)
    return rows
  } catch (error) {
    throw warehouseError(error)
  }
}
