/**
 * Counts the requests that are not answered yet, and the bytes that are reserved for them.
 *
 * Invariant: the sums never exceed their limits, and are 0 when every request was answered; so memory is bounded
 * whatever is sent, and however slowly. Large bodies leave a quarter of the bytes to small ones, so that a few stalled
 * senders do not shut out the others. Where there are several teams, each leaves a quarter of everything to the others,
 * so that requests for one team do not shut out another.
 */
import type { IngestLimits } from './limits.ts'

/** In bytes; an ordinary event is smaller. */
const LARGE = 64 * 1024
const SHARE_OF_LARGE = 0.75
/** Share of one team among several. */
const SHARE_OF_A_TEAM = 0.75

/** Reserved for one request. */
export interface Reservation {
  /** Reserves further bytes; returns false, and changes nothing, when they do not fit. */
  grow(bytes: number): boolean
  release(): void
}

export interface InFlight {
  readonly events: number
  readonly bytes: number
  /** Null when no further request fits, or none of this team. */
  enter(teamId: number): Reservation | null
}

export function openInFlight(
  limits: Pick<IngestLimits, 'eventsInFlight' | 'bytesInFlight' | 'connections'>,
  teams: number,
): InFlight {
  const share = teams > 1 ? SHARE_OF_A_TEAM : 1
  const maxOfTeam = {
    events:
      Math.min(limits.eventsInFlight, teams > 1 ? limits.connections : Number.POSITIVE_INFINITY) * share,
    bytes: limits.bytesInFlight * share,
  }
  const byTeam = new Map<number, { events: number; bytes: number }>()
  let events = 0
  let bytes = 0

  function teamOf(teamId: number) {
    const known = byTeam.get(teamId) ?? { events: 0, bytes: 0 }
    byTeam.set(teamId, known)
    return known
  }
  return {
    get events() {
      return events
    },
    get bytes() {
      return bytes
    },
    enter(teamId) {
      const team = teamOf(teamId)
      if (events >= limits.eventsInFlight || team.events >= maxOfTeam.events) return null
      events += 1
      team.events += 1
      let reserved = 0
      return {
        grow(more) {
          const large = reserved + more > LARGE ? SHARE_OF_LARGE : 1
          if (bytes + more > limits.bytesInFlight * large) return false
          if (team.bytes + more > maxOfTeam.bytes * large) return false
          bytes += more
          team.bytes += more
          reserved += more
          return true
        },
        release() {
          events -= 1
          bytes -= reserved
          team.events -= 1
          team.bytes -= reserved
        },
      }
    },
  }
}
