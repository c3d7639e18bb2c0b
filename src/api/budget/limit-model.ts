/**
 * The limit of the service: N requests in any window of length W, learned from rejections.
 *
 * Invariant: N falls when a rejection shows that fewer requests are permitted, and rises in small steps after a long
 * time without one. Pure: time is an argument, in microseconds.
 */
import { type Counted, guessWindow, Margin, SECOND, windowWithin } from './margin.ts'

/** The state of a model, as it is stored and given to other processes. Durations in microseconds. */
export interface ModelState {
  readonly count: number
  readonly window: number
  readonly margin: number
  readonly spread: number
  readonly proven: number | null
  readonly contradictions: number
  readonly unsure: boolean
  readonly raise: number
  readonly waitBeforeRaise: number
}

/** After this time without 429 at the full permitted rate, N is raised. */
const FIRST_WAIT = 30 * SECOND
const MAX_WAIT = 900 * SECOND
const FIRST_RAISE = 0.05
/** Up to this N, one request more per window is worth the 429 that finding out may cost. */
const FEW = 25
/** No limit is known, as at the start. */
const UNKNOWN = {
  ...{ count: null, window: SECOND, margin: 0, spread: 1.2, proven: null, contradictions: 0, unsure: false },
  ...{ raise: 0, waitBeforeRaise: FIRST_WAIT },
}

/** At most `requests`, from 1 to 100,000, in any `seconds`. */
export interface RateLimit {
  readonly requests: number
  readonly seconds: number
}

/** Rejections without an accepted request in between. */
export interface Episode {
  /** When the first rejected request was sent, and when its 429 arrived. */
  readonly sentAt: number
  readonly seenAt: number
  /** Rejections in a row, without an accepted request in between. */
  rejections: number
  /** The latest `Retry-After`, in microseconds. */
  retryAfter: number | null
}

/**
 * When the first request since a silence was sent, and when the first rejected request of the episode before, if there was
 * one.
 */
export interface EpisodeBefore {
  readonly startedAt: number
  readonly since: number | undefined
}

export class LimitModel {
  readonly #sends: Counted
  /** N and W, once known; and N before the current raise. */
  #count: number | null = null
  #window = UNKNOWN.window
  #proven: number | null = null
  readonly margin = new Margin()
  /** Above 1, short bursts exceed N/W, which a sliding window permits; 1 is strictly even, as a token bucket needs. */
  #spread = UNKNOWN.spread
  #contradictions = UNKNOWN.contradictions
  /** N may be one too small, and is small enough for one request to matter. */
  #unsure = UNKNOWN.unsure
  #raise = UNKNOWN.raise
  #raisedAt = 0
  #quietSince = 0
  #waitBeforeRaise = UNKNOWN.waitBeforeRaise
  /** When the newest request was due, spread evenly. */
  #spreadAt = Number.NEGATIVE_INFINITY

  constructor(sends: Counted, configured?: RateLimit) {
    this.#sends = sends
    if (configured === undefined) return
    this.#count = configured.requests
    this.#window = configured.seconds * SECOND
    // Even also across the start of a process, which does not know what the previous one sent.
    this.#spread = 1
  }

  /** N, the requests permitted in a window; null while no limit is known. */
  get count(): number | null {
    return this.#count
  }

  /** W, in microseconds. */
  get window(): number {
    return this.#window
  }

  /** How long a request counts: the window with its margin. */
  get span(): number {
    return this.#window + this.margin.of(this.#window)
  }

  /** When the next request of a process that may send `share` of N is due, so that they are spread evenly. */
  dueBySpread(share: number): number {
    return this.#spreadAt + this.span / (share * this.#spread)
  }

  sent(now: number, share: number): void {
    this.#spreadAt = Math.max(now, this.dueBySpread(share))
  }

