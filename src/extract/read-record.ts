/**
 * One list entry or fetched record → an envelope, or a dead letter that says why it cannot be one (laws 2 and 4).
 *
 * Invariant: whatever came is in one of the two; a reason never holds a value.
 */
import { canonicalText, contentHash } from '../core/canonical.ts'
import type { Envelope } from '../core/envelope.ts'
import { FUTURE_TOLERANCE_SECONDS, versionOf } from '../core/envelope.ts'
import { IntakeError } from '../core/errors.ts'
import { recordId } from '../core/identifiers.ts'
import { isObject, type JsonObject } from '../core/json.ts'
import type { Problem } from '../core/problem.ts'
import { maybeUnstorable, storable } from '../core/storable.ts'
import type { StreamName } from '../core/streams.ts'
import type { Instant } from '../core/time.ts'
import type { DeadLetter } from '../load/dead-letters.ts'

/** Where and when a record was read. */
export interface Reading {
  readonly teamId: number
  readonly stream: StreamName
  readonly origin: string
  readonly observedAt: Instant
  /** The body it came in held bytes that are not UTF-8. */
  readonly invalidUtf8: boolean
}

export type ReadRecord =
  | { readonly kind: 'record'; readonly envelope: Envelope }
  | { readonly kind: 'dead'; readonly letter: DeadLetter }

export function readRecord(value: unknown, reading: Reading): ReadRecord {
  let text: string
  try {
    text = canonicalText(value)
  } catch (error) {
    // Too deep to be walked: the native writer, which does not recurse in our stack, keeps what it can.
    const reason = error instanceof IntakeError ? error.message : 'cannot be read'
    return dead(null, reason, '(too deep to keep)', reading)
  }
  if (!isObject(value)) return dead(null, 'not an object', text, reading)
  const id = recordId(value)
  if (id.kind !== 'id') return dead(null, ID_REASONS[id.kind], text, reading)
  return { kind: 'record', envelope: envelopeOf(id.id, value, text, reading) }
}

const ID_REASONS = {
  none: 'has no id',
  inexact: 'has an id that JSON numbers cannot carry exactly',
  unusable: 'has an id that cannot be a key',
} as const

function envelopeOf(id: string, record: JsonObject, text: string, reading: Reading): Envelope {
  const { teamId, stream, origin, observedAt } = reading
  const problems: Problem[] = []
  const { version, tooFarAhead } = versionOf(record.updated_at, observedAt)
  if (tooFarAhead) {
    const reason = `more than ${FUTURE_TOLERANCE_SECONDS / 60} minutes ahead of the service's clock; does not count as version`
    problems.push({ path: 'updated_at', reason, original: record.updated_at })
  }
  const hash = contentHash(text)
  if (!maybeUnstorable(text)) {
    return {
      teamId,
      stream,
      id,
      version,
      observedAt,
      origin,
      content: { payload: record, text, hash, problems },
    }
  }
  const payload = storable(record, reading.invalidUtf8, problems) as JsonObject
  return {
    teamId,
    stream,
    id,
    version,
    observedAt,
    origin,
    content: { payload, text: canonicalText(payload), hash, problems },
  }
}

function dead(recordId: string | null, reason: string, body: string, reading: Reading): ReadRecord {
  return { kind: 'dead', letter: { recordId, origin: reading.origin, reason, body } }
}

/** The news that a record is gone, as of `observedAt`. */
export function tombstone(id: string, reading: Omit<Reading, 'invalidUtf8'>): Envelope {
  const { teamId, stream, origin, observedAt } = reading
  return { teamId, stream, id, version: observedAt, observedAt, origin, content: null }
}
