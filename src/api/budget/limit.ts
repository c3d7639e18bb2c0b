/**
 * A model of the service's limit: N requests in any window of length W, configured or learned from answers only.
 *
 *     free ──429──► paused (no request) ──► paced ──a long time without 429──► N raised in small steps
 *                     ▲                       │                                   │
 *                     └──────────429──────────┴────────────────429────────────────┘
 *
 * Invariant: while paced, request i + N is sent no earlier than W plus a margin after request i, which satisfies a
 * sliding window whatever the gaps; requests are also spread evenly, which satisfies a token bucket. No pacing before
 * the first 429, unless the limit is configured: then always, a 429 only pauses, and it was a request as any other.
 * Pure: time is an argument, in microseconds; nothing here waits.
 */
import { Margin } from './margin.ts'
import { Sends } from './sends.ts'
import { blindPause, guessWindow, windowWithin } from './windows.ts'

const SECOND = 1_000_000
/** Requests in flight while no limit is known, which bounds the number of 429 that finding it costs; … */
const FIRST_IN_FLIGHT = 2
/** … after CAUTIOUS_REQUESTS accepted requests, this many, and then one per ACCEPTED_PER_IN_FLIGHT accepted. */
const CAUTIOUS_REQUESTS = 100
const LATER_IN_FLIGHT = 4
const ACCEPTED_PER_IN_FLIGHT = 50
/** After this time without 429 at the full permitted rate, N is raised. */
const FIRST_PATIENCE = 30 * SECOND
const MAX_PATIENCE = 900 * SECOND
const FIRST_RAISE = 0.05
/** Up to this N, one request more per window is worth the 429 that finding out may cost. */
const FEW = 25

/** At most `requests`, from 1 to 100,000, in any `seconds`. */
export interface RateLimit {
  readonly requests: number
  readonly seconds: number
}

/** One request in flight. */
export interface Ticket {
  readonly sentAt: number
}

interface Episode {
  /** When the first rejected request was sent, and when its 429 arrived. */
  readonly sentAt: number
  readonly seenAt: number
  /** Rejections in a row, without an accepted request in between. */
  rejections: number
  /** The latest `Retry-After`, in microseconds. */
  retryAfter: number | null
  /** Requests in flight that were sent before the 429 arrived. */
  pending: number
}

export class Limit {
  readonly #concurrency: number
  readonly #isConfigured: boolean
  readonly #sends = new Sends()
  #inFlight = 0
  #accepted = 0
  #startedAt: number | null = null
  #pausedUntil = Number.NEGATIVE_INFINITY
  /** Rejections since the last accepted request, counting only requests sent after the previous rejection arrived; … */
  #inRow = 0
  /** … and when the last of them arrived. */
  #rejectedAt = Number.NEGATIVE_INFINITY
  #episode: Episode | null = null
  #lastEpisode: Episode | null = null
  /** N and W, once known; and N before the current raise. */
  #count: number | null = null
  #window = SECOND
  #proven: number | null = null
  readonly #margin = new Margin()
  /** Above 1, short bursts exceed N/W, which a sliding window permits; 1 is strictly even, as a token bucket needs. */
  #spread = 1.2
  #contradictions = 0
  /** N may be one too small, and is small enough for one request to matter. */
  #unsure = false
  #due = Number.NEGATIVE_INFINITY
  #raise = 0
  #raisedAt = 0
  #quietSince = 0
  #patience = FIRST_PATIENCE
  #pressedAt = Number.NEGATIVE_INFINITY

  /** Without `configured`, the limit is learned. */
  constructor(concurrency: number, configured?: RateLimit) {
    this.#concurrency = concurrency
    this.#isConfigured = configured !== undefined
    if (configured === undefined) return
    this.#count = configured.requests
    this.#window = configured.seconds * SECOND
    // Even also across the start of a process, which does not know what the previous one sent.
    this.#spread = 1
  }

  /** Permitted requests per second; null while no limit is known. */
  get rate(): number | null {
    return this.#count === null ? null : this.#count / (this.#window / SECOND)
  }

  get inFlight(): number {
    return this.#inFlight
  }

