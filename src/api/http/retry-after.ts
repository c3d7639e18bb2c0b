/**
 * How long the service asks us to wait: the `Retry-After` header (whole seconds or an HTTP date), else the number in
 * the throttling sentence (specification, section 7; either may be absent).
 *
 * Invariant: the answer is null or a number of milliseconds from zero up; the sentence itself goes nowhere.
 */

/** Milliseconds to wait, or null when the answer does not say. `now` and an HTTP date are in milliseconds since 1970. */
export function retryAfterOf(
  header: string | undefined,
  body: Uint8Array,
  serviceDate: number | null,
  now: number,
): number | null {
  const text = header?.trim() ?? ''
  if (/^\d{1,9}(?:\.\d+)?$/.test(text)) return Number(text) * 1000
  if (/^[A-Za-z]/.test(text)) {
    const at = Date.parse(text)
    // The service's own clock, where it told it: a date is meant in that clock.
    if (Number.isFinite(at)) return Math.max(0, at - (serviceDate ?? now))
  }
  const sentence = /available in (\d{1,9}) second/.exec(
    Buffer.from(body.subarray(0, 2048)).toString('latin1'),
  )
  return sentence ? Number(sentence[1]) * 1000 : null
}
