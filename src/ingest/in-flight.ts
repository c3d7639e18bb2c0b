/**
 * What is held for requests that are not answered yet.
 *
 * Invariant: the sums never exceed their limits, and are 0 when every request was answered; so memory is bounded
 * whatever is sent, and however slowly.
 */
import type { IngestLimits } from './limits.ts'

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
          if (bytes + more > limits.bytesInFlight) return false
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
