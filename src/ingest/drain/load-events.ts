/**
 * Loads one batch of events in one transaction: records and tables, requests to fetch records, dead letters, findings,
 * and the rows of the inbox that it settles (laws 2 and 3).
 *
 * Invariant: an event leaves `pending` in the transaction that commits its effect, or not at all.
 */
import { setImmediate } from 'node:timers/promises'
import type { Envelope } from '../../core/envelope.ts'
import { recordFindings, storeDeadLetters } from '../../load/dead-letters.ts'
import { subjectsOfBody } from '../../load/erased-dead-letters.ts'
import {
  countSkipped,
  type Erasures,
  erasedAmong,
  openErasuresOf,
  type SkippedRecord,
} from '../../load/erasures.ts'
import { prepareStaging, writeBatch } from '../../load/merge/write-batch.ts'
import { type RefetchRequest, requestRefetches } from '../../load/refetches.ts'
import { type BatchLines, openLines } from '../../normalize/lines.ts'
import type { DeadLetter } from '../../normalize/read-record.ts'
import type { Stream } from '../../streams/stream.ts'
import type { Session } from '../../warehouse/connect.ts'
import { incomplete, overtaken, type UsualFields } from './current.ts'
import { type Gathered, type Group, gather, keyOf, RECORDS_PER_TURN } from './gather.ts'
import { type InboxRow, remove, type SettledEvent, settle } from './inbox-rows.ts'

export interface Loading {
  readonly teamIds: readonly number[]
  readonly apiVersionOf: (teamId: number) => string
  readonly usual: UsualFields
}

export interface LoadedBatch {
  readonly rows: readonly InboxRow[]
  readonly dead: ReadonlySet<InboxRow>
  readonly settled: readonly SettledEvent[]
  /** How many records have to be fetched. */
  readonly refetches: number
}

/** A batch that is read and waits for its turn to be written; its transaction is open. */
export interface PreparedBatch {
  readonly rows: readonly InboxRow[]
  readonly gathered: Gathered<InboxRow>
}

/** Streams whose staging tables a session has; the streams of a batch are known only when it is read. */
const staged = new WeakMap<Session, Set<Stream>>()

/**
 * Takes rows in a new transaction and reads them; returns null, without a transaction, when there is none to take.
 * Staging tables are created outside the transaction; the rows are then taken anew.
 */
export async function prepare(
  session: Session,
  loading: Loading,
  take: () => Promise<readonly InboxRow[]>,
): Promise<PreparedBatch | null> {
  const { client } = session
  const ready = staged.get(session) ?? new Set<Stream>()
  staged.set(session, ready)
  for (;;) {
    await client.query('begin')
    const rows = await take()
    const gathered = await gather(rows, loading.apiVersionOf)
    const missing = gathered.groups.map((group) => group.stream).filter((stream) => !ready.has(stream))
    if (rows.length > 0 && missing.length === 0) return { rows, gathered }
    await client.query('rollback')
    if (rows.length === 0) return null
    for (const stream of missing) {
      await prepareStaging(session, stream)
      ready.add(stream)
    }
  }
}

/** Writes a prepared batch and commits it. */
export async function write(
  session: Session,
  loading: Loading,
  prepared: PreparedBatch,
): Promise<LoadedBatch> {
  const { rows, withoutErasures } = await withoutErasedEvents(session, prepared.rows)
  const gathered = rows === prepared.rows ? prepared.gathered : await gather(rows, loading.apiVersionOf)
  const { groups, noted, dead } = gathered
  const requests: RefetchRequest[] = [...gathered.requests]
  const overtakenKeys = groups.length === 0 ? NONE : await overtaken(session, rows)
  for (const group of groups)
    requests.push(...(await writeGroup(session, loading, group, { overtakenKeys, withoutErasures })))
  for (const { stream, deadLetters, findings } of noted) {
    for (const [teamId, own] of byTeam(deadLetters))
      await storeDeadLetters(session.db, { teamId, stream, runId: null }, own)
    await recordFindings(session.db, stream, findings)
  }
  const refetches = await requestRefetches(session.db, requests)
  const done = await settle(
    session,
    rows.filter((row) => !dead.has(row)),
    'done',
  )
  const settled = [...done, ...(await settle(session, [...dead], 'dead'))]
  await session.client.query('commit')
  return { rows, dead, settled, refetches }
}

const NONE: ReadonlySet<string> = new Set()

interface BatchContext {
  /** Keys, as `team/source/id`, of records that have earlier events pending. */
  readonly overtakenKeys: ReadonlySet<string>
  readonly withoutErasures: ReadonlySet<number>
}

