/**
 * The delivery attempts of one team (specification, section 2.7), oldest first.
 *
 * Invariant: records never change; the log contains the newest `KEPT`. A cursor continues after its record even when
 * older ones are gone.
 */
import type { Listing } from '../world/table.ts'
import type { EventSource } from '../world/world.ts'
import type { EventType } from './webhook-configs.ts'

export interface AttemptRecord {
  /** Id of the attempt. */
  readonly id: string
  /** Id of the envelope. */
  readonly event_id: string
  readonly webhook_config: string
  readonly event_type: EventType
  readonly source: EventSource
  readonly status: 'succeeded' | 'failed'
  readonly response_status_code: number | null
  /** 1 for the first attempt of an event. */
  readonly attempts: number
  readonly error: string | null
  readonly created_at: string
  readonly next_retry_at: string | null
}

interface Entry {
  readonly place: number
  readonly record: AttemptRecord
}

export const KEPT = 100_000
/** Records beyond `KEPT` before the log is cut. */
const SLACK = 10_000

export class AttemptLog {
  #entries: Entry[] = []
  #next = 0

  add(record: AttemptRecord): void {
    this.#entries.push({ place: this.#next, record })
    this.#next += 1
    if (this.#entries.length >= KEPT + SLACK) this.#entries = this.#entries.slice(-KEPT)
  }

  /** The attempts that satisfy `matches`. */
  listing(matches: (record: AttemptRecord) => boolean = () => true): Listing<AttemptRecord> {
    const found = this.#entries.slice(-KEPT).filter(({ record }) => matches(record))
    const records = (entries: readonly Entry[]) => entries.map(({ record }) => record)
    return {
      size: found.length,
      slice: (position, limit, newestFirst = false) =>
        records((newestFirst ? found.toReversed() : found).slice(position, position + limit)),
      scan(token, limit) {
        const start = found.findIndex(({ place }) => place >= token)
        if (start < 0) return { rows: [], next: null }
        return {
          rows: records(found.slice(start, start + limit)),
          next: found[start + limit]?.place ?? null,
        }
      },
    }
  }
}