  /** 0 if a request may be sent now; else microseconds until the next call can succeed; Infinity: not before an answer. */
  wait(now: number): number {
    if (this.#inFlight >= this.#cap()) return Number.POSITIVE_INFINITY
    if (this.#episode !== null && now >= this.#pausedUntil) this.#settle()
    if (now < this.#pausedUntil) return this.#pausedUntil - now
    // After a blind pause, a single request tests whether the service accepts requests again.
    if (this.#episode !== null && this.#inFlight > 0) return Number.POSITIVE_INFINITY
    if (this.#count === null || (this.#episode !== null && !this.#isConfigured)) return 0
    if (!this.#isConfigured) this.#raiseWhenQuiet(now)
    const oldest = this.#sends.newest(this.#count)
    const byWindow = oldest === undefined ? now : oldest + this.#window + this.#margin.of(this.#window)
    const bySpread = this.#due - this.#window * 0.1
    const at = Math.max(byWindow, bySpread)
    if (at <= now) return 0
    this.#pressedAt = now
    return at - now
  }

  sent(now: number): Ticket {
    this.#startedAt ??= now
    this.#inFlight += 1
    this.#sends.add(now)
    if (this.#count !== null) {
      const interval = (this.#window + this.#margin.of(this.#window)) / (this.#count * this.#spread)
      this.#due = Math.max(now, this.#due) + interval
      if (this.#sends.size > 4096) this.#sends.forgetUpTo(now - 2 * this.#window - SECOND)
    }
    return { sentAt: now }
  }

  /** The service has counted the request, whatever its status. */
  accepted(ticket: Ticket, now: number): void {
    this.#leave(ticket)
    this.#accepted += 1
    this.#inRow = 0
    this.#margin.measure(now - ticket.sentAt)
    // The service may have counted a slow request late: its window starts then.
    const counted = this.#margin.countedAt(ticket.sentAt, now, this.#window)
    if (counted > ticket.sentAt) this.#sends.postpone(ticket.sentAt, counted)
    const episode = this.#episode
    if (episode !== null && ticket.sentAt > episode.seenAt) this.#reopen(episode, now)
  }

  /** There was no answer; the service may have counted the request. */
  lost(ticket: Ticket): void {
    this.#leave(ticket)
  }

  /** 429. `requested` is the `Retry-After` in microseconds, or null if the answer has none. */
  rejected(ticket: Ticket, now: number, requested: number | null): void {
    this.#leave(ticket)
    if (ticket.sentAt > this.#rejectedAt) {
      this.#inRow += 1
      this.#rejectedAt = now
    }
    // A `Retry-After` of zero that has failed twice is ignored.
    const retryAfter = requested !== null && requested < SECOND && this.#inRow > 2 ? null : requested
    if (!this.#isConfigured) this.#sends.remove(ticket.sentAt)
    let episode = this.#episode
    const late = this.#lastEpisode !== null && ticket.sentAt <= this.#lastEpisode.seenAt
    if (episode === null && late) {
      // Sent before the pause and answered after the model was learned: this 429 adds no information.
      this.#pausedUntil = Math.max(this.#pausedUntil, now + (retryAfter ?? 0))
      return
    }
    if (episode === null) {
      episode = { sentAt: ticket.sentAt, seenAt: now, rejections: 1, retryAfter, pending: this.#inFlight }
      this.#episode = episode
    } else if (ticket.sentAt > episode.seenAt) {
      episode.rejections += 1
      episode.retryAfter = retryAfter
    }
    const pause = retryAfter ?? blindPause(episode.rejections)
    this.#pausedUntil = Math.max(this.#pausedUntil, now + pause)
  }

  #cap(): number {
    if (this.#count !== null) return this.#concurrency
    const earned = Math.floor(this.#accepted / ACCEPTED_PER_IN_FLIGHT)
    const cautious = this.#accepted < CAUTIOUS_REQUESTS
    return Math.min(this.#concurrency, cautious ? FIRST_IN_FLIGHT : Math.max(LATER_IN_FLIGHT, earned))
  }

  #leave(ticket: Ticket): void {
    this.#inFlight -= 1
    const episode = this.#episode
    if (episode !== null && ticket.sentAt <= episode.seenAt && episode.pending > 0) episode.pending -= 1
  }

  /** At the end of a pause. A `Retry-After` suffices to learn the model; without one, the next accepted request does. */
  #settle(): void {
    const episode = this.#episode!
    if (episode.retryAfter === null) return
    const elapsed = episode.sentAt - (this.#startedAt ?? episode.sentAt)
    this.#learn(
      episode,
      elapsed + episode.retryAfter - SECOND,
      elapsed + episode.retryAfter + this.#margin.jitter(this.#window),
    )
  }

  /** A request was accepted after blind pauses: the window is longer than the last failed wait, and at most this one. */
  #reopen(episode: Episode, now: number): void {
    const start = this.#startedAt ?? episode.sentAt
    const failed =
      episode.rejections > 1 ? this.#pausedUntil - blindPause(episode.rejections) : episode.sentAt
    this.#learn(episode, failed - start, now - start)
  }

  #learn(episode: Episode, above: number, upTo: number): void {
    if (!this.#isConfigured) this.#adjust(episode, above, upTo)
    this.#lastEpisode = episode
    this.#episode = null
  }

  #adjust(episode: Episode, above: number, upTo: number): void {
    const asked = episode.retryAfter === null ? 0 : episode.retryAfter - SECOND
    if (this.#count === null) this.#window = guessWindow(episode, this.#sends, Math.max(asked, above), upTo)
    else if (asked >= this.#window) this.#window = windowWithin(asked, Number.POSITIVE_INFINITY)

    const jitter = this.#margin.jitter(this.#window)
    const start = episode.sentAt - this.#window
    const most = this.#sends.between(start - jitter, episode.seenAt)
    const least = this.#sends.between(start + jitter, episode.sentAt - jitter)
    const before = this.#count
    const likely = Math.max(1, this.#sends.between(start, episode.sentAt))
    this.#count = this.#judge(Math.max(1, most), Math.max(1, least), likely, episode)
    this.#unsure = before !== this.#count && this.#proven === null && this.#count < Math.min(most, FEW)
    this.#raise = 0
    this.#proven = null
    this.#quietSince = episode.seenAt
    this.#due = Number.NEGATIVE_INFINITY
  }

  /** The new N, given that at least `least` and at most `most` accepted requests were in the window at a rejection. */
  #judge(most: number, least: number, likely: number, episode: Episode): number {
    const before = this.#count
    if (before === null) {
      // Too few of our requests were in the window to fill it: another client or an earlier run did. Try again soon.
      this.#patience = most <= 3 ? 5 * this.#window : FIRST_PATIENCE
      return episode.seenAt - this.#startedAt! < this.#window ? most : likely
    }
    if (this.#proven !== null && most >= this.#proven) {
      // The raise was too large: return to the proven N, or to the N that the window surely permitted.
      this.#patience = Math.min(MAX_PATIENCE, this.#patience * 2)
      return Math.max(this.#proven, Math.min(least, before))
    }
    if (most < before - Math.max(1, before * 0.02)) return this.#lowered(before, most, likely, episode)
    if (least > before) return least
    // The model is right and a request was rejected nevertheless: requests overtake each other by more than the margin.
    return this.#margin.widen(this.#window) ? before : Math.max(1, Math.floor(before * 0.98))
  }

  /** Fewer requests were in the window than N: the limit fell, others share it, or it is a token bucket. */
  #lowered(before: number, most: number, likely: number, episode: Episode): number {
    if (most > before * 0.9) return likely
    this.#patience = FIRST_PATIENCE
    const since = this.#lastEpisode?.sentAt
    const soon = since !== undefined && episode.sentAt - since < 10 * this.#window
    this.#contradictions = soon ? this.#contradictions + 1 : 1
    if (this.#contradictions < 2 || since === undefined) return likely
    // A sliding window does not do this twice in a row. Between two rejections, a token bucket grants exactly its
    // refill. Approach that rate in steps, since another client that shares the limit has the same effect.
    this.#spread = 1
    const flowed = (this.#sends.between(since, episode.sentAt) / (episode.sentAt - since)) * this.#window
    return Math.max(1, Math.min(most, Math.floor(Math.max(flowed, most * 0.85))))
  }

  #raiseWhenQuiet(now: number): void {
    const settled = this.#window + this.#margin.of(this.#window) + this.#margin.meanRoundTrip * 2
    const pressed = now - this.#pressedAt < Math.max(SECOND, this.#window / 4)
    if (this.#raise === 0) {
      const patience = this.#unsure
        ? 10 * this.#window
        : Math.max(this.#patience, 2 * this.#window, (300 * this.#window) / this.#count!)
      if (now - this.#quietSince < patience || !pressed) return
      if (this.#margin.narrow(this.#window)) {
        this.#quietSince = now
        return
      }
      this.#raise = FIRST_RAISE
    } else if (now - this.#raisedAt < settled || !pressed) {
      return
    } else {
      this.#raise = Math.min(1, this.#raise * 2)
    }
    this.#proven = this.#count
    this.#count = this.#count! + Math.max(1, Math.floor(this.#count! * this.#raise))
    this.#raisedAt = now
  }
}