  /** Null while no limit is known. */
  get state(): ModelState | null {
    if (this.#count === null) return null
    return {
      ...{ count: this.#count, window: this.#window, margin: this.margin.extra, spread: this.#spread },
      ...{ proven: this.#proven, contradictions: this.#contradictions, unsure: this.#unsure },
      ...{ raise: this.#raise, waitBeforeRaise: this.#waitBeforeRaise },
    }
  }

  /**
   * Goes on from what another process learned; from null, as if nothing had been learned.
   * The next request is due at once, or if `keepsPace`, in the new distance from the last one.
   */
  adopt(state: ModelState | null, now: number, keepsPace = false): void {
    const { count, window, margin, ...rest } = state ?? UNKNOWN
    this.#count = count
    this.#window = window
    this.margin.extra = margin
    this.#spread = rest.spread
    this.#proven = rest.proven
    this.#contradictions = rest.contradictions
    this.#unsure = rest.unsure
    this.#raise = rest.raise
    this.#waitBeforeRaise = rest.waitBeforeRaise
    this.#raisedAt = now
    this.#quietSince = now
    if (!keepsPace) this.#spreadAt = Number.NEGATIVE_INFINITY
  }

  /**
   * Learns from an episode that has ended: the window is longer than `above` and at most `upTo`, unless an answer named
   * more.
   */
  learn(episode: Episode, before: EpisodeBefore, above: number, upTo: number): void {
    const named = episode.retryAfter === null ? 0 : episode.retryAfter - SECOND
    if (this.#count === null) this.#window = guessWindow(episode, this.#sends, Math.max(named, above), upTo)
    else if (named >= this.#window) this.#window = windowWithin(named, Number.POSITIVE_INFINITY)

    const jitter = this.margin.jitter(this.#window)
    const start = episode.sentAt - this.#window
    const most = this.#sends.between(start - jitter, episode.seenAt)
    const least = this.#sends.between(start + jitter, episode.sentAt - jitter)
    const previous = this.#count
    const likely = Math.max(1, this.#sends.between(start, episode.sentAt))
    this.#count = this.#judge(Math.max(1, most), Math.max(1, least), likely, episode, before)
    this.#unsure = previous !== this.#count && this.#proven === null && this.#count < Math.min(most, FEW)
    this.#raise = 0
    this.#proven = null
    this.#quietSince = episode.seenAt
    this.#spreadAt = Number.NEGATIVE_INFINITY
  }

  /** The new N, given that at least `least` and at most `most` accepted requests were in the window at a rejection. */
  #judge(most: number, least: number, likely: number, episode: Episode, before: EpisodeBefore): number {
    const count = this.#count
    if (count === null) {
      // Too few of our requests were in the window to fill it: another client or an earlier run did. Try again soon.
      this.#waitBeforeRaise = most <= 3 ? 5 * this.#window : FIRST_WAIT
      return episode.seenAt - before.startedAt < this.#window ? most : likely
    }
    if (this.#proven !== null && most >= this.#proven) {
      // The raise was too large: return to the proven N, or to the N that the window surely permitted.
      this.#waitBeforeRaise = Math.min(MAX_WAIT, this.#waitBeforeRaise * 2)
      return Math.max(this.#proven, Math.min(least, count))
    }
    if (most < count - Math.max(1, count * 0.02)) return this.#lowered(count, most, likely, episode, before)
    if (least > count) return least
    // The model is right and a request was rejected nevertheless: requests overtake each other by more than the margin.
    return this.margin.widen(this.#window) ? count : Math.max(1, Math.floor(count * 0.98))
  }

  /** Fewer requests were in the window than N: the limit fell, others share it, or it is a token bucket. */
  #lowered(count: number, most: number, likely: number, episode: Episode, { since }: EpisodeBefore): number {
    if (most > count * 0.9) return likely
    this.#waitBeforeRaise = FIRST_WAIT
    // A request that was sent before the limit was adopted does not contradict it a second time.
    const gap = episode.sentAt - (since ?? Number.NEGATIVE_INFINITY)
    const soon = gap > 0 && gap < 10 * this.#window
    this.#contradictions = soon ? this.#contradictions + 1 : 1
    if (this.#contradictions < 2 || since === undefined) return likely
    // A sliding window does not do this twice in a row. Between two rejections, a token bucket grants exactly its
    // refill. Approach that rate in steps, since another client that shares the limit has the same effect.
    this.#spread = 1
    const flowed = (this.#sends.between(since, episode.sentAt) / gap) * this.#window
    return Math.max(1, Math.min(most, Math.floor(Math.max(flowed, most * 0.85))))
  }

  /** N was learned from reports of others, which are not exact: where one request matters, one more is soon tried. */
  markUnsure(): void {
    this.#unsure ||= this.#count !== null && this.#count <= FEW
  }

  /** Raises N after a long time without a rejection, while requests wait: one waited last at `pressedAt`. */
  raiseWhenQuiet(now: number, pressedAt: number): void {
    const settled = this.span + this.margin.meanRoundTrip * 2
    const pressed = now - pressedAt < Math.max(SECOND, this.#window / 4)
    if (this.#raise === 0) {
      const wait = this.#unsure
        ? 10 * this.#window
        : Math.max(this.#waitBeforeRaise, 2 * this.#window, (300 * this.#window) / this.#count!)
      if (now - this.#quietSince < wait || !pressed) return
      if (this.margin.narrow(this.#window)) {
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
