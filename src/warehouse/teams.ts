/**
 * The teams of the warehouse, whether or not the configuration has them.
 *
 * Invariant: a removed team is listed as removed as long as its data is kept.
 */
import { type Kysely, sql } from 'kysely'
import { selectTeam } from '../core/which-team.ts'
import { openSession } from './connect.ts'
import { warehouseError } from './sqlstate.ts'
import type { Warehouse } from './tables.ts'

export interface WarehouseTeam {
  readonly teamId: number
  readonly name: string
  /** Removed with `teams remove`; its data may be there. */
  readonly isRemoved: boolean
}

/** By name. */
export async function readTeams(db: Kysely<Warehouse>): Promise<readonly WarehouseTeam[]> {
  const { rows } = await sql<WarehouseTeam>`
    select team.team_id as "teamId", team.name, removed.team_id is not null as "isRemoved"
    from intake.teams team left join intake_ops.removed_teams removed using (team_id)
    order by team.name`.execute(db)
  return rows
}

/** The team that `--team` names, or the only one of the warehouse. Throws `UsageError`. */
export async function warehouseTeam(url: string, name: string | undefined): Promise<WarehouseTeam> {
  await using session = await openSession({ url, purpose: 'teams' })
  return selectTeam(await readTeams(session.db), name, 'warehouse')
}

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

/** For `teams list`: from kept counts, so that it takes no longer with more records. */
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
