/**
 * Reads how long the service asks us to wait: from the `Retry-After` header (seconds or an HTTP date), else from the
 * sentence in the body (specification, section 7; either may be absent).
 *
 * Invariant: the result is null or a number of milliseconds of 0 or more; it contains no text of the body.
 */

/** Milliseconds to wait, or null if the answer has no time. `now` and `serviceDate` are milliseconds since 1970. */
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
    // The date refers to the service's clock, which the `Date` header shows.
    if (Number.isFinite(at)) return Math.max(0, at - (serviceDate ?? now))
  }
  const sentence = /available in (\d{1,9}) second/.exec(
    Buffer.from(body.subarray(0, 2048)).toString('latin1'),
  )
  return sentence ? Number(sentence[1]) * 1000 : null
}
