/**
 * Which team is meant, by a request or by a command: the one place that decides it.
 *
 * Invariant: nothing guesses among several teams, and an error lists those that could be meant. After that, a team is
 * its number in the warehouse.
 */
import { UsageError } from './errors.ts'

interface Named {
  readonly name: string
}

/** Where the teams are listed. */
export type Listed = 'configuration' | 'warehouse'

/** The team of `POST /webhooks/{name}`; without a name, the only team, or the one named `default`. */
export function teamOfRequest<Team extends Named>(
  teams: readonly Team[],
  name: string | undefined,
): Team | undefined {
  if (name === undefined && teams.length === 1) return teams[0]
  return teams.find((team) => team.name === (name ?? 'default'))
}

/** Every team, or the one that an argument names. Throws `UsageError` if there is none. */
export function selectTeams<Team extends Named>(
  teams: readonly Team[],
  name: string | undefined,
  listed: Listed,
  argument = '--team',
): readonly Team[] {
  if (name === undefined) return teams
  const named = teams.filter((team) => team.name === name)
  if (named.length > 0) return named
  throw new UsageError(
    `the ${listed} has no team "${name}"`,
    teams.length === 0 ? NONE_YET : `use one of: ${namesOf(teams)}`,
    argument,
    'unknown_team',
  )
}

/** The team that `--team` names, or the only one. Throws `UsageError`. */
export function selectTeam<Team extends Named>(
  teams: readonly Team[],
  name: string | undefined,
  listed: Listed,
): Team {
  const [team, ...others] = selectTeams(teams, name, listed)
  if (team === undefined)
    throw new UsageError('the warehouse has no team yet', NONE_YET, '--team', 'unknown_team')
  if (others.length === 0) return team
  throw new UsageError(
    `the ${listed} has several teams: name one with --team`,
    `use one of: ${namesOf(teams)}`,
    '--team',
    'unknown_team',
  )
}

const NONE_YET = 'run intake-sync backfill, which creates the teams of the configuration'

function namesOf(teams: readonly Named[]): string {
  return teams.map((team) => team.name).join(', ')
}
