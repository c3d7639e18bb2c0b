/** The teams of the warehouse, independent of the configuration. */
import { UsageError } from '../../core/errors.ts'
import { isRemoved } from '../../load/teams.ts'
import type { Session } from '../../warehouse/connect.ts'

export interface KnownTeam {
  readonly teamId: number
  readonly name: string
}

/** The named team, or all, without removed teams. Throws `UsageError` for an unknown name. */
export async function teamsNamed({ db }: Session, name?: string): Promise<readonly KnownTeam[]> {
  const all = await db
    .selectFrom('intake.teams')
    .select(['team_id as teamId', 'name'])
    .where(({ ref, not }) => not(isRemoved(ref('intake.teams.team_id'))))
    .orderBy('team_id')
    .execute()
  const named = name === undefined ? all : all.filter((team) => team.name === name)
  if (name === undefined || named.length > 0) return named
  const known = all.map((team) => team.name).join(', ')
  throw new UsageError(
    '--team names no team of the warehouse',
    `use one of: ${known || '(none yet)'}`,
    '--team',
  )
}
