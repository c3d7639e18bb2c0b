/**
 * When to retry a failed attempt: after `Retry-After`, else with exponential backoff and full jitter.
 *
 * Invariant: the number of attempts is bounded. A pause never exceeds `MAX_PAUSE_MS`; if the service requests a longer
 * one, the call fails. 429 is not a failure and not counted here: the limiter decides how long to wait.
 */
import type { RetryKind } from './failures.ts'

/** The failures that count as attempts. */
type CountedKind = Exclude<RetryKind, 'throttled'>

/** Milliseconds. */
export const MAX_PAUSE_MS = 15 * 60_000

const TRIES: { readonly [again in CountedKind]: number } = { never: 1, backoff: 6, soon: 4 }
const FIRST_PAUSE = 500
const MAX_BACKOFF_MS = 30_000

/**
 * Milliseconds to wait before another attempt, or null for no other attempt. `tries` counts the failed attempts;
 * `retryAfter` is in milliseconds.
 */
export function pauseBefore(
  again: CountedKind,
  tries: number,
  retryAfter: number | null,
  random: () => number,
): number | null {
  if (tries >= TRIES[again]) return null
  if (retryAfter !== null) return retryAfter > MAX_PAUSE_MS ? null : retryAfter
  return random() * Math.min(MAX_BACKOFF_MS, FIRST_PAUSE * 2 ** (tries - 1))
}

/**
 * The milliseconds that the service wants us to wait, 0 or more: from the `Retry-After` header (seconds or an HTTP date),
 * else from the sentence in the body (specification, section 7; either may be absent). Null if the answer has no time.
 * `now` and `serviceDate` are milliseconds since 1970.
 */
export function retryAfterOf(
  header: string | undefined,
  body: Uint8Array,
  serviceDate: number | null,
  now: number,
): number | null {
  const text = header?.trim() ?? ''
  if (/^\d{1,9}(?:\.\d+)?$/.test(text)) return Number(text) * 1000
  if (/^[A-Za-z]/.test(text)) {
    const time = Date.parse(text)
    // The date refers to the service's clock, which the `Date` header shows.
    if (Number.isFinite(time)) return Math.max(0, time - (serviceDate ?? now))
  }
  const sentence = /available in (\d{1,9}) second/.exec(
    Buffer.from(body.subarray(0, 2048)).toString('latin1'),
  )
  return sentence ? Number(sentence[1]) * 1000 : null
}
