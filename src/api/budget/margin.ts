/**
 * What of a window stays unused, because requests overtake each other on their way and answers are counted late.
 *
 * Invariant: never less than a small share of the window and never more than a larger one, whatever the round trips; it is
 * widened step by step where that was not enough, and narrowed again in times of quiet. Microseconds.
 */
import { RoundTrip } from './round-trip.ts'

/** Share of the window that stays unused, whatever the jitter; and the most that a margin may take. */
const LEAST_MARGIN = 0.008
const LARGEST_MARGIN = 0.05
const JITTER_MARGIN = 1
const LARGEST_JITTER_MARGIN = 0.012
const STEP = 0.01
/** By how much of the window a late answer may move its request. */
const LARGEST_DELAY = 0.1

export class Margin {
  readonly #roundTrip = new RoundTrip()
  #extra = 0

  get meanRoundTrip(): number {
    return this.#roundTrip.mean
  }

  measure(roundTrip: number): void {
    this.#roundTrip.measure(roundTrip)
  }

  of(window: number): number {
    const { deviation } = this.#roundTrip
    const least = window * LEAST_MARGIN + Math.min(deviation * JITTER_MARGIN, window * LARGEST_JITTER_MARGIN)
    return Math.min(window * LARGEST_MARGIN, least + this.#extra)
  }

  /** By how much two requests may overtake each other on their way. */
  jitter(window: number): number {
    return Math.min(window * 0.1, Math.max(1_000, 2 * this.#roundTrip.deviation))
  }

  /** When a request was counted whose answer came at `now`: one that took long was perhaps counted late. */
  countedAt(sentAt: number, now: number, window: number): number {
    const { mean, deviation } = this.#roundTrip
    const late = now - mean - deviation - this.of(window) / 2 // half the margin is there for just this
    return Math.min(late, sentAt + window * LARGEST_DELAY)
  }

  /** False when it is as wide as it may be. */
  widen(window: number): boolean {
    const room = window * LARGEST_MARGIN
    if (this.of(window) >= room) return false
    this.#extra = Math.min(room, this.#extra + window * STEP)
    return true
  }

  /** Takes half of the widening back; false when there is none. */
  narrow(window: number): boolean {
    if (this.#extra <= 0) return false
    this.#extra = this.#extra < (window * STEP) / 2 ? 0 : this.#extra / 2
    return true
  }
}
