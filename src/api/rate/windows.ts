/**
 * Guesses the length of the service's window from what a throttled answer gave away.
 *
 * Invariant: a guess is never shorter than what was ruled out, as long as the list goes that far.
 */

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