/** Writes the states of one stream that replace no value by null. Returns the records to fetch. */
async function writeGroup(
  session: Session,
  { usual }: Loading,
  { stream, states, lacking }: Group,
  { overtakenKeys, withoutErasures }: BatchContext,
): Promise<readonly RefetchRequest[]> {
  const all = [...states.values()].map(({ envelope }) => envelope)
  const { losing, sparse } = await incomplete(session, usual, stream, all)
  const isLosing = (envelope: Envelope) => losing.size > 0 && losing.has(keyOf(envelope))
  const whole = all.filter((envelope) => !isLosing(envelope))
  const partial = [...lacking, ...all.filter(isLosing)]
  const requests: RefetchRequest[] = []
  const request = ({ teamId, id, origin }: Envelope, reason: 'partial' | 'contested') => {
    requests.push({ teamId, stream: stream.name, id, reason, origin, since: null })
  }
  if (stream.one === null) {
    const refused = partial.map((envelope) => ({
      teamId: envelope.teamId,
      deadLetter: deadLetterOf(envelope),
    }))
    for (const [teamId, own] of byTeam(refused))
      await storeDeadLetters(session.db, { teamId, stream: stream.name, runId: null }, own)
  } else {
    for (const envelope of partial) request(envelope, 'partial')
    for (const key of sparse) request(states.get(key)!.envelope, 'partial')
  }
  if (whole.length > 0) {
    const lines = await linesInTurns(stream, whole)
    const from = { kind: 'events' } as const
    const { conflicts } = await writeBatch(session, { stream, lines, from, withoutErasures })
    // For a record that cannot be fetched by id, the order of versions is final.
    if (stream.one !== null)
      for (const key of conflicts) request(states.get(keyOf(key))!.envelope, 'contested')
  }
  if (stream.one !== null && overtakenKeys.size > 0) {
    for (const { envelope } of states.values()) {
      const { teamId, id } = envelope
      if (overtakenKeys.has(`${teamId}/${stream.source}/${id}`)) request(envelope, 'contested')
    }
  }
  return [...requests, ...changedBy(stream, whole)]
}

function byTeam(
  deadLetters: readonly { readonly teamId: number; readonly deadLetter: DeadLetter }[],
): ReadonlyMap<number, readonly DeadLetter[]> {
  const teams = new Map<number, DeadLetter[]>()
  for (const { teamId, deadLetter } of deadLetters)
    teams.set(teamId, [...(teams.get(teamId) ?? []), deadLetter])
  return new Map([...teams].sort(([a], [b]) => a - b))
}

/** For a partial record that cannot be fetched by id: loading it would replace values by null. */
function deadLetterOf({ id, origin, content }: Envelope): DeadLetter {
  const reason = 'lacks values that are stored, and the record cannot be fetched by id'
  return { recordId: id, origin, reason, body: content?.text ?? 'null' }
}

async function linesInTurns(stream: Stream, envelopes: readonly Envelope[]): Promise<BatchLines> {
  const lines = openLines(stream)
  for (const [index, envelope] of envelopes.entries()) {
    if (index % RECORDS_PER_TURN === RECORDS_PER_TURN - 1) await setImmediate()
    lines.add(envelope)
  }
  return lines.build()
}

/** Members of submitted packets. One that is stored as submitted, and was read after its time stamp, is not fetched. */
function changedBy({ changes }: Stream, envelopes: readonly Envelope[]): readonly RefetchRequest[] {
  if (changes === undefined) return []
  return envelopes.flatMap(({ teamId, origin, observedAt, content }) => {
    const related = content === null ? null : changes(content.payload)
    if (related === null) return []
    const { stream, since } = related
    const from = since !== null && since < observedAt ? since : observedAt
    return related.ids.map(
      (id): RefetchRequest => ({ teamId, stream, id, reason: 'member', origin, since: from }),
    )
  })
}

/**
 * Removes events of erased patients from the inbox, including their bytes, before they are loaded.
 *
 * Invariant: runs within the transaction that loads the batch, so that an event is either loaded before its patient was
 * erased, and then removed by the erasure, or removed here. In a team without erasures the events are not parsed.
 */
export interface RemainingEvents {
  /** Events that concern no erased patient: the same array when none was removed. */
  readonly rows: readonly InboxRow[]
  /** Teams of the batch without erasures, and without new ones until the transaction ends. */
  readonly withoutErasures: ReadonlySet<number>
}

async function withoutErasedEvents(session: Session, rows: readonly InboxRow[]): Promise<RemainingEvents> {
  const teamIds = [...new Set(rows.map((row) => row.teamId))].sort((a, b) => a - b)
  const erasures = await openErasuresOf(session.db, teamIds)
  const withoutErasures = new Set(teamIds.filter((teamId) => !erasures.has(teamId)))
  const erased = new Set<InboxRow>()
  for (const [teamId, own] of erasures) {
    const ofTeam = rows.filter((row) => row.teamId === teamId)
    for (const row of await erasedIn(session, own, ofTeam)) erased.add(row)
  }
  if (erased.size === 0) return { rows, withoutErasures }
  await remove(session, [...erased])
  return { rows: rows.filter((row) => !erased.has(row)), withoutErasures }
}

async function erasedIn(
  { db }: Session,
  erasures: Erasures,
  rows: readonly InboxRow[],
): Promise<readonly InboxRow[]> {
  const subjects = rows.map(({ body }) => {
    const { own, others } = subjectsOfBody(undefined, body)
    return { own: own === null ? null : erasures.hashOf(own), others: others.map(erasures.hashOf) }
  })
  const known = await erasedAmong(
    db,
    subjects.flatMap(({ own, others }) => (own === null ? others : [own, ...others])),
  )
  if (known.size === 0) return []
  const skipped = new Map<string, SkippedRecord>()
  const erased = rows.filter((_, index) => {
    const { own, others } = subjects[index]!
    const found = [own ?? '', ...others].find((hash) => known.has(hash))
    if (found === undefined) return false
    // The event's own record is noted too: a later event may contain only its id.
    const hash = own ?? found
    skipped.set(hash, { hash, patient: known.get(found)!, times: (skipped.get(hash)?.times ?? 0) + 1 })
    return true
  })
  await countSkipped(db, erasures, [...skipped.values()])
  return erased
}
