/** The teams of a replay: of the warehouse, whatever the configuration has. */
import { teamsAskedFor } from '../../core/which-team.ts'
import type { Session } from '../../warehouse/connect.ts'
import { readTeams, type WarehouseTeam } from '../../warehouse/teams.ts'

/** The team that `--team` names, or all, by number; removed teams are none. Throws `UsageError`. */
export async function teamsToReplay({ db }: Session, name?: string): Promise<readonly WarehouseTeam[]> {
  const teams = (await readTeams(db)).filter(({ isRemoved }) => !isRemoved)
  return [...teamsAskedFor(teams, name, 'warehouse')].sort((a, b) => a.teamId - b.teamId)
}
