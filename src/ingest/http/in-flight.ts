/**
 * The limits of the ingester. Counts the requests that are not answered yet, and the bytes that are reserved for them.
 *
 * Invariant: the sums never exceed their limits, and are 0 when every request was answered; so memory is bounded
 * whatever is sent, and however slowly. Bodies whose signature is not checked yet have half of the bytes, and those of one
 * peer a little less; where that is used up, the oldest that has been arriving for a second makes room. The rest is left to
 * events that are signed. Large bodies leave a quarter of the bytes to small ones. Where there are several teams, each
 * leaves a quarter of everything to the others, so that requests for one team do not shut out another.
 */
import type { Clock } from '../../core/clock.ts'

/** How much the ingester accepts at once, and how long it waits. */
export interface IngestLimits {
  /** Bytes of one body; 413 beyond. */
  readonly body: number
  /** Signed events that are being stored; 503 beyond. */
  readonly eventsInFlight: number
  /** Bytes of requests that are being read or stored; 503 beyond. */
  readonly bytesInFlight: number
  /** Connections; beyond, the oldest on which nothing was signed is closed. */
  readonly connections: number
  /** Connections of one peer on which nothing was signed. */
  readonly connectionsOfPeer: number
  /** For the head of a request, and for a connection that sends nothing. */
  readonly headersMs: number
  /** For a whole request. */
  readonly requestMs: number
  /** The least rate of a body after `graceMs`; 408 below. */
  readonly bytesPerSecond: number
  readonly graceMs: number
  /** A body that nobody signed yet may have to make room for others after this time. */
  readonly staleMs: number
  /** Between two requests of a connection; longer than balancers keep theirs, so that they close first. */
  readonly idleMs: number
  /** How often `headersMs` and `requestMs` are enforced. */
  readonly checkMs: number
  /** From an event's arrival in the inbox to its answer. */
  readonly storeMs: number
  /** For one statement in the warehouse, and for a connection to it. */
  readonly statementMs: number
  /** For requests in flight when the ingester closes. */
  readonly closeMs: number
}

export const LIMITS: IngestLimits = {
  body: 5_242_880,
  eventsInFlight: 10_000,
  bytesInFlight: 64 * 1024 * 1024,
  connections: 4_000,
  connectionsOfPeer: 1_000,
  headersMs: 5_000,
  requestMs: 30_000,
  bytesPerSecond: 16 * 1024,
  graceMs: 3_000,
  staleMs: 1_000,
  idleMs: 65_000,
  checkMs: 1_000,
  storeMs: 1_600,
  statementMs: 1_400,
  closeMs: 5_000,
}

/** In bytes; an ordinary event is smaller. */
const LARGE = 64 * 1024
const SHARE_OF_LARGE = 0.75
/** Share of one team among several. */
const SHARE_OF_A_TEAM = 0.75
/** Share of the bytes for bodies whose signature is not checked, and for those of one peer. */
const SHARE_OF_UNCHECKED = 0.5
const SHARE_OF_A_PEER = 0.45
/** What a request that waits costs besides its body. */
const REQUEST_BYTES = 4 * 1024

/** Reserved for one request. */
export interface Reservation {
  /** Reserves further bytes of an unchecked body; returns false, and changes nothing, when they do not fit. */
  grow(bytes: number): boolean
  /** Reserves an unchecked body of so many bytes, that waits; false when it does not fit. */
  hold(bytes: number): boolean
  /** The body was signed: reserves its bytes, and a place among the events to store. False when they do not fit. */
  accept(bytes: number): boolean
  /** `displaced` is called once the bytes are given to another request. */
  onDisplaced(displaced: () => void): void
  release(): void
}

export interface InFlight {
  readonly events: number
  readonly bytes: number
  /** `peer` null: the connection has carried signed events, so its bodies count as signed from the start. */
  enter(teamId: number, peer: string | null): Reservation
}

interface UsedCapacity {
  /** Events to store. */
  accepted: number
  bytes: number
  /** Of `bytes`, those of unchecked bodies. */
  unchecked: number
}

interface ReservingRequest {
  readonly teamId: number
  readonly peer: string | null
  readonly since: number
  bytes: number
  isChecked: boolean
  displace: () => void
}

