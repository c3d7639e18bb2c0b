/** Options of `serve`. */
import type { Logger } from 'pino'
import type { Clock } from '../../core/clock.ts'
import type { TeamSource } from '../../extract/backfill-options.ts'
import type { AlertSettings } from '../alerts/round.ts'

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
  readonly drain: boolean
  /** A cron expression; null for no schedule. */
  readonly cron: string | null
  readonly admin: Address
  readonly inboxDays: number
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
