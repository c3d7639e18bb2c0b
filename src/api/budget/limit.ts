/**
 * A model of the service's unknown limit, learned from nothing but the answers: N requests in any window of length W.
 *
 *     free ──429──► held (everybody waits) ──► paced ──a long while without 429──► raised by a little, and on
 *                     ▲                          │                                            │
 *                     └───────────429────────────┴────────────────────429─────────────────────┘
 *
 * Invariant: while paced, request i + N is not sent before W and a margin after request i, which is what keeps a
 * sliding window content whatever the gaps; and requests are spread, which keeps a token bucket content. No pacing
 * before the first 429. Pure: time comes in as an argument, in microseconds; nothing here waits.
 */
import { Margin } from './margin.ts'
import { Sends } from './sends.ts'
import { blindPause, guessWindow, windowWithin } from './windows.ts'

const SECOND = 1_000_000
/** While no limit is known, this many in flight, so that finding it costs as many 429 at most; … */
const FIRST_IN_FLIGHT = 2
/** … after so many accepted requests this many, and then one for each fifty accepted. */
const CAUTIOUS_REQUESTS = 100
const LATER_IN_FLIGHT = 4
const ACCEPTED_PER_IN_FLIGHT = 50
/** Without 429 for this long, and pressed against the limit: try a little more. */
const FIRST_PATIENCE = 30 * SECOND
const LONGEST_PATIENCE = 900 * SECOND
const FIRST_RAISE = 0.05
/** Up to here one request more or less in a window is worth a 429 to know. */
const FEW = 25

/** One request under way. */
export interface Ticket {
  readonly sentAt: number
}

interface Episode {
  /** When the first rejected request was sent, and when its 429 came. */
  readonly sentAt: number
  readonly seenAt: number
  /** How many rejections in a row, without an accepted request between. */
  rejections: number
  /** The latest `Retry-After`, in microseconds. */
  retryAfter: number | null
  /** Requests sent before the 429 was seen whose answers are still out. */
  pending: number
}

export class Limit {
  readonly #concurrency: number
  readonly #sends = new Sends()
  #inFlight = 0
  #accepted = 0
  #startedAt: number | null = null
  #heldUntil = Number.NEGATIVE_INFINITY
  /** Rejections since the last accepted request, of requests that were each sent after the one before was seen; … */
  #inRow = 0
  /** … and when the last of them was seen. */
  #rejectedAt = Number.NEGATIVE_INFINITY
  #episode: Episode | null = null
  #lastEpisode: Episode | null = null
  /** N and W, once known; and the N that was in force before the present raise. */
  #count: number | null = null
  #window = SECOND
  #proven: number | null = null
  readonly #margin = new Margin()
  /** Above 1: pace faster than N/W in between, as a sliding window allows; 1: strictly even, as a bucket wants. */
  #spread = 1.2
  #contradictions = 0
  /** N may be one too small, and so small that one matters. */
  #unsure = false
  #due = Number.NEGATIVE_INFINITY
  #raise = 0
  #raisedAt = 0
  #quietSince = 0
  #patience = FIRST_PATIENCE
  #pressedAt = Number.NEGATIVE_INFINITY

  constructor(concurrency: number) {
    this.#concurrency = concurrency
  }

  /** Permitted requests per second as far as known; null while no limit has shown. */
  get rate(): number | null {
    return this.#count === null ? null : this.#count / (this.#window / SECOND)
  }

  get inFlight(): number {
    return this.#inFlight
  }

