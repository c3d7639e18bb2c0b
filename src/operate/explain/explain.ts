/**
 * Where a row came from: every state of its record that is held, what each changed and why it won, and what became of
 * every event about it.
 *
 * Invariant: names of fields, hashes, times and origins only; values are with the states themselves, for whoever asked
 * for them.
 */

import { canonicalText } from '../../core/canonical.ts'
import { IntakeError } from '../../core/errors.ts'
import { isObject, type JsonObject, parseText } from '../../core/json.ts'
import { parseInstant } from '../../core/time.ts'
import { readEvent } from '../../ingest/drain/read-event.ts'
import { erasedAmong, hashesOf } from '../../load/erasures/erasures.ts'
import { stampsDecide } from '../../streams/stream.ts'
import { openSession, type Session } from '../../warehouse/connect.ts'
import { warehouseError } from '../../warehouse/sqlstate.ts'
import type { Letter } from '../dead-letters/read.ts'
import { type Decision, decide, type Ranked } from './decide.ts'
import { type HeldEvent, type KeptRecord, type Key, type Refetch, readKept, type State } from './read.ts'

export interface Change {
  readonly field: string
  readonly kind: 'added' | 'removed' | 'changed'
  /** JSON values; undefined where there is none. */
  readonly before: unknown
  readonly after: unknown
}

export interface ExplainedState extends State {
  /** Why it stands above the one before; null for the first. */
  readonly wonBy: Decision | null
  /** Against the last one before it that was no tombstone. */
  readonly changes: readonly Change[]
}

export interface ExplainedEvent extends Omit<HeldEvent, 'body'> {
  /** The version that it gave the record; null where it gave none. */
  readonly version: string | null
  readonly hash: string | null
  /** What became of it. */
  readonly told: string
}

export interface Explained {
  readonly states: readonly ExplainedState[]
  readonly events: readonly ExplainedEvent[]
  readonly letters: readonly Letter[]
  readonly refetch: Refetch | null
  readonly runs: KeptRecord['runs']
}

/** `apiVersion` is the one that the team asks for: it says what a whole record holds. */
export async function explain(url: string, key: Key, apiVersion: string): Promise<Explained> {
  await using session = await openSession({ url, purpose: 'explain' })
  try {
    const record = await readKept(session.db, key)
    const { states, events, letters, refetch, runs } = record
    if (states.length + events.length + letters.length === 0 && refetch === null)
      throw (await wasErased(session, key)) ? erasedRecord(key) : unknownRecord(key)
    return {
      states: explainedStates(states, key),
      events: events.map((event) => explainedEvent(event, key, record, apiVersion)),
      ...{ letters, refetch, runs },
    }
  } catch (error) {
    throw warehouseError(error)
  }
}

function explainedStates(states: readonly State[], key: Key): readonly ExplainedState[] {
  let alive: JsonObject | null = null
  return states.map((state, at) => {
    const before = states[at - 1]
    const payload = state.payload === null ? null : (parseText(state.payload) as JsonObject)
    const changes = payload === null || alive === null ? [] : changesBetween(alive, payload)
    if (payload !== null) alive = payload
    return {
      ...state,
      wonBy: before === undefined ? null : decide(ranked(state, key), ranked(before, key)).by,
      changes,
    }
  })
}

/** Of the top-level fields, and of the fields within one that is an object of ours on both sides. */
function changesBetween(before: JsonObject, after: JsonObject, path = ''): readonly Change[] {
  const fields = [...new Set([...Object.keys(before), ...Object.keys(after)])].sort()
  return fields.flatMap((name): readonly Change[] => {
    const [old, now] = [before[name], after[name]]
    const field = path === '' ? name : `${path}.${name}`
    if (!(name in after)) return [{ field, kind: 'removed', before: old, after: undefined }]
    if (!(name in before)) return [{ field, kind: 'added', before: undefined, after: now }]
    if (canonicalText(old) === canonicalText(now)) return []
    if (path === '' && OURS.has(name) && isObject(old) && isObject(now)) return changesBetween(old, now, name)
    return [{ field, kind: 'changed', before: old, after: now }]
  })
}

/** Objects whose keys are names of fields; those of any other may be values, and it is named as a whole. */
const OURS: ReadonlySet<string> = new Set(['emergency_contact', 'patient', 'form', 'packet', 'document'])

function explainedEvent(
  { body, ...event }: HeldEvent,
  key: Key,
  record: KeptRecord,
  apiVersion: string,
): ExplainedEvent {
  const { states } = record
  const stored = { teamId: key.teamId, eventId: event.eventId, receivedAt: event.receivedAt, body }
  const { said } = readEvent(stored, apiVersion)
  const nothing = { ...event, version: null, hash: null }
  if (event.status === 'pending') {
    const tried = event.attempts === 0 ? '' : `, after ${event.attempts} attempt(s)`
    return { ...nothing, told: `waits in the inbox${tried}` }
  }
  if (event.status === 'dead' || said.kind === 'dead') return { ...nothing, told: 'was set aside' }
  if (said.kind === 'ask')
    return { ...nothing, told: `did not say enough (${said.reason}): ${askedFor(record)}` }
  if (said.kind === 'nothing') return { ...nothing, told: 'tells of nothing that is kept' }
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
  return { ...event, version, hash, told: fateOf(incoming, `event:${event.eventId}`, states, current) }
}

/** What became of the asking, by what it would have left. */
function askedFor({ states, letters, refetch }: KeptRecord): string {
  if (refetch !== null) return `the record is asked for by its id, ${refetch.attempts} time(s) so far`
  if (states.length + letters.length > 0) return 'the record was asked for by its id'
  return 'the record was asked for by its id, and the service had none each time'
}

/** A stored state as `decide` compares it. */
function ranked(state: State, key: Key): Ranked {
  if (state.payload === null || !stampsDecide(key.stream)) return state
  const { updated_at } = parseText(state.payload) as JsonObject
  return { ...state, updatedAt: typeof updated_at === 'string' ? parseInstant(updated_at) : null }
}

function fateOf(came: Ranked, origin: string, states: readonly State[], current: Ranked | null): string {
  const own = states.find((state) => state.origin === origin && state.hash === came.hash)
  if (own !== undefined)
    return own.supersededAt === null ? 'won, and is what is held' : 'won, and was superseded later'
  const same = states.find((state) => state.hash === came.hash && state.deleted === came.deleted)
  if (same !== undefined) return `told what was held: the content of ${same.origin}`
  const newest = states.at(-1)
  if (newest === undefined || current === null) return 'left nothing: the record is not held'
  const { wins, by } = decide(current, came)
  if (!wins) return 'was not whole, or was overruled by what the service said when it was asked'
  return `lost to ${newest.origin} (${by})`
}

async function wasErased({ db }: Session, { teamId, stream, id }: Key): Promise<boolean> {
  const { hashOf } = await hashesOf(db, teamId)
  return (await erasedAmong(db, [hashOf({ stream: stream.name, id })])).size > 0
}

function erasedRecord({ stream }: Key): IntakeError {
  return new IntakeError(`this record of ${stream.name} was erased, or was of a patient who was`, {
    code: 'erased',
    verdict: 'stop',
    hint: 'nothing of it is held, and what comes of it is skipped (intake_ops.erasures)',
  })
}

function unknownRecord({ stream }: Key): IntakeError {
  return new IntakeError(`the warehouse holds nothing of a record of ${stream.name} with this id`, {
    code: 'unknown_record',
    verdict: 'stop',
    hint: 'check the stream, the id and --team',
  })
}
