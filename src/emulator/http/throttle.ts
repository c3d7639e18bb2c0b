/**
 * The rate limit of one team: a sliding window of real time.
 *
 * Invariant: at most `requests` calls are let through in any `seconds`; a rejected call leaves no trace, so hammering
 * does not lengthen the wait.
 */
export interface RateLimit {
  readonly requests: number
  readonly seconds: number
}

export class SlidingWindow {
  #passed: number[] = []
  #oldest = 0

  /** Lets a call of `now` (microseconds) through and answers 0, or answers how many microseconds to wait. */
  admit(limit: RateLimit, now: number): number {
    const start = now - limit.seconds * 1_000_000
    while (this.#oldest < this.#passed.length && this.#passed[this.#oldest]! <= start) this.#oldest += 1
    if (this.#oldest > 1024 && this.#oldest * 2 > this.#passed.length) {
      this.#passed = this.#passed.slice(this.#oldest)
      this.#oldest = 0
    }
    const held = this.#passed.length - this.#oldest
    if (held < limit.requests) {
      this.#passed.push(now)
      return 0
    }
    return this.#passed[this.#passed.length - limit.requests]! - start
  }
}
