/**
 * Explains where a row came from: every stored state of its record, what each one changed and why it won, and the
 * outcome of every event about it.
 *
 * Invariant: texts contain only names of fields, hashes, times and origins. Values are only in `payload` and `Change`,
 * which callers print on request.
 */
import { canonicalText } from '../core/canonical.ts'
import { IntakeError } from '../core/errors.ts'
import { isObject, type JsonObject, parseText } from '../core/json.ts'
import { type Instant, parseInstant } from '../core/time.ts'
import { readStoredEvent } from '../ingest/drain/read-event.ts'
import { erasedAmong, hashesOf } from '../load/erasures.ts'
import { ALL_STREAMS } from '../streams/catalogue.ts'
import { stampsDecide } from '../streams/stream.ts'
import { openSession, type Session } from '../warehouse/connect.ts'
import { warehouseError } from '../warehouse/sqlstate.ts'
import type { StoredDeadLetter } from './dead-letters.ts'
import {
  type Key,
  type Refetch,
  readStoredRecord,
  type State,
  type StoredEvent,
  type StoredRecord,
} from './explain-queries.ts'

export interface Change {
  readonly field: string
  readonly kind: 'added' | 'removed' | 'changed'
  /** JSON values; undefined if the field is absent. */
  readonly before: unknown
  readonly after: unknown
}

export interface ExplainedState extends State {
  /** Why it won over the previous state; null for the first. */
  readonly wonBy: Decision | null
  /** Compared with the last earlier state that is not a tombstone. */
  readonly changes: readonly Change[]
}

export interface ExplainedEvent extends Omit<StoredEvent, 'body'> {
  /** The version of the state in the event; null if the event contains none. */
  readonly version: string | null
  readonly hash: string | null
  /** In words. */
  readonly outcome: string
}

export interface Explained {
  readonly states: readonly ExplainedState[]
  readonly events: readonly ExplainedEvent[]
  readonly deadLetters: readonly StoredDeadLetter[]
  readonly refetch: Refetch | null
  readonly runs: StoredRecord['runs']
}

/** `apiVersion` is the version that the team requests; it defines which fields make a record complete. */
export async function explain(url: string, key: Key, apiVersion: string): Promise<Explained> {
  await using session = await openSession({ url, purpose: 'explain' })
  try {
    const record = await readStoredRecord(session.db, key)
    const { states, events, deadLetters, refetch, runs } = record
    if (states.length + events.length + deadLetters.length === 0 && refetch === null)
      throw (await wasErased(session, key)) ? erasedRecord(key) : unknownRecord(key)
    return {
      states: explainedStates(states, key),
      events: events.map((event) => explainedEvent(event, key, record, apiVersion)),
      ...{ deadLetters, refetch, runs },
    }
  } catch (error) {
    throw warehouseError(error)
  }
}

function explainedStates(states: readonly State[], key: Key): readonly ExplainedState[] {
  let live: JsonObject | null = null
  return states.map((state, at) => {
    const before = states[at - 1]
    const payload = state.payload === null ? null : (parseText(state.payload) as JsonObject)
    const changes = payload === null || live === null ? [] : changesBetween(live, payload)
    if (payload !== null) live = payload
    return {
      ...state,
      wonBy: before === undefined ? null : decide(ranked(state, key), ranked(before, key)).by,
      changes,
    }
  })
}

/** Compares the top-level fields, and the fields inside the objects of `NESTED`. */
function changesBetween(before: JsonObject, after: JsonObject, path = ''): readonly Change[] {
  const fields = [...new Set([...Object.keys(before), ...Object.keys(after)])].sort()
  return fields.flatMap((name): readonly Change[] => {
    const [old, now] = [before[name], after[name]]
    const field = path === '' ? name : `${path}.${name}`
    if (!(name in after)) return [{ field, kind: 'removed', before: old, after: undefined }]
    if (!(name in before)) return [{ field, kind: 'added', before: undefined, after: now }]
    if (canonicalText(old) === canonicalText(now)) return []
    if (path === '' && NESTED.has(name) && isObject(old) && isObject(now))
      return changesBetween(old, now, name)
    return [{ field, kind: 'changed', before: old, after: now }]
  })
}

/**
 * Objects whose keys are field names: records that a reference names, and those that declarations name. The keys of other
 * objects may be values, so a change names only the object.
 */
const NESTED: ReadonlySet<string> = new Set(
  ALL_STREAMS.flatMap(({ columns, objects = [] }) => [
    ...columns.flatMap(({ to, from }) => (to === undefined ? [] : from)),
    ...objects,
  ]),
)