  /** 0: a request may be sent now. Else microseconds until it is worth asking again; Infinity: not before an answer. */
  wait(now: number): number {
    if (this.#inFlight >= this.#cap()) return Number.POSITIVE_INFINITY
    if (this.#episode !== null && now >= this.#heldUntil) this.#settle()
    if (now < this.#heldUntil) return this.#heldUntil - now
    // After a blind pause one request tries whether the service is open again.
    if (this.#episode !== null && this.#inFlight > 0) return Number.POSITIVE_INFINITY
    if (this.#count === null || this.#episode !== null) return 0
    this.#raiseWhenQuiet(now)
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

  /** The request was counted by the service, whatever else its answer says. */
  accepted(ticket: Ticket, now: number): void {
    this.#leave(ticket)
    this.#accepted += 1
    this.#inRow = 0
    this.#margin.measure(now - ticket.sentAt)
    // One that was perhaps counted late: the window is to be reckoned from then.
    const counted = this.#margin.countedAt(ticket.sentAt, now, this.#window)
    if (counted > ticket.sentAt) this.#sends.postpone(ticket.sentAt, counted)
    const episode = this.#episode
    if (episode !== null && ticket.sentAt > episode.seenAt) this.#reopen(episode, now)
  }

  /** No answer came; the service may have counted the request. */
  lost(ticket: Ticket): void {
    this.#leave(ticket)
  }

  /** 429. `retryAfter` in microseconds, or null when the answer does not say. */
  rejected(ticket: Ticket, now: number, told: number | null): void {
    this.#leave(ticket)
    if (ticket.sentAt > this.#rejectedAt) {
      this.#inRow += 1
      this.#rejectedAt = now
    }
    // "At once" that was tried and did not help says nothing: it is waited as if there were no word.
    const retryAfter = told !== null && told < SECOND && this.#inRow > 2 ? null : told
    this.#sends.remove(ticket.sentAt)
    let episode = this.#episode
    const late = this.#lastEpisode !== null && ticket.sentAt <= this.#lastEpisode.seenAt
    if (episode === null && late) {
      // Sent before everybody was held, answered after the model was settled: it costs a 429, and teaches nothing.
      this.#heldUntil = Math.max(this.#heldUntil, now + (retryAfter ?? 0))
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
    this.#heldUntil = Math.max(this.#heldUntil, now + pause)
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

  /** The pause is over. With a `Retry-After` the model can be settled at once; without, a first request must tell. */
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

  /** After blind pauses a request was accepted: the window is longer than the last failed wait, and no longer than this. */
  #reopen(episode: Episode, now: number): void {
    const start = this.#startedAt ?? episode.sentAt
    const failed = episode.rejections > 1 ? this.#heldUntil - blindPause(episode.rejections) : episode.sentAt
    this.#learn(episode, failed - start, now - start)
  }

  #learn(episode: Episode, above: number, upTo: number): void {
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
    this.#lastEpisode = episode
    this.#episode = null
  }

  /** The new N, given how many accepted requests stood in the window, at `least` and at `most`, when one was rejected. */
  #judge(most: number, least: number, likely: number, episode: Episode): number {
    const before = this.#count
    if (before === null) {
      // Hardly anything of ours filled the window: somebody else did, or the run before. Look again soon.
      this.#patience = most <= 3 ? 5 * this.#window : FIRST_PATIENCE
      return episode.seenAt - this.#startedAt! < this.#window ? most : likely
    }
    if (this.#proven !== null && most >= this.#proven) {
      // A raise that went too far: back to where it was good, or as far as it surely was.
      this.#patience = Math.min(LONGEST_PATIENCE, this.#patience * 2)
      return Math.max(this.#proven, Math.min(least, before))
    }
    if (most < before - Math.max(1, before * 0.02)) return this.#lowered(before, most, likely, episode)
    if (least > before) return least
    // The model was right and still one was rejected: requests overtake each other by more than the margin.
    return this.#margin.widen(this.#window) ? before : Math.max(1, Math.floor(before * 0.98))
  }

  /** Fewer stood in the window than the model permits: the limit sank, others share it, or it is no window. */
  #lowered(before: number, most: number, likely: number, episode: Episode): number {
    if (most > before * 0.9) return likely
    this.#patience = FIRST_PATIENCE
    const since = this.#lastEpisode?.sentAt
    const soon = since !== undefined && episode.sentAt - since < 10 * this.#window
    this.#contradictions = soon ? this.#contradictions + 1 : 1
    if (this.#contradictions < 2 || since === undefined) return likely
    // Twice in a row is not what a sliding window does. A bucket gives, between two rejections, just what flowed
    // into it; but go there in steps, for a client that shares the limit looks the same.
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
