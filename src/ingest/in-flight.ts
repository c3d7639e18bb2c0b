/**
 * What is held for requests that are not answered yet.
 *
 * Invariant: the sums never exceed their limits, and are 0 when every request was answered; so memory is bounded
 * whatever is sent, and however slowly. Large bodies leave a quarter of it to small ones, so that a few senders who
 * stall do not shut out the others.
 */
import type { IngestLimits } from './limits.ts'

/** In bytes; what is larger is no usual event. */
const LARGE = 64 * 1024
const PART_OF_LARGE = 0.75

/** The part of one request. */
export interface Hold {
  /** Bytes that are about to be held in addition; false, and nothing changes, when they do not fit. */
  grow(bytes: number): boolean
  release(): void
}

export interface InFlight {
  readonly events: number
  readonly bytes: number
  /** Null when no further request fits. */
  enter(): Hold | null
}

export function openInFlight(limits: Pick<IngestLimits, 'eventsInFlight' | 'bytesInFlight'>): InFlight {
  let events = 0
  let bytes = 0
  return {
    get events() {
      return events
    },
    get bytes() {
      return bytes
    },
    enter() {
      if (events >= limits.eventsInFlight) return null
      events += 1
      let held = 0
      return {
        grow(more) {
          const most = limits.bytesInFlight * (held + more > LARGE ? PART_OF_LARGE : 1)
          if (bytes + more > most) return false
          bytes += more
          held += more
          return true
        },
        release() {
          events -= 1
          bytes -= held
        },
      }
    },
  }
}
