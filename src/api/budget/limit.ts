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
import { type Episode, LimitModel, type ModelState, type RateLimit } from './limit-model.ts'
import { blindPause, SECOND } from './margin.ts'
import { type Permits, Sends, type Share } from './sends.ts'

/** Requests in flight while no limit is known, which bounds the number of 429 that finding it costs; … */
const FIRST_IN_FLIGHT = 2
/** … after CAUTIOUS_REQUESTS accepted requests, this many, and then one per ACCEPTED_PER_IN_FLIGHT accepted. */
const CAUTIOUS_REQUESTS = 100
const LATER_IN_FLIGHT = 4
const ACCEPTED_PER_IN_FLIGHT = 50
/** After a silence this long, what was sent before it says nothing about the window of a first 429. */
const SILENCE = 60 * SECOND

/** One request in flight. */
export interface Ticket {
  readonly sentAt: number
}

export class Limit {
  /** The part of N that this process may use; null: all of it. */
  share: Share | null = null
  /** Requests of other processes, as far as a rejection has to be explained: [time, how many]. */
  others: Permits = []
  /** After a pause, and before the first word of the others: nothing is sent or learned. */
  isBlocked = false
  /** One process of a team raises N. */
  mayRaise = true
  readonly #concurrency: number
  readonly isConfigured: boolean
  /** True if the limit in force is configured, here or in another process. */
  isFixed: boolean
  readonly #sends = new Sends()
  readonly #model: LimitModel
  inFlight = 0
  #accepted = 0
  /** When the first request since a silence was sent. */
  #startedAt: number | null = null
  pausedUntil = Number.NEGATIVE_INFINITY
  /** Rejections since the last accepted request, counting only requests sent after the previous rejection arrived; … */
  #inRow = 0
  /** … and when the last of them arrived. */
  #rejectedAt = Number.NEGATIVE_INFINITY
  /** Rejections that are not yet explained. */
  episode: Episode | null = null
  #lastEpisode: Episode | null = null
  /** When a request last waited for the limit. */
  pressedAt = Number.NEGATIVE_INFINITY

  /** Without `configured`, the limit is learned. */
  constructor(concurrency: number, configured?: RateLimit) {
    this.#concurrency = concurrency
    this.isConfigured = configured !== undefined
    this.isFixed = this.isConfigured
    const between = (from: number, to: number) => this.#sends.between(from, to) + this.#ofOthers(from, to)
    this.#model = new LimitModel({ between }, configured)
  }

  /** The learned or configured limit; null while no limit is known. */
  get known(): ModelState | null {
    return this.#model.state
  }
  /** How long a request counts. */
  get span(): number {
    return this.#model.span
  }

  /** Goes on from what another process learned: it explains the rejections of this one too. From null, as at the start. */
  adopt(state: ModelState | null, now: number): void {
    if (state === null) this.#accepted = 0
    this.#lastEpisode = { sentAt: now, seenAt: now, rejections: 1, retryAfter: null }
    this.episode = null
    this.#model.adopt(state, now, this.isFixed)
  }

  /** Nothing is sent before `until`: another process was refused. */
  pause(until: number): void {
    this.pausedUntil = Math.max(this.pausedUntil, until)
  }

  /** Explains the rejections that another process saw, or leaves them to another (null). */
  takeOver(episode: Episode | null): void {
    this.episode = episode
    if (episode !== null) this.#startedAt ??= episode.sentAt
  }

  /** After a pause: learns, where `Retry-After` suffices. */
  resume(now: number): void {
    if (this.episode !== null && now >= this.pausedUntil && !this.isBlocked) this.#settle()
  }

