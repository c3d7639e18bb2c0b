/**
 * Guesses the length of the service's window from what a throttled answer gave away.
 *
 * Invariant: a guess is never shorter than what was ruled out, as long as the list goes that far.
 */
import type { Sends } from './sends.ts'

const SECOND = 1_000_000

/** Lengths that services use, in microseconds. */
const USUAL = [1, 2, 5, 10, 15, 20, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 86400].map(
  (s) => s * SECOND,
)

/** The usual length in (above, upTo], else the least usual one above `above`. Microseconds. */
export function windowWithin(above: number, upTo: number): number {
  return (
    USUAL.find((length) => length > above && length <= upTo) ??
    USUAL.find((length) => length > above) ??
    Math.ceil(above)
  )
}

/** Pauses after a throttled answer that does not say how long to wait: after the first, after the second, … */
export function blindPause(rejections: number): number {
  const waits = [1, 1, 3, 5, 20, 30, 60, 120, 300]
  return waits[Math.min(rejections, waits.length) - 1]! * SECOND
}

/** What a first 429 tells of the window: when its request was sent, how long it says to wait, how often it came in a row. */
export interface Refused {
  readonly sentAt: number
  readonly retryAfter: number | null
  readonly rejections: number
}

/** The window in which a request was one too many, known to be longer than `above` and, perhaps, no longer than `upTo`. */
export function guessWindow(refused: Refused, sends: Sends, above: number, upTo: number): number {
  const { sentAt, retryAfter, rejections } = refused
  const longer = windowWithin(above, upTo)
  const brief = (retryAfter ?? blindPause(1)) <= SECOND && rejections === 1
  if (!brief) return longer
  // A second's wait fits a window of a second at any time, and a longer one that our first request is just about
  // to leave. It is the longer one if we went no faster than before and were refused all the same.
  const last = sends.between(sentAt - SECOND, sentAt)
  const previous = sends.between(sentAt - 2 * SECOND, sentAt - SECOND)
  return above > 3 * SECOND && longer <= upTo && last <= 1.05 * previous + 1 ? longer : SECOND
}
