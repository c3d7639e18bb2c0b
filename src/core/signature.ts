/**
 * Signatures of webhook deliveries (specification, section 5 item 7). Shared by the ingester and the emulator, which
 * is why it imports nothing of ours.
 *
 * Invariant: a signature is the lower-case hex HMAC-SHA256 of the exact raw bytes of the body; comparing takes the
 * same time for every signature of that form.
 */
import { createHmac, timingSafeEqual } from 'node:crypto'

export const SIGNATURE_HEADER = 'x-service-signature'

/** Hex HMAC-SHA256 of `body` under `secret`, as the service sends it in `X-Service-Signature`. */
export function sign(body: Uint8Array, secret: string): string {
  return createHmac('sha256', secret).update(body).digest('hex')
}

const SIGNATURE = /^[0-9a-f]{64}$/i

/** True when `signature` (hex, either case) is that of `body` under any of `secrets`; constant time for each secret. */
export function isSigned(body: Uint8Array, signature: string, secrets: readonly string[]): boolean {
  if (!SIGNATURE.test(signature)) return false
  const given = Buffer.from(signature, 'hex')
  let matched = false
  for (const secret of secrets) {
    const expected = createHmac('sha256', secret).update(body).digest()
    if (timingSafeEqual(given, expected)) matched = true
  }
  return matched
}
