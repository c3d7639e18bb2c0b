/**
 * A secret at rest: AES-256-GCM under the key of INTAKE_ENCRYPTION_KEY.
 *
 * Invariant: a box opens only with the key and the place (a list of words) that it was sealed for, so a box that was
 * moved to another row or changed by a bit is refused; no error contains a byte of key, box or secret.
 *
 *   box = version (1 byte) | nonce (12, random) | tag (16) | ciphertext
 */
import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto'
import { IntakeError, UsageError } from './errors.ts'

const VERSION = 1
const NONCE = 12
const TAG = 16
const HEADER = 1 + NONCE + TAG

/** The row that a box is bound to, such as `['webhook_secret', team, configuration]`; no secret itself. */
export type Place = readonly (string | number)[]

/** The 32 bytes that `text` is in base64 (either alphabet). Throws `UsageError`. */
export function keyOf(text: string): Buffer {
  const key = Buffer.from(text, 'base64')
  if (key.length === 32) return key
  throw new UsageError(
    'INTAKE_ENCRYPTION_KEY is not 32 bytes in base64',
    'set INTAKE_ENCRYPTION_KEY to 32 bytes in base64',
    'INTAKE_ENCRYPTION_KEY',
  )
}

export function seal(secret: string, key: Buffer, place: Place): Buffer {
  const nonce = randomBytes(NONCE)
  const cipher = createCipheriv('aes-256-gcm', key, nonce, { authTagLength: TAG }).setAAD(bytesOf(place))
  const sealed = Buffer.concat([cipher.update(secret, 'utf8'), cipher.final()])
  return Buffer.concat([Buffer.from([VERSION]), nonce, cipher.getAuthTag(), sealed])
}

/** The secret in `box`. Throws an error with code `secret_unreadable`. */
export function open(box: Uint8Array, key: Buffer, place: Place): string {
  if (box.length < HEADER || box[0] !== VERSION) throw unreadable()
  const decipher = createDecipheriv('aes-256-gcm', key, box.subarray(1, 1 + NONCE), { authTagLength: TAG })
  decipher.setAAD(bytesOf(place)).setAuthTag(box.subarray(1 + NONCE, HEADER))
  try {
    return Buffer.concat([decipher.update(box.subarray(HEADER)), decipher.final()]).toString('utf8')
  } catch {
    throw unreadable()
  }
}

function bytesOf(place: Place): Buffer {
  return Buffer.from(JSON.stringify([VERSION, ...place]), 'utf8')
}

function unreadable(): IntakeError {
  return new IntakeError('a stored secret cannot be opened', {
    code: 'secret_unreadable',
    verdict: 'stop',
    hint: 'Set INTAKE_ENCRYPTION_KEY to the key it was stored under; if that is lost, create the webhook anew.',
  })
}
