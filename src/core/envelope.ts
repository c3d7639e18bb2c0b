/**
 * One record, or its tombstone, on its way to the warehouse (law 2).
 *
 * Invariant: `version` is the later of the record's own `updated_at` and `observedAt`, except that an `updated_at`
 * more than five minutes ahead of the service's clock does not count. `supersedes` is a total order, so the state
 * that a key ends in does not depend on the order in which its envelopes arrive.
 */
import { type Instant, instantOf, laterOf, microsOf, parseInstant } from './time.ts'

/** The name of a stream, which its declaration gives (src/streams). */
export type StreamName = string

/** Stands for the stream of an event whose stream is unknown: the event cannot be read, or its source is new. */
export const INBOX = 'inbox'

export type StreamOrInbox = StreamName | typeof INBOX

export interface Envelope {
  readonly teamId: number
  readonly stream: StreamName
  readonly id: string
  readonly version: Instant
  readonly observedAt: Instant
  /**
   * The record's own `updated_at`; null where it has none that counts. For a tombstone, the time at which the record was
   * gone. Two states are a conflict if their stamps and versions order them differently (`stampsDisagree`).
   */
  readonly updatedAt: Instant | null
  /** Its source: `run:<id> page:<n>`, `run:<id> fetch`, `event:<id>`. */
  readonly origin: string
  readonly content: Content | null
}

/** The content of a record. An envelope without content is a tombstone. */
export interface Content {
  /** As received, except for values that Postgres cannot store. */
  readonly payload: { readonly [key: string]: unknown }
  /** Canonical JSON text of the payload. */
  readonly text: string
  /** The payload's JSON text if rows depend on the order of keys or on digits that jsonb does not keep; else null. */
  readonly asReceived: string | null
  /** 32 hex digits. */
  readonly hash: string
  /** Problems found before mapping: values rewritten so that they can be stored, a version that does not count. */
  readonly problems: readonly Problem[]
}

/** How far ahead of the service's clock an `updated_at` may be. */
export const FUTURE_TOLERANCE_SECONDS = 300

const INSTANT = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/

export interface VersionReading {
  readonly version: Instant
  /** The `updated_at` that was read; null where it is none, or does not count. */
  readonly updatedAt: Instant | null
  readonly tooFarAhead: boolean
}

/**
 * The version of a state that was read between `observedAt` and `readBy` and whose record has this `updated_at` (any
 * value).
 */
export function versionOf(
  updatedAt: unknown,
  observedAt: Instant,
  readBy: Instant = observedAt,
): VersionReading {
  if (typeof updatedAt !== 'string') return { version: observedAt, updatedAt: null, tooFarAhead: false }
  // The usual stamp is an `Instant` in the past: comparing texts is enough.
  if (INSTANT.test(updatedAt) && updatedAt <= observedAt) {
    return { version: observedAt, updatedAt: updatedAt as Instant, tooFarAhead: false }
  }
  const updated = parseInstant(updatedAt)
  if (updated === null || updated <= observedAt) {
    return { version: observedAt, updatedAt: updated, tooFarAhead: false }
  }
  const limit = instantOf(microsOf(readBy) + FUTURE_TOLERANCE_SECONDS * 1_000_000)
  if (updated > limit) return { version: observedAt, updatedAt: null, tooFarAhead: true }
  return { version: laterOf(updated, observedAt), updatedAt: updated, tooFarAhead: false }
}

/**
 * True when `a` is the state that stays: the greater (version, tombstone, observed_at, content hash).
 *
 * `stampsDecide` is for streams without a fetch by id: event times may order two states differently than their
 * `updated_at`, and no fetch can decide, so the record with the later `updated_at` stays.
 */
export function supersedes(a: Envelope, b: Envelope, stampsDecide = false): boolean {
  const byStamps = stampsDecide && a.content !== null && b.content !== null
  if (byStamps && a.updatedAt !== null && b.updatedAt !== null) {
    if (a.updatedAt !== b.updatedAt) return a.updatedAt > b.updatedAt
  } else {
    if (a.version !== b.version) return a.version > b.version
    if ((a.content === null) !== (b.content === null)) return a.content === null
  }
  if (a.observedAt !== b.observedAt) return a.observedAt > b.observedAt
  return (a.content?.hash ?? '') > (b.content?.hash ?? '')
}

/**
 * True when the records' own stamps say that `loser` is the later state (law 2): only the service can decide. A record that
 * was updated and deleted at one moment is gone since.
 */
export function stampsDisagree(winner: Envelope, loser: Envelope): boolean {
  if (winner.updatedAt === null || loser.updatedAt === null) return false
  const isUndone = loser.content === null && winner.content !== null
  return isUndone ? loser.updatedAt >= winner.updatedAt : loser.updatedAt > winner.updatedAt
}

/** The same state with a version above the stored one: a decision of a person or of the service overrides any times. */
export function withVersionAbove(
  envelope: Envelope,
  stored: { readonly version: Instant } | undefined,
): Envelope {
  if (stored === undefined) return envelope
  return { ...envelope, version: laterOf(envelope.version, instantOf(microsOf(stored.version) + 1)) }
}

/**
 * A problem: one field that could not be read as its type (law 4). The record still loads; the field is null, and
 * the row's `_problems`, and nothing else, keeps the `original` value.
 */
export interface Problem {
  /** Place in the payload, such as `emergency_contact.phone_number` or `patient_tags[0].name`. */
  readonly path: string
  /** Describes the error; never contains a value. */
  readonly reason: string
  /** The value as received. */
  readonly original: unknown
}
