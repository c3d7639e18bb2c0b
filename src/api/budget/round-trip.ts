/**
 * Mean and deviation of the time until an answer arrives. Microseconds.
 *
 * Invariant: a single sample counts as at most four deviations, so that one long pause of a process does not count as
 * network jitter.
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
