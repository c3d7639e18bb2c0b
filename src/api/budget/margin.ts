/**
 * The length of a service's window, guessed from a first rejection, and its unused part, which allows for requests that overtake each other or are counted late.
 *
 * Invariant: the unused part is always between MIN_MARGIN and MAX_MARGIN of the window. It widens in steps when it was too small, and
 * narrows again after a time without 429. Microseconds.
 */

export const SECOND = 1_000_000

/** Smallest and largest margin, as shares of the window. */
const MIN_MARGIN = 0.008
const MAX_MARGIN = 0.05
const JITTER_MARGIN = 1
const MAX_JITTER_MARGIN = 0.012
const STEP = 0.01
/** The most by which a late answer moves its request, as a share of the window. */
const MAX_DELAY = 0.1

export class Margin {
  readonly #roundTrip = new RoundTrip()
  /** Added because rejections showed it to be too small. */
  extra = 0

  get meanRoundTrip(): number {
    return this.#roundTrip.mean
  }

  measure(roundTrip: number): void {
    this.#roundTrip.measure(roundTrip)
  }

  of(window: number): number {
    const { deviation } = this.#roundTrip
    const least = window * MIN_MARGIN + Math.min(deviation * JITTER_MARGIN, window * MAX_JITTER_MARGIN)
    return Math.min(window * MAX_MARGIN, least + this.extra)
  }

  /** The most by which two requests are expected to overtake each other. */
  jitter(window: number): number {
    return Math.min(window * 0.1, Math.max(1_000, 2 * this.#roundTrip.deviation))
  }

  /** The latest time at which the service may have counted a request whose answer arrived at `now`. */
  countedAt(sentAt: number, now: number, window: number): number {
    const { mean, deviation } = this.#roundTrip
    const late = now - mean - deviation - this.of(window) / 2 // half of the margin allows for this delay
    return Math.min(late, sentAt + window * MAX_DELAY)
  }

  /** Returns false at the largest margin. */
  widen(window: number): boolean {
    const room = window * MAX_MARGIN
    if (this.of(window) >= room) return false
    this.extra = Math.min(room, this.extra + window * STEP)
    return true
  }

  /** Halves the widening; returns false if there is none. */
  narrow(window: number): boolean {
    if (this.extra <= 0) return false
    this.extra = this.extra < (window * STEP) / 2 ? 0 : this.extra / 2
    return true
  }
}

/**
 * Mean and deviation of the time until an answer arrives. Microseconds.
 *
 * Invariant: a single sample counts as at most four deviations, so that one long pause of a process does not count as
 * network jitter.
 */
const REMEMBERED = 32
const MIN_STEP = 1_000

class RoundTrip {
  mean = 0
  deviation = 0
  #samples = 0

  measure(roundTrip: number): void {
    this.#samples = Math.min(this.#samples + 1, REMEMBERED + 1)
    if (this.#samples === 1) {
      this.mean = roundTrip
      return
    }
    const off = Math.min(Math.abs(roundTrip - this.mean), Math.max(MIN_STEP, 4 * this.deviation))
    this.deviation += (off - this.deviation) / (this.#samples - 1)
    this.mean += (roundTrip - this.mean) / this.#samples
  }
}

/** The requests of the team that the service counted, of whichever process. */
export interface Counted {
  /** Those in (from, to]. */
  between(from: number, to: number): number
}

/** Common lengths of windows, in microseconds. */
const USUAL = [1, 2, 5, 10, 15, 20, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 86400].map(
  (s) => s * SECOND,
)

/** The shortest common length in (above, upTo], else the shortest one above `above`. Microseconds. */
export function windowWithin(above: number, upTo: number): number {
  return (
    USUAL.find((length) => length > above && length <= upTo) ??
    USUAL.find((length) => length > above) ??
    Math.ceil(above)
  )
}

/** The pause after the n-th throttled answer in a row without `Retry-After`, in microseconds. */
export function blindPause(rejections: number): number {
  const waits = [1, 1, 3, 5, 20, 30, 60, 120, 300]
  return waits[Math.min(rejections, waits.length) - 1]! * SECOND
}

/** A first 429: when its request was sent, its `Retry-After`, and the number of 429 in a row. */
interface Refused {
  readonly sentAt: number
  readonly retryAfter: number | null
  readonly rejections: number
}

/** The window in which a request exceeded the limit. It is longer than `above` and probably at most `upTo`. */
export function guessWindow(refused: Refused, sends: Counted, above: number, upTo: number): number {
  const { sentAt, retryAfter, rejections } = refused
  const longer = windowWithin(above, upTo)
  const brief = (retryAfter ?? blindPause(1)) <= SECOND && rejections === 1
  if (!brief) return longer
  // A `Retry-After` of one second fits a window of one second, and a longer one that our first request is about to
  // leave. It is the longer one if the rate did not increase and the request was rejected nevertheless.
  const last = sends.between(sentAt - SECOND, sentAt)
  const previous = sends.between(sentAt - 2 * SECOND, sentAt - SECOND)
  return above > 3 * SECOND && longer <= upTo && last <= 1.05 * previous + 1 ? longer : SECOND
}
