/** The options of a backfill, and the opened source of one team. */
import { setMaxListeners } from 'node:events'
import type { Logger } from 'pino'
import { type Client, type ClientOptions, openClient } from '../api/client.ts'
import { openServiceClock, type ServiceClock } from '../api/service-clock.ts'
import type { Clock } from '../core/clock.ts'
import type { StreamName } from '../core/streams.ts'
import type { Stream } from '../streams/stream.ts'
import type { WindowOptions } from './scan/window.ts'
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
  options: Pick<BackfillOptions, 'clock' | 'random' | 'logger' | 'signal' | 'version'>,
): OpenTeam {
  const { clock, random, logger } = options
  const giveUp = new AbortController()
  const signal = AbortSignal.any([options.signal, giveUp.signal])
  // Every waiting request adds a listener; many listeners are no leak.
  setMaxListeners(0, signal)
  const { name, teamId, timezone = 'UTC', ...connection } = team
  const version = options.version === undefined ? {} : { version: options.version }
  const client = openClient({ ...connection, ...version, clock, random, logger, signal })
  return {
    name,
    teamId,
    client,
    serviceClock: openServiceClock(),
    timezone,
    signal,
    giveUp: (reason) => giveUp.abort(reason),
    [Symbol.asyncDispose]: () => client.close(),
  }
}
