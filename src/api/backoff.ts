/**
 * How often and when a failed attempt is repeated: `Retry-After` first, else exponential backoff with full jitter.
 *
 * Invariant: the number of attempts is bounded for every kind of failure, and a pause is never longer than
 * `LONGEST_PAUSE`; a service that asks for more gets an error instead of a client that hangs.
 */
import type { Again } from './failures.ts'

/** Milliseconds. */
export const LONGEST_PAUSE = 15 * 60_000

const TRIES: { readonly [again in Again]: number } = { never: 1, backoff: 6, soon: 4, throttled: 10 }
const FIRST_PAUSE: { readonly [again in Again]: number } = {
  never: 0,
  backoff: 500,
  soon: 500,
  throttled: 1_000,
}
const LARGEST_BACKOFF = 30_000

/**
 * Milliseconds to wait before another attempt, or null when there is to be none. `tries` counts the attempts already
 * made; `retryAfter` is in milliseconds.
 */
export function pauseBefore(
  again: Again,
  tries: number,
  retryAfter: number | null,
  random: () => number,
): number | null {
  if (tries >= TRIES[again]) return null
  if (retryAfter !== null) return retryAfter > LONGEST_PAUSE ? null : retryAfter
  return random() * Math.min(LARGEST_BACKOFF, FIRST_PAUSE[again] * 2 ** (tries - 1))
}
