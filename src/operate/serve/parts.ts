/** Options of `serve`, and the parts of it that process events: the ingester and the drain. */
import type { BlockList } from 'node:net'
import type { Logger } from 'pino'
import type { Clock } from '../../core/clock.ts'
import type { TeamSource } from '../../extract/backfill-options.ts'
import { openRefetcher } from '../../extract/conflicts/refetcher.ts'
import { type Drain, openDrain } from '../../ingest/drain/drain.ts'
import { openSecretSources } from '../../ingest/http/secrets.ts'
import { type Ingester, openIngester } from '../../ingest/http/server.ts'
import type { IngestWatch } from '../../ingest/watch.ts'
import type { Glances } from '../../warehouse/glance.ts'
import type { AlertSettings } from '../alerts/round.ts'
import { openReceived } from '../health/received.ts'
import type { Metrics } from '../health/registry.ts'
import { listenError } from './admin.ts'
import type { Retention } from './retention.ts'

export interface Address {
  readonly host: string
  /** 0 for any free port. */
  readonly port: number
}

/** A team whose webhooks are received; it needs no credentials for the service. */
export interface IngestTeamSource {
  readonly name: string
  readonly webhookSecrets: readonly string[]
}

export interface ServeOptions {
  /** Connection string of a migrated warehouse. */
  readonly url: string
  readonly ingestTeams: readonly IngestTeamSource[]
  /** The subset of `ingestTeams` that has credentials for the service. */
  readonly teams: readonly TeamSource[]
  /** Null to receive no webhooks. */
  readonly ingest: Address | null
  /** Default: null, no proxy is trusted. */
  readonly trustedProxies?: BlockList | null
  readonly drain: boolean
  /** A cron expression; null for no schedule. */
  readonly cron: string | null
  readonly admin: Address
  readonly inboxDays: number
  /** Default: everything is kept for ever. */
  readonly retention?: Retention
  /** Decrypts the secrets that are stored in the warehouse. */
  readonly encryptionKey: string | null
  /** The scheduled job, for a subset of `teams`. */
  readonly backfill: (
    teams: readonly TeamSource[],
    signal: AbortSignal,
    onTeamEnded: (team: string) => void,
  ) => Promise<void>
  /** Default: null, no alerts. */
  readonly alerts?: AlertSettings | null
  /** Interval of alert rounds. */
  readonly alertsEveryMs?: number
  readonly clock: Clock
  readonly random: () => number
  readonly logger: Logger
  readonly version?: string
}

/** Registers a part to be closed at the end, and returns it. */
export type Use = <Part extends AsyncDisposable>(part: Part) => Part

interface Shared {
  readonly options: ServeOptions
  /** Team ids by name. */
  readonly teamIds: ReadonlyMap<string, number>
  readonly metrics: Metrics
}

export interface Draining extends Shared {
  readonly teams: readonly (TeamSource & { readonly teamId: number })[]
}

/** Opens the drain, and a refetcher if any team has credentials for the service. */
export function openDraining({ options, teamIds, teams, metrics }: Draining, use: Use): Drain {
  const { url, clock, logger, random } = options
  const shared = { url, clock, logger, watch: metrics.drain }
  const version = options.version === undefined ? {} : { version: options.version }
  const refetcher = teams.length === 0 ? null : use(openRefetcher({ ...shared, ...version, teams, random }))
  const draining = [...teamIds].map(([name, teamId]) => {
    const team = teams.find((each) => each.name === name)
    return { name, teamId, ...(team === undefined ? {} : { apiVersion: team.apiVersion }) }
  })
  return use(openDrain({ ...shared, teams: draining, onRefetchRequested: () => refetcher?.wake() }))
}

/** Opens the ingester, and the counts from which silence is judged. */
export async function openReceiving(
  {
    options,
    teamIds,
    metrics,
    glances,
    onStored,
  }: Shared & { readonly glances: Glances; readonly onStored: () => void },
  address: Address,
  use: Use,
): Promise<Ingester> {
  const { url, clock, logger, encryptionKey, trustedProxies: proxies = null } = options
  const received = use(openReceived({ glances, logger }))
  const watch: IngestWatch = {
    ...metrics.ingest,
    stored(team, duplicate) {
      metrics.ingest.stored(team, duplicate)
      received.note(team, duplicate)
    },
  }
  const known = options.ingestTeams.map(({ name, webhookSecrets }) => ({
    ...{ name, teamId: teamIds.get(name)!, configured: webhookSecrets },
  }))
  const teams = openSecretSources({ glances, teams: known, encryptionKey, clock, logger })
  try {
    return use(await openIngester({ url, ...address, teams, proxies, clock, logger, watch, onStored }))
  } catch (error) {
    throw listenError(error, 'INTAKE_WEBHOOK_HOST', 'INTAKE_WEBHOOK_PORT', address.port)
  }
}
