/**
 * How long an answer takes, and how much that varies.
 *
 * Invariant: one long pause of either process is no jitter of the way, so a single sample never moves the deviation by
 * more than four times itself. Microseconds.
 */

const REMEMBERED = 32
const LEAST_STEP = 1_000

export class RoundTrip {
  mean = 0
  deviation = 0
  #samples = 0

  measure(roundTrip: number): void {
    this.#samples = Math.min(this.#samples + 1, REMEMBERED + 1)
    if (this.#samples === 1) {
      this.mean = roundTrip
      return
    }
    const off = Math.min(Math.abs(roundTrip - this.mean), Math.max(LEAST_STEP, 4 * this.deviation))
    this.deviation += (off - this.deviation) / (this.#samples - 1)
    this.mean += (roundTrip - this.mean) / this.#samples
  }
}
