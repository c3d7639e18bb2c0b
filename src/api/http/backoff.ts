/**
 * When to retry a failed attempt: after `Retry-After`, else with exponential backoff and full jitter.
 *
 * Invariant: the number of attempts is bounded. A pause never exceeds `LONGEST_PAUSE`; if the service asks for a longer
 * one, the call fails. 429 is not a failure and not counted here: the limiter decides how long to wait.
 */
import type { Again } from './failures.ts'

/** The failures that count as attempts. */
type Counted = Exclude<Again, 'throttled'>

/** Milliseconds. */
export const LONGEST_PAUSE = 15 * 60_000

const TRIES: { readonly [again in Counted]: number } = { never: 1, backoff: 6, soon: 4 }
const FIRST_PAUSE = 500
const LARGEST_BACKOFF = 30_000

/**
 * Milliseconds to wait before another attempt, or null for no other attempt. `tries` counts the failed attempts;
 * `retryAfter` is in milliseconds.
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
