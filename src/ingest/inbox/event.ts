/**
 * An event as the inbox stores it: its exact bytes, and the few fields by which it is found.
 *
 * Invariant: every body has a key, and nothing in a key can be refused by Postgres; the same bytes have the same key.
 */
import { isUtf8 } from 'node:buffer'
import { hash } from 'node:crypto'
import { type IdReading, recordId, referenceId } from '../../core/identifiers.ts'
import { isObject, isTooComplex, parseJson } from '../../core/json.ts'

export interface InboxEvent {
  readonly teamId: number
  readonly body: Buffer
  /** SHA-256 of the body, in hex. */
  readonly bodyHash: string
  /** The id of the envelope; `unreadable:` and the hash where it has none that can be used. */
  readonly eventId: string
  readonly eventType: string | null
  readonly source: string | null
  /** The id in `data`. */
  readonly recordId: string | null
}

/** In bytes; real event types and sources are far shorter. */
const MAX_NAME_BYTES = 100
const BRACE = 0x7b
const NOTHING: Readonly<Record<string, unknown>> = {}

export function readEvent(teamId: number, body: Buffer): InboxEvent {
  const bodyHash = hash('sha256', body, 'hex')
  const envelope = parseEnvelope(body)
  const readable = isObject(envelope) ? envelope : NOTHING
  // Written out: spreading an object would cost as much as parsing the event.
  return {
    teamId,
    body,
    bodyHash,
    eventId: idOf(recordId(readable)) ?? `unreadable:${bodyHash}`,
    eventType: nameOf(readable.event_type),
    source: nameOf(readable.source),
    recordId: idOf(referenceId(readable.data)),
  }
}

/** Undefined for a body that is not JSON, or has too many levels or values. */
function parseEnvelope(body: Buffer): unknown {
  if (isTooComplex(body)) return undefined
  try {
    // Plain bodies are read by the native parser alone, which is right about everything but numbers.
    if (body[0] === BRACE && isUtf8(body)) {
      const value: unknown = JSON.parse(body.toString('utf8'))
      if (!hasNumberAsId(value)) return value
    }
    return parseJson(body).value
  } catch {
    return undefined
  }
}

function hasNumberAsId(value: unknown): boolean {
  if (!isObject(value)) return false
  const data = isObject(value.data) ? value.data : { id: value.data }
  return [value.id, value.uid, data.id, data.uid].some((id) => typeof id === 'number')
}

function idOf(reading: IdReading): string | null {
  return reading.kind === 'id' ? reading.id : null
}

function nameOf(value: unknown): string | null {
  if (typeof value !== 'string' || value === '' || value.includes('\0')) return null
  return value.isWellFormed() && Buffer.byteLength(value) <= MAX_NAME_BYTES ? value : null
}

/** `removed`: not stored, because its team was removed. */
export type StoreOutcome = 'stored' | 'duplicate' | 'removed'

/** Events are duplicates only within a team. The body contains the event's id. */
export function keyOf(event: InboxEvent): string {
  return `${event.teamId}:${event.bodyHash}`
}
