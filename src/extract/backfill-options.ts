/**
 * The options of a backfill, and its teams: numbered, locked, opened.
 *
 * Invariant: every stream of every team is locked before the first request, or nothing starts; a scheduled run leaves
 * out teams that it cannot lock.
 */
import { createHash } from 'node:crypto'
import { setMaxListeners } from 'node:events'
import type { Logger } from 'pino'
import { openLimiter } from '../api/budget/limiter.ts'
import { type Client, type ClientOptions, openClient } from '../api/client.ts'
import { openServiceClock, type ServiceClock } from '../api/service-clock.ts'
import type { Clock } from '../core/clock.ts'
import type { StreamName } from '../core/envelope.ts'
import type { Budgets } from '../load/budgets.ts'
import { lockStreams } from '../load/runs.ts'
import { isRemovedError, noteTimezone, restoreTeam, teamIdOf } from '../load/teams.ts'
import { ENDPOINTS } from '../streams/catalogue.ts'
import type { Stream } from '../streams/stream.ts'
import type { Session } from '../warehouse/connect.ts'
import { warehouseError } from '../warehouse/sqlstate.ts'
import type { WindowOptions } from './reading/window.ts'
import type { Progress } from './source.ts'

/** One team of the service: its address and credentials. */
export interface TeamSource
  extends Pick<
    ClientOptions,
    | 'baseUrl'
    | 'apiKey'
    | 'apiSecret'
    | 'apiVersion'
    | 'concurrency'
    | 'paths'
    | 'bodyKeys'
    | 'pageSize'
    | 'limiter'
    | 'giveUpAfterMs'
    | 'rateLimit'
    | 'wire'
  > {
  readonly name: string
  /** Time zone of its exports; UTC by default. */
  readonly timezone?: string
}

export interface BackfillOptions {
  /** Of the warehouse. */
  readonly url: string
  readonly teams: readonly TeamSource[]
  readonly streams: readonly Stream[]
  readonly allowMassDelete: boolean
  readonly window: WindowOptions
  /** Fetch and compare, write nothing. */
  readonly dry: boolean
  /**
   * True for a run that no person waits for: a team that was removed, or that another run has locked, is left out, and the
   * others are read. A run that a person starts reads all of its teams or none, and restores a removed one.
   */
  readonly isScheduled?: boolean
  /** False when the warehouse has no tables yet, as a dry run may find it. */
  readonly migrated: boolean
  readonly clock: Clock
  readonly random: () => number
  readonly logger: Logger
  readonly signal: AbortSignal
  readonly version?: string
  /** Where processes share the request budgets of teams; by default each team without a `limiter` has one of this run. */
  readonly budgets?: Budgets
  readonly onProgress: (team: string, stream: StreamName, progress: Progress) => void
  /** Called when a team's part of the run is over: another run may begin with the team. */
  readonly onTeamEnded?: (team: string) => void
}

export interface OpenTeam extends AsyncDisposable {
  readonly name: string
  readonly teamId: number
  readonly client: Client
  readonly serviceClock: ServiceClock
  readonly timezone: string
  readonly signal: AbortSignal
  /** Ends every stream of the team with this reason: its credentials were refused, say. */
  giveUp(reason: unknown): void
}

export function openTeam(
  team: TeamSource & { readonly teamId: number },
  options: Pick<BackfillOptions, 'clock' | 'random' | 'logger' | 'signal' | 'version' | 'budgets'>,
): OpenTeam {
  const { clock, random, logger } = options
  const giveUp = new AbortController()
  const signal = AbortSignal.any([options.signal, giveUp.signal])
  // Every waiting request adds a listener; many listeners are no leak.
  setMaxListeners(0, signal)
  const { name, teamId, timezone = 'UTC', ...connection } = team
  const version = options.version === undefined ? {} : { version: options.version }
  const open = () => {
    const store = options.budgets?.ofTeam(teamId)
    return openLimiter({ ...connection, store, clock, logger, team: name })
  }
  const limiter = team.limiter ?? open()
  const client = openClient({
    ...connection,
    ...version,
    limiter,
    endpoints: ENDPOINTS,
    clock,
    random,
    logger,
    signal,
  })
  return {
    name,
    teamId,
    client,
    serviceClock: openServiceClock(),
    timezone,
    signal,
    giveUp: (reason) => giveUp.abort(reason),
    async [Symbol.asyncDispose]() {
      await client.close()
      if (team.limiter === undefined) await limiter.close()
    },
  }
}

