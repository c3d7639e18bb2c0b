/**
 * One list entry or fetched record → an envelope, or a dead letter that says why it cannot be one (laws 2 and 4).
 *
 * Invariant: the envelope or the dead letter contains the whole input, except the values that its stream stores in no
 * table (`cleanse`): these are in neither, nor in the hashed content. A reason never contains a value.
 */
import { stringify } from 'lossless-json'
import { canonicalText, contentHash, isWithinNumeric, rewrittenNumbersMet } from '../core/canonical.ts'
import {
  type Envelope,
  FUTURE_TOLERANCE_SECONDS,
  type Problem,
  type VersionReading,
  versionOf,
} from '../core/envelope.ts'
import { IntakeError } from '../core/errors.ts'
import { recordId } from '../core/identifiers.ts'
import { isLosslessNumber, isObject, type JsonObject, TOO_DEEP } from '../core/json.ts'
import type { Instant } from '../core/time.ts'
import type { Stream } from '../streams/stream.ts'

/** A record or event that could not be loaded, and the reason. */
export interface DeadLetter {
  readonly recordId: string | null
  readonly origin: string
  /** Describes the error; never contains a value. */
  readonly reason: string
  /** The record or event, as text or bytes. */
  readonly body: string | Buffer
}

/** Where and when a record was read. */
export interface Reading {
  readonly teamId: number
  readonly stream: Stream
  readonly origin: string
  readonly observedAt: Instant
  /** Upper bound of the time of reading, if later than `observedAt`: a retried event carries newer data under its old time. */
  readonly readBy?: Instant
  /** True if the body contained bytes that are not UTF-8. */
  readonly invalidUtf8: boolean
}

export type ReadRecord =
  | { readonly kind: 'record'; readonly envelope: Envelope }
  | { readonly kind: 'dead'; readonly deadLetter: DeadLetter }

export function readRecord(input: unknown, reading: Reading): ReadRecord {
  const { cleanse } = reading.stream
  const value = cleanse === undefined ? input : cleanse(input)
  const before = rewrittenNumbersMet()
  let text: string
  try {
    text = canonicalText(value)
  } catch (error) {
    return dead(error instanceof IntakeError ? error.message : 'cannot be read', value, reading)
  }
  if (!isObject(value)) return dead('not an object', value, reading)
  const id = recordId(value)
  if (id.kind !== 'id') return dead(ID_REASONS[id.kind], value, reading)
  return { kind: 'record', envelope: envelopeOf(id.id, value, text, reading, rewrittenNumbersMet() > before) }
}

const ID_REASONS = {
  none: 'has no id',
  inexact: 'has an id that JSON numbers cannot carry exactly',
  unusable: 'has an id that cannot be a key',
} as const

function envelopeOf(
  id: string,
  record: JsonObject,
  text: string,
  reading: Reading,
  rewritten: boolean,
): Envelope {
  const { teamId, stream, origin, observedAt, readBy } = reading
  const problems: Problem[] = []
  const { version, updatedAt, tooFarAhead } = versionIn(record, stream, observedAt, readBy)
  if (tooFarAhead) {
    const reason = `more than ${FUTURE_TOLERANCE_SECONDS / 60} minutes ahead of the service's clock; does not count as version`
    problems.push({ path: 'updated_at', reason, original: record.updated_at })
  }
  // A row must not depend on the time of reading: whether the stamp counts is part of the content.
  const hashed = tooFarAhead ? `${text}\n(ahead)` : text
  const keys = { teamId, stream: stream.name, id, version, observedAt, updatedAt, origin }
  const isKept = rewritten || stream.isOrdered?.(record) === true
  const asReceived = (payload: JsonObject) => (isKept ? (stringify(payload) ?? null) : null)
  if (!maybeUnstorable(text)) {
    const content = {
      payload: record,
      text,
      asReceived: asReceived(record),
      hash: contentHash(hashed),
      problems,
    }
    return { ...keys, content }
  }
  const payload = storable(record, reading.invalidUtf8, problems) as JsonObject
  const stored = canonicalText(payload)
  // Different values may have the same storable form, so the original text is part of the hash.
  const hash = contentHash(`${hashed}\n${stored}`)
  return { ...keys, content: { payload, text: stored, asReceived: asReceived(payload), hash, problems } }
}

