/**
 * What was set aside, given another try.
 *
 *     an event           ─► pending in the inbox again            drained by serve
 *     a record with a path ─► asked for by its id                 fetched by serve, or the next backfill
 *     any other record   ─► read from what was set aside          loaded here and now
 *
 * Invariant: a letter becomes `retried` in the transaction that gives it its try, and not where none can be given. What
 * fails again is a new letter.
 */
import { type Kysely, sql } from 'kysely'
import { IntakeError } from '../../core/errors.ts'
import { parseJson } from '../../core/json.ts'
import { INBOX, type StreamOrInbox } from '../../core/streams.ts'
import { type Instant, instantOf, laterOf, microsOf, parseInstant } from '../../core/time.ts'
import { keptOf } from '../../ingest/drain/read-event.ts'
import { readEvent } from '../../ingest/inbox/event.ts'
import { CHANNEL } from '../../ingest/inbox/notices.ts'
import { isRefusalOfData } from '../../load/load.ts'
import { prepareStaging, writeBatch } from '../../load/merge/write-batch.ts'
import { askAgain } from '../../load/refetches.ts'
import { linesOf } from '../../normalize/lines.ts'
import { readRecord } from '../../normalize/read-record.ts'
import { streamNamed } from '../../streams/catalogue.ts'
import type { Stream } from '../../streams/stream.ts'
import type { Session } from '../../warehouse/connect.ts'
import { sqlstateOf } from '../../warehouse/sqlstate.ts'
import type { Warehouse } from '../../warehouse/tables.ts'

export type Tried =
  /** `pending`: an event, `asked`: by id, `loaded`: from what was set aside. */
  | { readonly id: number; readonly outcome: 'pending' | 'asked' | 'loaded' }
  | { readonly id: number; readonly outcome: 'not_possible'; readonly why: string }

interface Waiting {
  readonly id: number
  readonly teamId: number
  readonly stream: StreamOrInbox
  readonly recordId: string | null
  readonly origin: string
  readonly body: Buffer
  readonly createdAt: Instant
  /** The run that last met it. */
  readonly runId: number | null
}

/** Tries letters one by one; `null` for all that wait. Throws when an id names none that waits. */
export async function retryLetters(
  session: Session,
  ids: readonly number[] | null,
): Promise<readonly Tried[]> {
  const waiting = await waitingIds(session.db, ids)
  const tried: Tried[] = []
  for (const id of waiting) tried.push(await retryOne(session, id))
  if (tried.some(({ outcome }) => outcome === 'pending'))
    await sql`select pg_notify(${CHANNEL}, '')`.execute(session.db)
  return tried
}

/** Marks letters as discarded. Throws when an id names none that waits. */
export async function discardLetters(db: Kysely<Warehouse>, ids: readonly number[]): Promise<void> {
  await db.transaction().execute(async (transaction) => {
    const waiting = await waitingIds(transaction, ids)
    await sql`
      update intake_ops.dead_letters set status = 'discarded', settled_at = now() where id = any(${waiting}::bigint[])`.execute(
      transaction,
    )
  })
}

async function waitingIds(db: Kysely<Warehouse>, ids: readonly number[] | null): Promise<readonly number[]> {
  const { rows } = await sql<{ id: number }>`
    select id::int as id from intake_ops.dead_letters
    where status = 'waiting' and (${ids}::bigint[] is null or id = any(${ids}::bigint[])) order by id`.execute(
    db,
  )
  const found = rows.map(({ id }) => id)
  const missing = (ids ?? []).filter((id) => !found.includes(id))
  if (missing.length === 0) return found
  throw new IntakeError(`no dead letter waits under ${missing.join(', ')}; nothing was done`, {
    code: 'no_such_letter',
    verdict: 'stop',
    hint: 'intake-sync dead-letters list shows those that wait; with --all the others too',
  })
}

async function retryOne(session: Session, id: number): Promise<Tried> {
  const { client, db } = session
  const streams = await sql<{ stream: StreamOrInbox }>`
    select stream from intake_ops.dead_letters where id = ${id}`.execute(db)
  const name = streams.rows[0]?.stream ?? INBOX
  const stream = name === INBOX ? undefined : streamNamed(name)
  // Staging tables are made before a transaction begins.
  if (stream !== undefined) await prepareStaging(session, stream)
  await client.query('begin')
  try {
    const letter = await takeLetter(db, id)
    const tried =
      letter === null ? notPossible(id, 'it no longer waits') : await giveTry(session, letter, stream)
    if (tried.outcome !== 'not_possible')
      await sql`update intake_ops.dead_letters set status = 'retried', settled_at = now() where id = ${id}`.execute(
        db,
      )
    await client.query('commit')
    return tried
  } catch (error) {
    await client.query('rollback').catch(() => {})
    const state = sqlstateOf(error)
    if (!isRefusalOfData(state)) throw error
    return notPossible(id, `the warehouse still refuses the record (SQLSTATE ${state})`)
  }
}

async function takeLetter(db: Kysely<Warehouse>, id: number): Promise<Waiting | null> {
  const { rows } = await sql<Waiting>`
    select letter.id::int as id, letter.team_id as "teamId", letter.stream, letter.record_id as "recordId", letter.origin,
      coalesce(held.body, '') as body,
      to_char(letter.created_at, 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as "createdAt", letter.last_run_id::int as "runId"
    from intake_ops.dead_letters letter left join intake_raw.set_aside held on held.dead_letter_id = letter.id
    where letter.id = ${id} and letter.status = 'waiting' for update of letter`.execute(db)
  return rows[0] ?? null
}

