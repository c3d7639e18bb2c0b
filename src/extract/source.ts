/** Everything that reading one stream of one team needs. */
import type { Logger } from 'pino'
import type { Client, Meter } from '../api/client.ts'
import type { ServiceClock } from '../api/service-clock.ts'
import type { Clock } from '../core/clock.ts'
import type { loadBatch } from '../load/merge/load.ts'
import type { Loaders } from '../load/merge/loaders.ts'
import type { Step } from '../load/run-progress.ts'
import type { TakenSlice } from '../load/slice.ts'
import type { Stream } from '../streams/stream.ts'

export interface Source {
  /** Name of the team, for the log. */
  readonly team: string
  readonly client: Client
  readonly serviceClock: ServiceClock
  readonly clock: Clock
  readonly logger: Logger
  readonly signal: AbortSignal
  readonly loaders: Loaders
  /** Of the warehouse, for work that would occupy the loaders too long. */
  readonly url: string
  /** IANA name of the time zone of the team's exports. */
  readonly timezone: string
  readonly stream: Stream
  readonly taken: TakenSlice
  /** Loads a batch, or only compares it where nothing may be written. */
  readonly load: typeof loadBatch
  readonly meter: Meter
  readonly tally: Tally
  readonly step: Step
  /** Failures of fetches by id. */
  readonly failedFetches: FailedFetches
  /** Called after each page and batch. */
  readonly onProgress: (progress: Progress) => void
}

/** Failures of fetches by id of one team and stream: enough in a row stop the stream. */
export interface FailedInRow {
  /** Requests in a row that did not return the record or file. */
  inRow: number
}

/** Those of a run, which reports the ids. */
export interface FailedFetches extends FailedInRow {
  /** Ids that are to be fetched later, each with the reason. */
  readonly later: Map<string, string>
}

/** Counts of a stream in a run. */
export interface Tally {
  fetched: number
  changed: number
  unchanged: number
  deleted: number
  /** Records of erased patients, which are skipped. */
  erased: number
  deadLetters: number
  problems: number
}

export interface Progress {
  readonly fetched: number
  /** The service's count, or null where it gives none. */
  readonly expected: number | null
}

export function emptyTally(): Tally {
  return { fetched: 0, changed: 0, unchanged: 0, deleted: 0, erased: 0, deadLetters: 0, problems: 0 }
}
