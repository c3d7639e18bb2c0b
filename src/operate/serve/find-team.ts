/** Resolves `--team` to a team of the warehouse. Invariant: no command guesses among several teams. */
import type { Kysely } from 'kysely'
import { UsageError } from '../../core/errors.ts'
import type { Warehouse } from '../../warehouse/tables.ts'

export interface WarehouseTeam {
  readonly teamId: number
  readonly name: string
}

/** Returns the team that `--team` names, or the only team. Throws `UsageError`. */
export async function findTeam(db: Kysely<Warehouse>, name: string | undefined): Promise<WarehouseTeam> {
  const teams = await candidates(db, name)
  if (teams.length === 1) return teams[0]!
  throw new UsageError(
    '--team is needed: the warehouse has several teams',
    `use one of: ${teams.map((team) => team.name).join(', ')}`,
    '--team',
  )
}

/** Returns every team, or the one that `--team` names. Throws `UsageError` if there is none. */
async function candidates(
  db: Kysely<Warehouse>,
  name: string | undefined,
): Promise<readonly WarehouseTeam[]> {
  const rows = await db.selectFrom('intake.teams').select(['team_id', 'name']).orderBy('name').execute()
  const teams = rows.map((row) => ({ teamId: row.team_id, name: row.name }))
  if (teams.length === 0) {
    throw new UsageError('the warehouse has no team yet', 'run: intake-sync backfill', '--team')
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
