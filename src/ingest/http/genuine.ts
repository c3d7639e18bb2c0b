/**
 * Checks that a body was signed with a secret of its team (specification, section 5 item 7).
 *
 * Invariant: secrets are compared in constant time only; a secret that was stored a moment ago is accepted.
 */
import { isSigned } from '../../core/signature.ts'
import type { SecretSource } from './secrets.ts'

export type Genuineness = 'genuine' | 'signature' | 'no_secret' | 'unavailable' | 'unknown_team'

const SIGNATURE = /^[0-9a-f]{64}$/i

/**
 * `signature`: the header as received. A header that was sent twice arrives as one text with a comma, which is no
 * signature.
 */
export function judge(
  body: Buffer,
  signature: unknown,
  secrets: SecretSource,
): Genuineness | Promise<Genuineness> {
  if (typeof signature !== 'string') return 'signature'
  if (isSigned(body, signature, secrets.current())) return 'genuine'
  return SIGNATURE.test(signature) ? lookAgain(body, signature, secrets) : 'signature'
}

async function lookAgain(body: Buffer, signature: string, secrets: SecretSource): Promise<Genuineness> {
  try {
    const fresh = await secrets.refresh()
    if (fresh.length === 0) return secrets.isRemoved() ? 'unknown_team' : 'no_secret'
    return isSigned(body, signature, fresh) ? 'genuine' : 'signature'
  } catch {
    return 'unavailable'
  }
}
