/**
 * One batch of events → the warehouse, in one transaction: records and tables, what is asked for, dead letters,
 * findings, and the rows of the inbox that it settles (laws 2 and 3).
 *
 * Invariant: an event leaves `pending` in the transaction that commits what it says, or not at all.
 */
import { setImmediate } from 'node:timers/promises'
import type { Envelope } from '../../core/envelope.ts'
import { type DeadLetter, setAside } from '../../load/dead-letters.ts'
import { recordFindings } from '../../load/findings.ts'
import { type BatchLines, openLines } from '../../load/lines.ts'
import { type Ask, askAgain } from '../../load/refetches.ts'
import { prepareStaging, writeBatch } from '../../load/write-batch.ts'
import type { Stream } from '../../streams/stream.ts'
import type { Session } from '../../warehouse/connect.ts'
import { withoutErasedEvents } from './erased-events.ts'
import { BREATH, type Gathered, type Group, gather } from './gather.ts'
import { incomplete, overtaken, type UsualFields } from './held.ts'
import { type InboxRow, type Settled, settle } from './inbox-rows.ts'

export interface Loading {
  readonly teamIds: readonly number[]
  readonly apiVersionOf: (teamId: number) => string
  readonly usual: UsualFields
}

export interface Loaded {
  readonly rows: readonly InboxRow[]
  readonly dead: ReadonlySet<InboxRow>
  readonly settled: readonly Settled[]
  /** How many records have to be fetched. */
  readonly asked: number
}

/** A batch that is read and waits for its turn to be written; its transaction is open. */
export interface Prepared {
  readonly rows: readonly InboxRow[]
  readonly gathered: Gathered<InboxRow>
}

/** Sessions keep their staging tables; which streams events bring is known only when they are read. */
const staged = new WeakMap<Session, Set<Stream>>()

/**
 * Takes rows in a new transaction and reads them; null, and no transaction, when there is none to take. Staging
 * tables are made outside of it: then it takes them anew.
 */
export async function prepare(
  session: Session,
  loading: Loading,
  take: () => Promise<readonly InboxRow[]>,
): Promise<Prepared | null> {
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
export async function write(session: Session, loading: Loading, prepared: Prepared): Promise<Loaded> {
  const { rows, nobodyErased } = await withoutErasedEvents(session, prepared.rows)
  const gathered = rows === prepared.rows ? prepared.gathered : await gather(rows, loading.apiVersionOf)
  const { groups, places, dead } = gathered
  const asks: Ask[] = [...gathered.asks]
  const spoken = groups.length === 0 ? NONE : await overtaken(session, rows)
  for (const group of groups)
    asks.push(...(await writeGroup(session, loading, group, { spoken, nobodyErased })))
  for (const { teamId, stream, letters, findings } of places) {
    await setAside(session.db, { teamId, stream, runId: null }, letters)
    await recordFindings(session.db, { teamId, stream }, findings)
  }
  const asked = await askAgain(session.db, asks)
  const done = await settle(
    session,
    rows.filter((row) => !dead.has(row)),
    'done',
  )
  const settled = [...done, ...(await settle(session, [...dead], 'dead'))]
  await session.client.query('commit')
  return { rows, dead, settled, asked }
}

const NONE: ReadonlySet<string> = new Set()

/** Writes the states of one stream that lose nothing. Returns what has to be asked for. */
async function writeGroup(
  session: Session,
  { usual }: Loading,
  { teamId, stream, states }: Group,
  { spoken, nobodyErased }: { readonly spoken: ReadonlySet<string>; readonly nobodyErased: boolean },
): Promise<readonly Ask[]> {
  const all = [...states.values()].map(({ envelope }) => envelope)
  const { losing, sparse } = await incomplete(session, usual, stream, all)
  const whole = losing.size === 0 ? all : all.filter((envelope) => !losing.has(envelope.id))
  const parts = [...losing].map((id) => states.get(id)!.envelope)
  const asks: Ask[] = []
  if (stream.one === null) {
    const place = { teamId, stream: stream.name, runId: null }
    await setAside(session.db, place, parts.map(partOfRecord))
  } else {
    for (const envelope of parts) asks.push(asking(envelope, 'partial'))
    for (const id of sparse) asks.push(asking(states.get(id)!.envelope, 'partial'))
  }
  if (whole.length > 0) {
    const place = { teamId, stream: stream.name, runId: null }
    const lines = await linesInTurns(stream, whole)
    const { contested } = await writeBatch(session, {
      ...{ stream, place, lines, deadLetters: [], nobodyErased },
      from: 'events',
    })
    // What nobody can be asked for stays as the order of its versions has it.
    if (stream.one !== null)
      asks.push(...contested.map((id) => asking(states.get(id)!.envelope, 'contested')))
  }
  if (stream.one !== null && spoken.size > 0) {
    for (const envelope of all)
      if (spoken.has(`${teamId}/${stream.source}/${envelope.id}`)) asks.push(asking(envelope, 'contested'))
  }
  return [...asks, ...changedBy(stream, whole)]
}

/** Of a record that nobody can be asked for: loading what came would null what is held. */
function partOfRecord({ id, origin, content }: Envelope): DeadLetter {
  const reason = 'lacks values of the record that are held, and nobody can be asked for the whole'
  return { recordId: id, origin, reason, body: content?.text ?? 'null' }
}

async function linesInTurns(stream: Stream, envelopes: readonly Envelope[]): Promise<BatchLines> {
  const lines = openLines(stream)
  for (const [at, envelope] of envelopes.entries()) {
    if (at % BREATH === BREATH - 1) await setImmediate()
    lines.add(envelope)
  }
  return lines.build()
}

function asking(envelope: Envelope, reason: 'partial' | 'contested'): Ask {
  const { teamId, stream, id, origin } = envelope
  return { teamId, stream, id, reason, origin, since: null }
}

/** Members of submitted packets; those held as submitted, and read after they were stamped, are not asked for. */
function changedBy({ changes }: Stream, envelopes: readonly Envelope[]): readonly Ask[] {
  if (changes === undefined) return []
  return envelopes.flatMap(({ teamId, origin, observedAt, content }) => {
    const related = content === null ? null : changes(content.payload)
    if (related === null) return []
    const { stream, since } = related
    const from = since !== null && since < observedAt ? since : observedAt
    return related.ids.map((id): Ask => ({ teamId, stream, id, reason: 'member', origin, since: from }))
  })
}
