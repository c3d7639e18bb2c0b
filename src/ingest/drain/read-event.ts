/**
 * Interprets one stored event (specification, section 6). Pure: the same bytes give the same result, whenever they are
 * read.
 *
 * Invariant: every event has one meaning: a state to load, a record to fetch by id, a dead letter, or nothing. A reason
 * and a drift never contain a value of a record.
 */
import { stringify } from 'lossless-json'
import {
  type Envelope,
  FUTURE_TOLERANCE_SECONDS,
  INBOX,
  type StreamOrInbox,
  versionOf,
} from '../../core/envelope.ts'
import { referenceId } from '../../core/identifiers.ts'
import {
  isObject,
  type JsonObject,
  type ParsedJson,
  parseBounded,
  TOO_DEEP,
  TooComplex,
} from '../../core/json.ts'
import { type Instant, instantOf, microsOf, parseInstant } from '../../core/time.ts'
import type { RefetchReason } from '../../load/refetches.ts'
import type { Drift } from '../../normalize/map.ts'
import { type DeadLetter, type Reading, readRecord, tombstone } from '../../normalize/read-record.ts'
import { streamOfSource } from '../../streams/catalogue.ts'
import { isPartial, type Stream } from '../../streams/stream.ts'

/** A row of the inbox. */
export interface StoredEvent {
  readonly teamId: number
  readonly eventId: string
  readonly receivedAt: Instant
  readonly body: Buffer
}

export type EventResult =
  | { readonly kind: 'state'; readonly stream: Stream; readonly envelope: Envelope }
  | { readonly kind: 'fetch'; readonly stream: Stream; readonly id: string; readonly reason: RefetchReason }
  | { readonly kind: 'dead'; readonly stream: StreamOrInbox; readonly deadLetter: DeadLetter }
  | { readonly kind: 'nothing' }

export interface ReadEvent {
  readonly result: EventResult
  /** An unknown source or type, and the stream under which it is noted. */
  readonly drift: (Drift & { readonly stream: StreamOrInbox }) | null
}

/** `apiVersion`: requested by the team; it decides the fields of a whole record. */
export function readStoredEvent(event: StoredEvent, apiVersion: string): ReadEvent {
  if (event.body.length === 0) return unreadable(event, 'an event without a body')
  let parsed: ParsedJson
  try {
    parsed = parseBounded(event.body)
  } catch (error) {
    if (error instanceof TooComplex)
      return unreadable(event, 'an event with more levels or values than are read')
    if (error instanceof SyntaxError) return unreadable(event, 'an event that is not JSON')
    throw error
  }
  const { value } = parsed
  if (!isObject(value)) return unreadable(event, 'an event that is not a JSON object')
  const { source, event_type } = value
  if (typeof source !== 'string' || source === '') return unreadable(event, 'an event without a source')
  const stream = streamOfSource(source)
  if (stream === undefined) {
    return {
      result: { kind: 'nothing' },
      drift: { stream: INBOX, path: `source.${word(source)}`, type: 'string' },
    }
  }
  const result =
    event_type === 'deleted' ? deletion(event, value, stream) : state(event, parsed, stream, apiVersion)
  return { result, drift: driftOf(event_type, stream) }
}

const EVENT_TYPES: ReadonlySet<unknown> = new Set(['created', 'updated', 'deleted'])

/** A new event type is reported by its name, unless the name may be data. */
function driftOf(type: unknown, { name }: Stream): ReadEvent['drift'] {
  if (EVENT_TYPES.has(type)) return null
  if (typeof type === 'string') return { stream: name, path: `event_type.${word(type)}`, type: 'string' }
  return {
    stream: name,
    path: 'event_type',
    type: type === undefined || type === null ? 'null' : typeof type,
  }
}

/** A plain word is a name; any other text may be data. */
function word(text: string): string {
  return /^[A-Za-z_]{1,40}$/.test(text) ? text : '(other)'
}

function unreadable({ eventId, body }: StoredEvent, reason: string): ReadEvent {
  const deadLetter = { recordId: null, origin: `event:${eventId}`, reason, body }
  return { result: { kind: 'dead', stream: INBOX, deadLetter }, drift: null }
}

function deletion(event: StoredEvent, envelope: JsonObject, stream: Stream): EventResult {
  const { data } = envelope
  const id = referenceId(data)
  if (id.kind !== 'id') return refused(event, envelope, stream, 'a deletion without the id of its record')
  const at = timeOf(envelope, event)
  if (at === null && stream.one !== null) return { kind: 'fetch', stream, id: id.id, reason: 'contested' }
  const reading = readingOf(event, stream, at ?? fallbackTime(data, event), false)
  const updatedAt = isObject(data) ? data.updated_at : undefined
  // The record existed when it was last updated, whatever the event's own time is.
  const { version } = versionOf(updatedAt, reading.observedAt, event.receivedAt)
  return {
    kind: 'state',
    stream,
    envelope: { ...tombstone(id.id, { ...reading, stream: stream.name }), version, updatedAt: version },
  }
}