function explainedEvent(
  { body, ...event }: StoredEvent,
  key: Key,
  record: StoredRecord,
  apiVersion: string,
): ExplainedEvent {
  const { states } = record
  const stored = { teamId: key.teamId, eventId: event.eventId, receivedAt: event.receivedAt, body }
  const { result: said } = readStoredEvent(stored, apiVersion)
  const nothing = { ...event, version: null, hash: null }
  if (event.status === 'pending') {
    const tried = event.attempts === 0 ? '' : `, after ${event.attempts} attempt(s)`
    return { ...nothing, outcome: `waits in the inbox${tried}` }
  }
  if (event.status === 'dead' || said.kind === 'dead') return { ...nothing, outcome: 'was dead-lettered' }
  if (said.kind === 'fetch')
    return { ...nothing, outcome: `did not settle the state (${said.reason}): ${refetchOutcome(record)}` }
  if (said.kind === 'nothing') return { ...nothing, outcome: 'concerns no stored record' }
  const { version, observedAt, updatedAt, content } = said.envelope
  const hash = content?.hash ?? ''
  const incoming = {
    version,
    observedAt,
    deleted: content === null,
    hash,
    ...(stampsDecide(key.stream) ? { updatedAt } : {}),
  }
  const newest = states.at(-1)
  const current = newest === undefined ? null : ranked(newest, key)
  return { ...event, version, hash, outcome: outcomeOf(incoming, `event:${event.eventId}`, states, current) }
}

/** The outcome of the refetch that an event queued, judged by what it left in the warehouse. */
function refetchOutcome({ states, deadLetters, refetch }: StoredRecord): string {
  if (refetch !== null)
    return `the record waits to be fetched by its id, ${refetch.attempts} attempt(s) so far`
  if (states.length + deadLetters.length > 0) return 'the record was fetched by its id'
  return 'the record was fetched by its id, and the service did not have it'
}

/** A stored state as `decide` compares it. */
function ranked(state: State, key: Key): Ranked {
  if (state.payload === null || !stampsDecide(key.stream)) return state
  const { updated_at } = parseText(state.payload) as JsonObject
  return { ...state, updatedAt: typeof updated_at === 'string' ? parseInstant(updated_at) : null }
}

function outcomeOf(
  incoming: Ranked,
  origin: string,
  states: readonly State[],
  current: Ranked | null,
): string {
  const applied = states.find((state) => state.origin === origin && state.hash === incoming.hash)
  if (applied !== undefined)
    return applied.supersededAt === null ? 'won, and is the current state' : 'won, and was superseded later'
  const same = states.find((state) => state.hash === incoming.hash && state.deleted === incoming.deleted)
  if (same !== undefined) return `repeated a stored state: the content of ${same.origin}`
  const newest = states.at(-1)
  if (newest === undefined || current === null) return 'had no effect: the record is not stored'
  const { wins, by } = decide(current, incoming)
  if (!wins) return 'was partial, or the record that was fetched by id replaced it'
  return `lost to ${newest.origin} (${by})`
}

async function wasErased({ db }: Session, { teamId, stream, id }: Key): Promise<boolean> {
  const { hashOf } = await hashesOf(db, teamId)
  return (await erasedAmong(db, [hashOf({ stream: stream.name, id })])).size > 0
}

function erasedRecord({ stream }: Key): IntakeError {
  return new IntakeError(
    `this record of ${stream.name} was erased, or belonged to a patient who was erased`,
    {
      code: 'erased',
      verdict: 'stop',
      hint: 'nothing of it is stored, and later states of it are skipped (intake_ops.erasures)',
    },
  )
}

function unknownRecord({ stream }: Key): IntakeError {
  return new IntakeError(`the warehouse has no record of ${stream.name} with this id`, {
    code: 'unknown_record',
    verdict: 'stop',
    hint: 'check the stream, the id and --team',
  })
}

export interface Ranked {
  readonly version: Instant
  readonly observedAt: Instant
  readonly deleted: boolean
  readonly hash: string
  /** The record's `updated_at`; given only for streams that it orders (`stampsDecide`). */
  readonly updatedAt?: Instant | null
}

export type Decision =
  | 'later version'
  | 'updated later'
  | 'tombstone at the same version'
  | 'read later'
  | 'content hash'
  | 'the same state'

/**
 * Whether `a` wins over another state, and by which criterion: the first of these that differs: version, tombstone, time
 * of reading, content hash. For streams whose own `updated_at` decides, `updated_at` replaces the version.
 */
export function decide(a: Ranked, b: Ranked): { readonly wins: boolean; readonly by: Decision } {
  const byStamps = !a.deleted && !b.deleted && a.updatedAt != null && b.updatedAt != null
  if (byStamps && a.updatedAt !== b.updatedAt)
    return { wins: a.updatedAt! > b.updatedAt!, by: 'updated later' }
  if (!byStamps && a.version !== b.version) return { wins: a.version > b.version, by: 'later version' }
  if (a.deleted !== b.deleted) return { wins: a.deleted, by: 'tombstone at the same version' }
  if (a.observedAt !== b.observedAt) return { wins: a.observedAt > b.observedAt, by: 'read later' }
  return a.hash === b.hash
    ? { wins: true, by: 'the same state' }
    : { wins: a.hash > b.hash, by: 'content hash' }
}
