/**
 * How often and when a failed attempt is repeated: `Retry-After` first, else exponential backoff with full jitter.
 *
 * Invariant: the number of attempts is bounded, and a pause is never longer than `LONGEST_PAUSE`; a service that asks
 * for more gets an error instead of a client that hangs. 429 is no failure and not counted here: the gate decides how
 * long it is waited for.
 */
import type { Again } from './failures.ts'

/** What is counted. */
type Counted = Exclude<Again, 'throttled'>

/** Milliseconds. */
export const LONGEST_PAUSE = 15 * 60_000

const TRIES: { readonly [again in Counted]: number } = { never: 1, backoff: 6, soon: 4 }
const FIRST_PAUSE = 500
const LARGEST_BACKOFF = 30_000

/**
 * Milliseconds to wait before another attempt, or null when there is to be none. `tries` counts the attempts that
 * failed; `retryAfter` is in milliseconds.
 */
export function pauseBefore(
  again: Counted,
  tries: number,
  retryAfter: number | null,
  random: () => number,
): number | null {
  if (tries >= TRIES[again]) return null
  if (retryAfter !== null) return retryAfter > LONGEST_PAUSE ? null : retryAfter
  return random() * Math.min(LARGEST_BACKOFF, FIRST_PAUSE * 2 ** (tries - 1))
}