async function giveTry(session: Session, letter: Waiting, stream: Stream | undefined): Promise<Tried> {
  const { id, teamId, recordId, origin } = letter
  const { rows: held } = await sql<{ removed: readonly number[] }>`
    select intake_raw.hold_inbox_of(array[${teamId}::smallint]) as removed`.execute(session.db)
  if (held[0]!.removed.length > 0) return notPossible(id, 'its team was removed')
  const eventId = /^event:(.*?)( refetch)?$/s.exec(origin)
  if (eventId !== null && eventId[2] === undefined) return await backToInbox(session.db, letter, eventId[1]!)
  if (stream === undefined) return notPossible(id, 'it names no stream that is known')
  if (stream.one !== null && recordId !== null) {
    await askAgain(session.db, [
      {
        teamId,
        stream: stream.name,
        id: recordId,
        reason: 'contested',
        origin: `dead letter ${id}`,
        since: null,
      },
    ])
    return { id, outcome: 'asked' }
  }
  if (stream.reading?.kind === 'exports' && origin.endsWith(' file'))
    return notPossible(id, 'files of exports are fetched again by the next backfill')
  return await loadBody(session, letter, stream)
}

/** Pending again; one that is too old to be held is stored anew. */
async function backToInbox(db: Kysely<Warehouse>, letter: Waiting, eventId: string): Promise<Tried> {
  const { id, teamId, body } = letter
  const own = await bodiesOf(db, letter, eventId)
  if (own.length > 0) {
    await sql`
      update intake_raw.inbox set status = 'pending', attempts = 0, due_at = null, settled_at = null
      where team_id = ${teamId} and event_id = ${eventId} and status = 'dead'
        and body_hash = any(${own}::bytea[])`.execute(db)
    return { id, outcome: 'pending' }
  }
  const event = readEvent(teamId, body)
  await sql`
    insert into intake_raw.inbox
      (team_id, event_id, body_hash, received_on, received_at, event_type, source, record_id, body)
    values (${teamId}, ${event.eventId}, decode(${event.bodyHash}, 'hex'), (now() at time zone 'UTC')::date,
      ${letter.createdAt}, ${event.eventType}, ${event.source}, ${event.recordId}, ${body})
    on conflict (team_id, event_id, body_hash, received_on) do update set status = 'pending', attempts = 0, due_at = null`.execute(
    db,
  )
  return { id, outcome: 'pending' }
}

/** An event id may come with several bodies, each set aside by itself: which of them this letter is about. */
async function bodiesOf(
  db: Kysely<Warehouse>,
  { teamId, stream: name, body }: Waiting,
  eventId: string,
): Promise<readonly Buffer[]> {
  const { rows } = await sql<{ hash: Buffer; body: Buffer }>`
    select body_hash as hash, body from intake_raw.inbox
    where team_id = ${teamId} and event_id = ${eventId} and status = 'dead'`.execute(db)
  const stream = name === INBOX ? undefined : streamNamed(name)
  return rows.filter((row) => body.equals(keptOf(row.body, stream))).map(({ hash }) => hash)
}

/** As of the moment when it was set aside: what was read of the record since then wins. */
async function loadBody(session: Session, letter: Waiting, stream: Stream): Promise<Tried> {
  const { id, teamId, body, origin, createdAt } = letter
  let value: unknown
  try {
    value = parseJson(body).value
  } catch {
    return notPossible(
      id,
      'what was set aside cannot be read; the next full backfill may bring the record whole',
    )
  }
  const place = { teamId, stream: stream.name, runId: null }
  const observedAt = await readAt(session.db, letter)
  const read = readRecord(value, { ...place, origin, observedAt, invalidUtf8: false })
  if (read.kind === 'dead') return notPossible(id, `what was set aside ${read.deadLetter.reason}, as before`)
  const lines = linesOf(stream, [read.envelope])
  await writeBatch(session, { stream, lines, from: { kind: 'pages', askedAt: createdAt } })
  return { id, outcome: 'loaded' }
}

/**
 * When the letter's record was read, in the service's clock. The warehouse's own, in which the letter was written, may
 * be any number of seconds away from it: beside what is held, the order of the runs decides.
 */
async function readAt(
  db: Kysely<Warehouse>,
  { teamId, stream, recordId, createdAt, runId }: Waiting,
): Promise<Instant> {
  const { rows } = await sql<{ version: string; observed_at: string; run_id: number | null }>`
    select to_char(version, 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as version,
      to_char(observed_at, 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as observed_at,
      substring(origin from '^run:([0-9]+) ')::int as run_id
    from intake_raw.records where team_id = ${teamId} and stream = ${stream} and id = ${recordId}`.execute(db)
  const [held] = rows
  if (held === undefined || held.run_id === null || runId === null) return createdAt
  const moment = (text: string, micros: number) => instantOf(microsOf(parseInstant(text)!) + micros)
  if (held.run_id < runId) return laterOf(createdAt, moment(held.version, 1))
  const before = moment(held.observed_at, -1)
  return before < createdAt ? before : createdAt
}

function notPossible(id: number, why: string): Tried {
  return { id, outcome: 'not_possible', why }
}