/** For a log, the entry's own time: the time of reading does not order its entries. */
function versionIn(
  record: JsonObject,
  { entryAt }: Stream,
  observedAt: Instant,
  readBy?: Instant,
): VersionReading {
  if (entryAt === undefined) return versionOf(record.updated_at, observedAt, readBy)
  return { version: entryAt(record) ?? observedAt, updatedAt: null, tooFarAhead: false }
}

function dead(reason: string, value: unknown, { origin }: Reading): ReadRecord {
  const id = isObject(value) ? recordId(value) : null
  return {
    kind: 'dead',
    deadLetter: { recordId: id?.kind === 'id' ? id.id : null, origin, reason, body: wholeText(value) },
  }
}

/** The input as JSON text; a note if it is nested too deeply to be written. */
function wholeText(value: unknown): string {
  try {
    return stringify(value) ?? 'null'
  } catch (error) {
    if (error instanceof RangeError) return TOO_DEEP
    throw error
  }
}

/** A tombstone: the record is gone as of `observedAt`. */
export function tombstone(
  id: string,
  { teamId, stream, origin, observedAt }: Pick<Envelope, 'teamId' | 'stream' | 'origin' | 'observedAt'>,
): Envelope {
  const times = { version: observedAt, observedAt, updatedAt: observedAt }
  return { teamId, stream, id, ...times, origin, content: null }
}

/** What Postgres cannot store in text: NUL, and surrogates without their other half. */
const UNSTORABLE = /\u0000|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g

/** Quick test on a record's canonical text: false means that `storable` would change nothing. */
export function maybeUnstorable(canonical: string): boolean {
  // Canonical text contains `\\u` for control characters, lone surrogates and numbers beyond numeric only.
  return canonical.includes('\\u')
}

/** Text that Postgres can store; `invalidUtf8` says that lone surrogates U+DC80…U+DCFF stand for bytes. */
export function storableText(text: string, invalidUtf8: boolean): string {
  return text.replace(UNSTORABLE, (unit) => {
    const code = unit.charCodeAt(0)
    if (invalidUtf8 && code >= 0xdc80 && code <= 0xdcff) return `\\x${(code - 0xdc00).toString(16)}`
    return `\\u${code.toString(16).padStart(4, '0')}`
  })
}

/** A copy of `value` that Postgres can store; adds one problem for each place that was rewritten. */
export function storable(value: unknown, invalidUtf8: boolean, problems: Problem[], path = ''): unknown {
  if (typeof value === 'string') {
    const text = storableText(value, invalidUtf8)
    if (text !== value)
      problems.push({ path, reason: 'holds what Postgres cannot; written visibly', original: text })
    return text
  }
  if (isLosslessNumber(value)) {
    if (isWithinNumeric(value.value)) return value
    problems.push({
      path,
      reason: 'a number beyond what Postgres can hold; kept as text',
      original: value.value,
    })
    return value.value
  }
  if (Array.isArray(value))
    return value.map((item, index) => storable(item, invalidUtf8, problems, `${path}[${index}]`))
  if (!isObject(value)) return value
  return storableObject(value, invalidUtf8, problems, path)
}

function storableObject(value: object, invalidUtf8: boolean, problems: Problem[], path: string): unknown {
  const keys = Object.keys(value)
  const names = storableNames(keys, invalidUtf8)
  const entries = keys.map((key): [string, unknown] => {
    const name = names?.get(key) ?? key
    const itemPath = path === '' ? name : `${path}.${name}`
    if (name !== key) {
      problems.push({
        path: itemPath,
        reason: 'a field name that Postgres cannot hold; written visibly',
        original: name,
      })
    }
    return [name, storable((value as Record<string, unknown>)[key], invalidUtf8, problems, itemPath)]
  })
  return Object.fromEntries(entries)
}

/**
 * Unique replacements for the keys that cannot be stored, independent of the order of the keys. Null when all can be
 * stored.
 */
function storableNames(keys: readonly string[], invalidUtf8: boolean): ReadonlyMap<string, string> | null {
  const unfit = keys.filter((key) => storableText(key, invalidUtf8) !== key)
  if (unfit.length === 0) return null
  const taken = new Set(keys)
  const names = new Map<string, string>()
  for (const key of unfit.sort()) {
    let name = storableText(key, invalidUtf8)
    while (taken.has(name)) name += "'"
    taken.add(name)
    names.set(key, name)
  }
  return names
}
