/**
 * Guesses the length of the service's window from a throttled answer.
 *
 * Invariant: `windowWithin` returns no length of `USUAL` that was ruled out.
 */
import type { Sends } from './sends.ts'

const SECOND = 1_000_000

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
export interface Refused {
  readonly sentAt: number
  readonly retryAfter: number | null
  readonly rejections: number
}

/** The window in which a request exceeded the limit. It is longer than `above` and probably at most `upTo`. */
export function guessWindow(refused: Refused, sends: Sends, above: number, upTo: number): number {
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
