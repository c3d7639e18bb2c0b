/** The team that a command means, among those of the warehouse: no command guesses which of several was meant. */
import type { Kysely } from 'kysely'
import { UsageError } from '../../core/errors.ts'
import type { Warehouse } from '../../warehouse/tables.ts'

export interface HeldTeam {
  readonly teamId: number
  readonly name: string
}

/** The one that `--team` names, or the only one. Throws `UsageError`. */
export async function heldTeam(db: Kysely<Warehouse>, name: string | undefined): Promise<HeldTeam> {
  const teams = await heldTeams(db, name)
  if (teams.length === 1) return teams[0]!
  throw new UsageError(
    '--team is needed: the warehouse holds several teams',
    `use one of: ${teams.map((team) => team.name).join(', ')}`,
    '--team',
  )
}

/** All, or the one that `--team` names. Throws `UsageError` when it names none. */
async function heldTeams(db: Kysely<Warehouse>, name: string | undefined): Promise<readonly HeldTeam[]> {
  const rows = await db.selectFrom('intake.teams').select(['team_id', 'name']).orderBy('name').execute()
  const teams = rows.map((row) => ({ teamId: row.team_id, name: row.name }))
  if (teams.length === 0) {
    throw new UsageError('the warehouse holds no team yet', 'run: intake-sync backfill', '--team')
  }
  if (name === undefined) return teams
  const named = teams.filter((team) => team.name === name)
  if (named.length > 0) return named
  throw new UsageError(
    '--team names no team of the warehouse',
    `use one of: ${teams.map((team) => team.name).join(', ')}`,
    '--team',
  )
}
