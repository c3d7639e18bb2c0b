/**
 * The service as one command sees it: the one team that was meant, and a client for it.
 *
 * Invariant: a command that asks the service for one thing never guesses which of several teams was meant.
 */
import { type Client, type ClientOptions, openClient } from '../api/client.ts'
import { type Config, requireTeams, type TeamConfig } from '../config/config.ts'
import { systemClock } from '../core/clock.ts'
import { UsageError } from '../core/errors.ts'
import { type Context, openLogger } from './context.ts'

/** The team that `--team` names, or the only one. Throws `UsageError`. */
export function oneTeam(config: Config, name: string | undefined): TeamConfig {
  const teams = requireTeams(config, name)
  if (teams.length === 1) return teams[0]!
  throw new UsageError(
    '--team is needed: the configuration holds several teams',
    `use one of: ${teams.map((team) => team.name).join(', ')}`,
    '--team',
  )
}

/** Ends with the command, or when its signal comes, unless `own` has another. */
export function openService(
  context: Context,
  config: Config,
  team: TeamConfig,
  own: Partial<ClientOptions> = {},
): Client {
  const { name: _name, webhookSecrets: _secrets, timezone: _zone, ...connection } = team
  return openClient({
    ...connection,
    clock: systemClock,
    random: Math.random,
    logger: openLogger(context, config),
    signal: context.signal,
    version: context.version,
    ...own,
  })
}
