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

const SECONDS: Readonly<Record<string, number>> = { s: 1, m: 60, h: 3600 }

/** Reads `10/s`, `600/m`, `5000/h`, or a bare number a second; a part of a request is one in so long: `2.5/s` one in 0.4 s. */
export function parseRateLimit(text: string): RateLimit | undefined {
  const match = /^(\d+(?:\.\d+)?)(?:\/(s|m|h))?$/.exec(text.trim())
  if (match === null) return undefined
  const [requests, seconds] = [Number(match[1]), SECONDS[match[2] ?? 's']!]
  if (Number.isInteger(requests)) return { requests, seconds }
  return { requests: 1, seconds: seconds / requests }
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
