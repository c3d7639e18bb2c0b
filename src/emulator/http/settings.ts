/** Settings of both environments. Those that are not `readonly` can change while the emulator runs. */
import type { Bursts } from '../faults/fire.ts'
import type { FaultRule } from '../faults/parse.ts'
import type { Shape } from '../shapes/shape.ts'

export interface Settings {
  readonly seed: string
  readonly shape: Shape
  readonly defaultPageSize: number
  rateLimit: RateLimit | null
  faults: readonly FaultRule[]
  /** Faults for the next requests, one each; they take precedence over rules. */
  readonly next: { readonly path: string; readonly rule: FaultRule }[]
  /** Refusals that continue over several requests. */
  readonly bursts: Bursts
  /** Requests that faults could have applied to so far; it makes faults the same in every run. */
  requests: number
}

/**
 * The rate limit of one team: a sliding window of real time.
 *
 * Invariant: at most `requests` calls are admitted in any `seconds`; rejected calls do not count, so repeating them
 * does not lengthen the wait.
 */
export interface RateLimit {
  readonly requests: number
  readonly seconds: number
}

const SECONDS: Readonly<Record<string, number>> = { s: 1, m: 60, h: 3600 }

/** Reads `10/s`, `600/m`, `5000/h`, or a bare number per second; a fraction becomes one request: `2.5/s` is one per 0.4 s. */
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

  /** Admits a call at `now` (microseconds) and returns 0, or returns the microseconds to wait. */
  admit(limit: RateLimit, now: number): number {
    const start = now - limit.seconds * 1_000_000
    while (this.#oldest < this.#passed.length && this.#passed[this.#oldest]! <= start) this.#oldest += 1
    if (this.#oldest > 1024 && this.#oldest * 2 > this.#passed.length) {
      this.#passed = this.#passed.slice(this.#oldest)
      this.#oldest = 0
    }
    const count = this.#passed.length - this.#oldest
    if (count < limit.requests) {
      this.#passed.push(now)
      return 0
    }
    return this.#passed[this.#passed.length - limit.requests]! - start
  }
}
