/**
 * The team and client of a command that works with one team.
 *
 * Invariant: with several teams configured, such a command requires `--team` and never picks one.
 */
import { type Answer, type Client, type ClientOptions, openClient } from '../api/client.ts'
import { type Config, requireTeams, type TeamConfig } from '../config/config.ts'
import { systemClock } from '../core/clock.ts'
import { isObject, parseJson } from '../core/json.ts'
import { selectTeam } from '../core/which-team.ts'
import { ENDPOINTS } from '../streams/catalogue.ts'
import { type Context, openLogger } from './context.ts'
import { shown } from './terminal/printable.ts'

/** The team that `--team` names, or the only one. Throws `UsageError`. */
export function oneTeam(config: Config, name: string | undefined): TeamConfig {
  return selectTeam(requireTeams(config, name), name, 'configuration')
}

/** Opens a client that the command's signal aborts, unless `own` has another signal. */
export function openService(
  context: Context,
  config: Config,
  team: TeamConfig,
  own: Partial<ClientOptions> = {},
): Client {
  const { name: _name, webhookSecrets: _secrets, timezone: _zone, ...connection } = team
  return openClient({
    ...connection,
    endpoints: ENDPOINTS,
    clock: systemClock,
    random: Math.random,
    logger: openLogger(context, config),
    signal: context.signal,
    version: context.version,
    ...own,
  })
}

/**
 * The service's explanation of a refusal (`detail`) in one line, or null if the body is not JSON or has no explanation. It
 * may quote health data, so it goes to stdout only.
 */
export function detailOf(refusal: Answer): string | null {
  try {
    const { value } = parseJson(refusal.body as Uint8Array)
    return shown(isObject(value) ? (value.detail ?? value) : value) || null
  } catch {
    return null
  }
}
