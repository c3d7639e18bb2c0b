/** Options of `serve`, and parts of it: the ingester, the drain, and housekeeping. */
import type { BlockList } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Logger } from 'pino'
import type { Clock } from '../../core/clock.ts'
import type { TeamSource } from '../../extract/backfill-options.ts'
import { openRefetcher } from '../../extract/conflicts/refetcher.ts'
import { type Drain, openDrain } from '../../ingest/drain/drain.ts'
import { openSecretSources } from '../../ingest/http/secrets.ts'
import { type Ingester, openIngester } from '../../ingest/http/server.ts'
import { keepInboxDays } from '../../ingest/inbox/days.ts'
import type { IngestWatch } from '../../ingest/watch.ts'
import { removeSettledBodies } from '../../load/erased-dead-letters.ts'
import type { BoundedQueries } from '../../warehouse/bounded-queries.ts'
import { warehouseError } from '../../warehouse/sqlstate.ts'
import type { AlertSettings } from '../alerts/round.ts'
import { dropOldCounts, openReceived } from '../health/received.ts'
import type { Metrics } from '../health/registry.ts'
import { settleDeliveries } from '../health/silence-signs.ts'
import { listenError } from './admin.ts'
import { openRetention, prune, type Retention } from './retention.ts'
import type { MissedTimes } from './schedule.ts'

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
  /** Default: scheduled times that no process took are skipped. */
  readonly cronMissed?: MissedTimes
  /** To execute slices of planned runs; default: null, not. */
  readonly work?: { readonly concurrency?: number } | null
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
    bounded,
    onStored,
  }: Shared & { readonly bounded: BoundedQueries; readonly onStored: () => void },
  address: Address,
  use: Use,
): Promise<Ingester> {
  const { url, clock, logger, encryptionKey, trustedProxies: proxies = null } = options
  const received = use(openReceived({ bounded, logger }))
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
  const teams = openSecretSources({ bounded, teams: known, encryptionKey, clock, logger })
  try {
    return use(await openIngester({ url, ...address, teams, proxies, clock, logger, watch, onStored }))
  } catch (error) {
    throw listenError(error, 'INTAKE_WEBHOOK_HOST', 'INTAKE_WEBHOOK_PORT', address.port)
  }
}

const HOUR_MS = 3_600_000
/** Retention of one round; the next goes on. */
const PRUNE_MS = 600_000
/** Closing waits this long for a round in progress; each of its statements is atomic. */
const CLOSE_MS = 5_000

export interface HousekeepingOptions {
  readonly url: string
  readonly inboxDays: number
  /** Default: everything is kept for ever. */
  readonly retention?: Retention | undefined
  readonly logger: Logger
}

/**
 * Hourly housekeeping: creates partitions of the inbox ahead of time, and drops old events, old bodies of dead letters, old
 * counts, and what is older than its retention. Resolves after the first round.
 *
 * Invariant: no other part waits for it. A failure is retried after an hour. Several processes may run it concurrently.
 */
export async function openHousekeeping(options: HousekeepingOptions): Promise<AsyncDisposable> {
  let working = runHousekeeping(options)
  await working
  const timer = setInterval(() => {
    working = working.then(() => runHousekeeping(options))
  }, HOUR_MS)
  timer.unref()
  return {
    [Symbol.asyncDispose]: async () => {
      clearInterval(timer)
      const timeout = new AbortController()
      await Promise.race([working, sleep(CLOSE_MS, undefined, timeout).catch(() => {})])
      timeout.abort()
    },
  }
}

/** Never throws. */
async function runHousekeeping({ url, inboxDays, retention, logger }: HousekeepingOptions): Promise<void> {
  try {
    const age = { days: inboxDays, now: new Date() }
    const done = await keepInboxDays(url, age)
    if (done.dropped > 0 || done.moved > 0) logger.info(done, 'old days of the inbox dropped')
    await using session = await openRetention(url)
    const { db } = session
    const bodies = await removeSettledBodies(db, age)
    if (bodies > 0) logger.info({ bodies }, 'old bodies of dead letters removed')
    await dropOldCounts(url)
    if (retention !== undefined) {
      const pruned = await prune({ ...retention, db, now: age.now, forMs: PRUNE_MS })
      if (Object.values(pruned).some((count) => count > 0)) logger.info(pruned, 'expired rows removed')
    }
    await settleDeliveries(db, inboxDays)
  } catch (error) {
    logger.warn({ code: warehouseError(error).code }, 'housekeeping failed; retried in an hour')
  }
}