function state(event: StoredEvent, parsed: ParsedJson, stream: Stream, apiVersion: string): EventResult {
  const envelope = parsed.value as JsonObject
  const at = timeOf(envelope, event)
  const { data } = envelope
  const reading = readingOf(event, stream, at ?? fallbackTime(data, event), parsed.invalidUtf8)
  const read = readRecord(data, reading)
  if (read.kind === 'dead')
    return refused(event, envelope, stream, `an event whose record ${read.deadLetter.reason}`)
  const record = read.envelope
  const partial = isPartial(stream, record.content!.payload, apiVersion)
  if (stream.one === null) {
    if (!partial) return { kind: 'state', stream, envelope: record }
    return refused(event, envelope, stream, 'an event with a part of a record that cannot be fetched by id')
  }
  if (partial || at === null) return { kind: 'fetch', stream, id: record.id, reason: 'partial' }
  return { kind: 'state', stream, envelope: record }
}

function readingOf(event: StoredEvent, stream: Stream, observedAt: Instant, invalidUtf8: boolean): Reading {
  const { teamId, eventId, receivedAt } = event
  return {
    teamId,
    stream,
    origin: `event:${eventId}`,
    observedAt,
    readBy: receivedAt,
    invalidUtf8,
  }
}

/** The event's `timestamp`; null where it is missing, unreadable or in the future. */
function timeOf({ timestamp }: JsonObject, { receivedAt }: StoredEvent): Instant | null {
  const at = typeof timestamp === 'string' ? parseInstant(timestamp) : null
  return at === null || at > later(receivedAt, FUTURE_TOLERANCE_SECONDS) ? null : at
}

/**
 * For records that cannot be fetched by id: the record's `updated_at`; else a minute before the event arrived, longer than
 * any sender waits for an answer, so that the next event with a `timestamp` supersedes it.
 */
function fallbackTime(data: unknown, { receivedAt }: StoredEvent): Instant {
  const updatedAt = isObject(data) ? data.updated_at : undefined
  const updated = typeof updatedAt === 'string' ? parseInstant(updatedAt) : null
  return updated !== null && updated <= receivedAt ? updated : later(receivedAt, -60)
}

function later(at: Instant, seconds: number): Instant {
  return instantOf(microsOf(at) + seconds * 1_000_000)
}

/**
 * Stores the whole event, so that two events with one record stay distinct; without the parts that may not be stored.
 */
function refused(event: StoredEvent, envelope: JsonObject, stream: Stream, reason: string): EventResult {
  const id = referenceId(envelope.data)
  const recordId = id.kind === 'id' ? id.id : null
  const origin = `event:${event.eventId}`
  const body = stream.cleanse === undefined ? event.body : cleansed(envelope, stream)
  return { kind: 'dead', stream: stream.name, deadLetter: { recordId, origin, reason, body } }
}

/** The body of an event's dead letter: its exact bytes, unless a part of its record may not be stored. */
export function deadLetterBody(body: Buffer, stream: Stream | undefined): Buffer {
  if (stream?.cleanse === undefined) return body
  const { value } = parseBounded(body)
  return isObject(value) ? Buffer.from(cleansed(value, stream)) : body
}

function cleansed(envelope: JsonObject, { cleanse }: Stream): string {
  try {
    return stringify({ ...envelope, data: cleanse!(envelope.data) }) ?? 'null'
  } catch (error) {
    if (error instanceof RangeError) return TOO_DEEP
    throw error
  }
}

/**
 * True when one of the stored fields that the event leaves out (`rest`) has a value: the event may be partial. Loading it
 * would silently replace that value by null (law 4), so the record is fetched by id. A field that is stored empty does
 * not count: nothing is lost.
 */
export function lacksStoredValues(rest: JsonObject): boolean {
  return Object.values(rest).some((value) => !isEmpty(value))
}

/** True when a record leaves out a field that all of the stream's records have. */
export function lacksUsualFields(payload: JsonObject, usual: readonly string[]): boolean {
  return usual.some((field) => !(field in payload))
}

/** For a stream without stored records: true when a record has less than half of its possible fields. */
export function lacksMostFields(stream: Stream, payload: JsonObject): boolean {
  const present = stream.columns.filter((column) => column.from.some((field) => field in payload))
  return present.length * 2 < stream.columns.length
}

function isEmpty(value: unknown): boolean {
  if (value === null || value === '') return true
  return typeof value === 'object' && Object.keys(value).length === 0
}
