/** What reading one stream of one team needs: handed down, never looked up. */
import type { Logger } from 'pino'
import type { Client, Meter } from '../api/client.ts'
import type { ServiceClock } from '../api/service-clock.ts'
import type { Clock } from '../core/clock.ts'
import type { loadBatch } from '../load/load.ts'
import type { Loaders } from '../load/loaders.ts'
import type { TakenSlice } from '../load/slice.ts'
import type { Stream } from '../streams/stream.ts'

export interface Source {
  readonly client: Client
  readonly serviceClock: ServiceClock
  readonly clock: Clock
  readonly logger: Logger
  readonly signal: AbortSignal
  readonly loaders: Loaders
  /** Of the warehouse, for work that would hold the loaders too long. */
  readonly url: string
  /** IANA name of the zone that the team's exports tell times in. */
  readonly timezone: string
  readonly stream: Stream
  readonly taken: TakenSlice
  /** Loads a batch, or only compares it where nothing may be written. */
  readonly load: typeof loadBatch
  readonly meter: Meter
  readonly tally: Tally
  /** With a service that is asked for records and files by id. */
  readonly patience: Patience
  /** Told of each page and batch. */
  readonly onProgress: (progress: Progress) => void
}

/** How a service does that is asked by id, of one team and stream. */
export interface Patience {
  /** Requests in a row that did not give what was asked for. */
  inRow: number
  /** Ids that are to be asked for another time, each with the reason. */
  readonly later: Map<string, string>
}

/** What a run did to a stream so far. */
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
  /** The service's count, or null where it tells none. */
  readonly expected: number | null
}

export function emptyTally(): Tally {
  return { fetched: 0, changed: 0, unchanged: 0, deleted: 0, erased: 0, deadLetters: 0, problems: 0 }
}
