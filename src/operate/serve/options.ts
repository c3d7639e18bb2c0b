/** What `serve` is given. */
import type { Logger } from 'pino'
import type { Clock } from '../../core/clock.ts'
import type { TeamSource } from '../../extract/backfill-options.ts'
import type { AlertSettings } from '../alerts/round.ts'

export interface Address {
  readonly host: string
  /** 0 takes any. */
  readonly port: number
}

/** A team whose webhooks are received; its service need not be known. */
export interface IngestTeamSource {
  readonly name: string
  readonly webhookSecrets: readonly string[]
}

export interface ServeOptions {
  /** Of the warehouse, which is migrated. */
  readonly url: string
  readonly ingestTeams: readonly IngestTeamSource[]
  /** Those of them whose service can be asked. */
  readonly teams: readonly TeamSource[]
  /** Null: no ingester. */
  readonly ingest: Address | null
  readonly drain: boolean
  /** A cron expression; null: no schedule. */
  readonly cron: string | null
  readonly admin: Address
  readonly inboxDays: number
  /** Under which secrets are stored in the warehouse. */
  readonly encryptionKey: string | null
  /** What the schedule runs, for some of `teams`. */
  readonly backfill: (
    teams: readonly TeamSource[],
    signal: AbortSignal,
    onTeamEnded: (team: string) => void,
  ) => Promise<void>
  /** Null, or left out: nothing is posted. */
  readonly alerts?: AlertSettings | null
  /** Between two looks for alerts. */
  readonly alertsEveryMs?: number
  readonly clock: Clock
  readonly random: () => number
  readonly logger: Logger
  readonly version?: string
}

/** Takes a part into those that are closed at the end. */
export type Use = <Part extends AsyncDisposable>(part: Part) => Part