/** Equal in processes that read the team from the same address, with the same credentials and settings. */
export function fingerprintOf(team: TeamSource): string {
  const { name, baseUrl, apiKey, apiSecret, apiVersion, paths, bodyKeys, timezone } = team
  return hashOf([name, baseUrl, apiKey, apiSecret, apiVersion, paths, bodyKeys, timezone])
}

/** Where a team's records are: the address, and the key that identifies the team there (specification, section 5). */
export type TeamPlace = Pick<TeamSource, 'name' | 'baseUrl' | 'apiKey'>

/** Equal in processes for which the name means the same team of the same service, also when its secret changes. */
export function placeHashOf({ name, baseUrl, apiKey }: TeamPlace): string {
  return hashOf([name, baseUrl.replace(/\/+$/, ''), apiKey])
}

/** The sources that slices may name for a process with this team to execute them. */
export const sourcesOf = (team: TeamSource): readonly string[] => [fingerprintOf(team), placeHashOf(team)]

function hashOf(parts: readonly unknown[]): string {
  return createHash('sha256').update(JSON.stringify(parts)).digest('hex').slice(0, 16)
}

export interface NumberedTeam extends TeamSource {
  readonly teamId: number
}

/** The teams of a run with their numbers in the warehouse. */
export async function numberTeams(
  options: BackfillOptions,
  control: Session,
): Promise<readonly NumberedTeam[]> {
  const numbered: NumberedTeam[] = []
  for (const team of options.teams) {
    const teamId = options.dry
      ? await knownTeamId(options, control, team.name)
      : await numberOf(options, control, team.name)
    if (teamId === null) continue
    if (!options.dry) await noteTimezone(control.db, teamId, team.timezone ?? 'UTC')
    numbered.push({ ...team, teamId })
  }
  return numbered
}

/** Locks the streams of the teams; returns the teams that are locked now. */
export async function lockTeams(
  { isScheduled = false, streams, logger }: BackfillOptions,
  control: Session,
  teams: readonly NumberedTeam[],
): Promise<readonly NumberedTeam[]> {
  if (!isScheduled || teams.length < 2) {
    await lockStreams(control, streams, teams, { replaces: !isScheduled })
    return teams
  }
  const locked: NumberedTeam[] = []
  for (const team of teams) {
    try {
      await lockStreams(control, streams, [team])
      locked.push(team)
    } catch (error) {
      const { code, message } = warehouseError(error)
      if (code !== 'held_by_another_run') throw error
      logger.warn({ team: team.name }, `left out: ${message}`)
    }
  }
  return locked
}

/** Null for a team that was removed and is left out. */
async function numberOf(
  { isScheduled = false, logger }: BackfillOptions,
  control: Session,
  name: string,
): Promise<number | null> {
  if (!isScheduled) return await restoreTeam(control, name)
  try {
    return await teamIdOf(control.db, name)
  } catch (error) {
    if (!isRemovedError(error)) throw error
    logger.warn({ team: name }, 'left out: the team was removed; restart with a configuration without it')
    return null
  }
}

/** A dry run assigns no ids: a team that the warehouse does not know has no rows there. */
async function knownTeamId(options: BackfillOptions, control: Session, name: string): Promise<number> {
  if (!options.migrated) return -1
  const known = await control.db
    .selectFrom('intake.teams')
    .select('team_id')
    .where('name', '=', name)
    .executeTakeFirst()
  return known?.team_id ?? -1
}