export function openInFlight(
  limits: Pick<IngestLimits, 'eventsInFlight' | 'bytesInFlight' | 'connections' | 'staleMs'>,
  teams: number,
  clock: Pick<Clock, 'now'>,
): InFlight {
  const share = teams > 1 ? SHARE_OF_A_TEAM : 1
  const maxAccepted =
    Math.min(limits.eventsInFlight, teams > 1 ? limits.connections : Number.POSITIVE_INFINITY) * share
  const byTeam = new Map<number, UsedCapacity>()
  const all: UsedCapacity = { accepted: 0, bytes: 0, unchecked: 0 }
  const ofPeers = new Map<string, number>()
  /** Unchecked bodies that hold bytes, the oldest first. */
  const unchecked = new Set<ReservingRequest>()
  let events = 0

  function teamOf(teamId: number): UsedCapacity {
    const known = byTeam.get(teamId) ?? { accepted: 0, bytes: 0, unchecked: 0 }
    byTeam.set(teamId, known)
    return known
  }
  function add(request: ReservingRequest, bytes: number): void {
    request.bytes += bytes
    const team = teamOf(request.teamId)
    all.bytes += bytes
    team.bytes += bytes
    if (request.isChecked) return
    all.unchecked += bytes
    team.unchecked += bytes
    const ofPeer = (ofPeers.get(request.peer!) ?? 0) + bytes
    if (ofPeer === 0) ofPeers.delete(request.peer!)
    else ofPeers.set(request.peer!, ofPeer)
    if (request.bytes === 0) unchecked.delete(request)
    else unchecked.add(request)
  }
  function fits(request: ReservingRequest, more: number): boolean {
    const most = limits.bytesInFlight * (request.bytes + more > LARGE ? SHARE_OF_LARGE : 1)
    const team = teamOf(request.teamId)
    return all.bytes + more <= most && team.bytes + more <= most * share
  }
  /** Null when they fit; else whose bodies have to make room: those of the peer, or any. */
  function tooMany(request: ReservingRequest, more: number): 'peer' | 'all' | null {
    const most = limits.bytesInFlight * (request.bytes + more > LARGE ? SHARE_OF_LARGE : 1)
    if ((ofPeers.get(request.peer!) ?? 0) + more > most * SHARE_OF_A_PEER) return 'peer'
    if (all.unchecked + more > most * SHARE_OF_UNCHECKED || !fits(request, more)) return 'all'
    return teamOf(request.teamId).unchecked + more > most * SHARE_OF_UNCHECKED * share ? 'all' : null
  }
  function displaceOne(newcomer: ReservingRequest, whose: 'peer' | 'all'): boolean {
    for (const request of unchecked) {
      if (clock.now() - request.since < limits.staleMs * 1000) return false
      if (request === newcomer || (whose === 'peer' && request.peer !== newcomer.peer)) continue
      add(request, -request.bytes)
      request.displace()
      return true
    }
    return false
  }
  function grow(request: ReservingRequest, more: number): boolean {
    if (!request.isChecked) {
      for (let whose = tooMany(request, more); whose !== null; whose = tooMany(request, more))
        if (!displaceOne(request, whose)) return false
    } else if (!fits(request, more)) {
      return false
    }
    add(request, more)
    return true
  }
  function accept(request: ReservingRequest, bytes: number): boolean {
    const team = teamOf(request.teamId)
    if (all.accepted >= limits.eventsInFlight || team.accepted >= maxAccepted) return false
    add(request, -request.bytes)
    request.isChecked = true
    if (!fits(request, bytes)) return false
    add(request, bytes)
    all.accepted += 1
    team.accepted += 1
    return true
  }

  return {
    get events() {
      return events
    },
    get bytes() {
      return all.bytes
    },
    enter(teamId, peer) {
      events += 1
      const request: ReservingRequest = {
        ...{ teamId, peer, since: clock.now(), bytes: 0, isChecked: peer === null },
        displace: () => {},
      }
      let isAccepted = false
      return {
        grow: (bytes) => grow(request, bytes),
        hold(bytes) {
          const isReserved = grow(request, Math.max(0, bytes + REQUEST_BYTES - request.bytes))
          // It waits for us, not for its sender.
          unchecked.delete(request)
          return isReserved
        },
        accept(bytes) {
          isAccepted = accept(request, bytes)
          return isAccepted
        },
        onDisplaced(displaced) {
          request.displace = displaced
        },
        release() {
          events -= 1
          add(request, -request.bytes)
          if (!isAccepted) return
          all.accepted -= 1
          teamOf(teamId).accepted -= 1
        },
      }
    },
  }
}
