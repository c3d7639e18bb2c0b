/**
 * The teams of the warehouse, whether or not the configuration has them.
 *
 * Invariant: a removed team is listed as removed as long as its data is kept.
 */
import { type Kysely, sql } from 'kysely'
import { selectTeam } from '../core/which-team.ts'
import { openSession } from './connect.ts'
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