  /** Gives back `count` permits of the share. */
  give(count: number, now: number): Permits {
    return this.share!.give(count, now, this.#sends, this.span)
  }

  /** Requests of this process in (from, to]. */
  sentBetween(from: number, to: number): number {
    return this.#sends.between(from, to)
  }

  /** Permitted requests per second; null while no limit is known. */
  get rate(): number | null {
    return this.known && this.known.count / (this.known.window / SECOND)
  }

  /** 0 if a request may be sent now; else microseconds until the next call can succeed; Infinity: not before an answer. */
  wait(now: number): number {
    if (this.inFlight >= this.#cap()) return Number.POSITIVE_INFINITY
    this.resume(now)
    if (now < this.pausedUntil) return this.pausedUntil - now
    if (this.isBlocked) return Number.POSITIVE_INFINITY
    // After a blind pause, a single request tests whether the service accepts requests again.
    if (this.episode !== null && this.inFlight > 0) return Number.POSITIVE_INFINITY
    const model = this.#model
    if (model.count === null || (this.episode !== null && !this.isConfigured)) return 0
    if (!this.isConfigured && this.mayRaise) model.raiseWhenQuiet(now, this.pressedAt)
    const early = Math.min(model.window, this.isFixed ? SECOND : Number.POSITIVE_INFINITY) * 0.1
    const due = Math.max(this.#byWindow(now, model.count), model.dueBySpread(this.#permits) - early)
    if (due <= now) return 0
    this.pressedAt = now
    return due - now
  }

  sent(now: number): Ticket {
    const last = this.#sends.newest(1)
    const isSilent = last !== undefined && now - last > SILENCE && this.episode === null
    if (isSilent || this.#startedAt === null) this.#startedAt = now
    this.inFlight += 1
    this.#sends.add(now)
    const model = this.#model
    if (model.count !== null) {
      model.sent(now, this.#permits)
      if (this.#sends.size > 4096) this.#sends.forgetUpTo(now - 2 * model.window - SECOND)
    }
    return { sentAt: now }
  }

  /** The service has counted the request, whatever its status. */
  accepted(ticket: Ticket, now: number): void {
    this.inFlight -= 1
    this.#accepted += 1
    this.#inRow = 0
    const { margin, window } = this.#model
    margin.measure(now - ticket.sentAt)
    // The service may have counted a slow request late: its window starts then.
    const counted = margin.countedAt(ticket.sentAt, now, window)
    if (counted > ticket.sentAt) this.#sends.postpone(ticket.sentAt, counted)
    const episode = this.episode
    if (episode !== null && ticket.sentAt > episode.seenAt) this.#reopen(episode, now)
  }

  /** There was no answer; the service may have counted the request. */
  lost(): void {
    this.inFlight -= 1
  }

  /** 429. `requested` is the `Retry-After` in microseconds, or null if the answer has none. */
  rejected(ticket: Ticket, now: number, requested: number | null): void {
    this.inFlight -= 1
    if (ticket.sentAt > this.#rejectedAt) {
      this.#inRow += 1
      this.#rejectedAt = now
    }
    // A `Retry-After` of zero that has failed twice is ignored.
    const retryAfter = requested !== null && requested < SECOND && this.#inRow > 2 ? null : requested
    if (!this.isConfigured) this.#sends.remove(ticket.sentAt)
    let episode = this.episode
    const late = this.#lastEpisode !== null && ticket.sentAt <= this.#lastEpisode.seenAt
    if (episode === null && late) {
      // Sent before the pause and answered after the model was learned: this 429 adds no information.
      this.pausedUntil = Math.max(this.pausedUntil, now + (retryAfter ?? 0))
      return
    }
    if (episode === null) {
      episode = { sentAt: ticket.sentAt, seenAt: now, rejections: 1, retryAfter }
      this.episode = episode
    } else if (ticket.sentAt > episode.seenAt) {
      episode.rejections += 1
      episode.retryAfter = retryAfter
    }
    const pause = retryAfter ?? blindPause(episode.rejections)
    this.pausedUntil = Math.max(this.pausedUntil, now + pause)
  }

  /** When the window permits the next request. */
  #byWindow(now: number, count: number): number {
    if (this.share !== null) return this.share.due(now, this.#sends, this.span)
    const oldest = this.#sends.newest(count)
    return oldest === undefined ? now : oldest + this.span
  }

  /** How many of N are spread evenly over the window. */
  get #permits(): number {
    return Math.max(1, this.share?.count ?? this.#model.count ?? 1)
  }

  #ofOthers(from: number, to: number): number {
    return this.others.reduce((sum, [at, n]) => (at > from && at <= to ? sum + n : sum), 0)
  }

  #cap(): number {
    if (this.#model.count !== null) return this.#concurrency
    const earned = Math.floor(this.#accepted / ACCEPTED_PER_IN_FLIGHT)
    const cautious = this.#accepted < CAUTIOUS_REQUESTS
    return Math.min(this.#concurrency, cautious ? FIRST_IN_FLIGHT : Math.max(LATER_IN_FLIGHT, earned))
  }

  /** At the end of a pause. A `Retry-After` suffices to learn the model; without one, the next accepted request does. */
  #settle(): void {
    const episode = this.episode!
    if (episode.retryAfter === null) return
    const { margin, window } = this.#model
    const elapsed = episode.sentAt - (this.#startedAt ?? episode.sentAt)
    this.#learn(
      episode,
      elapsed + episode.retryAfter - SECOND,
      elapsed + episode.retryAfter + margin.jitter(window),
    )
  }

  /** A request was accepted after blind pauses: the window is longer than the last failed wait, and at most this one. */
  #reopen(episode: Episode, now: number): void {
    const start = this.#startedAt ?? episode.sentAt
    const failed = episode.rejections > 1 ? this.pausedUntil - blindPause(episode.rejections) : episode.sentAt
    this.#learn(episode, failed - start, now - start)
  }

  #learn(episode: Episode, above: number, upTo: number): void {
    if (!this.isConfigured) {
      const before = { startedAt: this.#startedAt!, since: this.#lastEpisode?.sentAt }
      const isFirst = this.#model.count === null
      this.#model.learn(episode, before, above, upTo)
      if (isFirst && this.others.length > 0) this.#model.markUnsure()
    }
    this.#lastEpisode = episode
    this.episode = null
  }
}
