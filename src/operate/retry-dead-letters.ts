/**
 * Retries dead letters.
 *
 *     an event                         ─► pending in the inbox        drained by serve
 *     a record that has a detail path  ─► refetch by id               fetched by serve, or by the next backfill
 *     any other record                 ─► parsed from the stored body loaded at once
 *
 * Invariant: a dead letter becomes `retried` in the transaction that starts its retry. It keeps waiting where a retry is
 * not possible. A retry that fails creates a new dead letter.
 */
import { type Kysely, sql } from 'kysely'
import { INBOX, type StreamOrInbox } from '../core/envelope.ts'
import { IntakeError } from '../core/errors.ts'
import { parseJson } from '../core/json.ts'
import { type Instant, instantOf, laterOf, microsOf, parseInstant } from '../core/time.ts'
import { deadLetterBody } from '../ingest/drain/read-event.ts'
import { readEvent } from '../ingest/inbox/event.ts'
import { CHANNEL } from '../ingest/inbox/notices.ts'
import { isRefusalOfData } from '../load/merge/load.ts'
import { prepareStaging, writeBatch } from '../load/merge/write-batch.ts'
import { requestRefetches } from '../load/refetches.ts'
import { linesOf } from '../normalize/lines.ts'
import { readRecord } from '../normalize/read-record.ts'
import { streamNamed } from '../streams/catalogue.ts'
import type { Stream } from '../streams/stream.ts'
import type { Session } from '../warehouse/connect.ts'
import { sqlstateOf } from '../warehouse/sqlstate.ts'
import type { Warehouse } from '../warehouse/tables.ts'

export type Retried =
  /** `pending`: an event is back in the inbox. `asked`: a refetch by id is queued. `loaded`: from the stored body. */
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
  /** The last run that dead-lettered the record. */
  readonly runId: number | null
}

/** Retries each dead letter in a transaction of its own; `null` retries all that wait. Throws if an id is not waiting. */
export async function retryDeadLetters(
  session: Session,
  ids: readonly number[] | null,
): Promise<readonly Retried[]> {
  const waiting = await waitingIds(session.db, ids)
  const tried: Retried[] = []
  for (const id of waiting) tried.push(await retryOne(session, id))
  if (tried.some(({ outcome }) => outcome === 'pending'))
    await sql`select pg_notify(${CHANNEL}, '')`.execute(session.db)
  return tried
}

/** Throws if an id is not waiting; then nothing is discarded. */
export async function discardDeadLetters(db: Kysely<Warehouse>, ids: readonly number[]): Promise<void> {
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
  throw new IntakeError(`no waiting dead letter has the id ${missing.join(', ')}; nothing was done`, {
    code: 'no_such_letter',
    verdict: 'stop',
    hint: 'intake-sync dead-letters list shows those that wait; --status all shows every one',
  })
}

async function retryOne(session: Session, id: number): Promise<Retried> {
  const { client, db } = session
  const streams = await sql<{ stream: StreamOrInbox }>`
    select stream from intake_ops.dead_letters where id = ${id}`.execute(db)
  const name = streams.rows[0]?.stream ?? INBOX
  const stream = name === INBOX ? undefined : streamNamed(name)
  // Staging tables must exist before the transaction begins.
  if (stream !== undefined) await prepareStaging(session, stream)
  await client.query('begin')
  try {
    const deadLetter = await lockDeadLetter(db, id)
    const tried =
      deadLetter === null ? notPossible(id, 'it no longer waits') : await start(session, deadLetter, stream)
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

async function lockDeadLetter(db: Kysely<Warehouse>, id: number): Promise<Waiting | null> {
  const { rows } = await sql<Waiting>`
    select dead.id::int as id, dead.team_id as "teamId", dead.stream, dead.record_id as "recordId", dead.origin,
      coalesce(stored.body, '') as body,
      to_char(dead.created_at, 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as "createdAt", dead.last_run_id::int as "runId"
    from intake_ops.dead_letters dead left join intake_raw.set_aside stored on stored.dead_letter_id = dead.id
    where dead.id = ${id} and dead.status = 'waiting' for update of dead`.execute(db)
  return rows[0] ?? null
}

async function start(session: Session, deadLetter: Waiting, stream: Stream | undefined): Promise<Retried> {
  const { id, teamId, recordId, origin } = deadLetter
  const { rows } = await sql<{ removed: readonly number[] }>`
    select intake_raw.hold_inbox_of(array[${teamId}::smallint]) as removed`.execute(session.db)
  if (rows[0]!.removed.length > 0) return notPossible(id, 'its team was removed')
  const eventId = /^event:(.*?)( refetch)?$/s.exec(origin)
  if (eventId !== null && eventId[2] === undefined)
    return await backToInbox(session.db, deadLetter, eventId[1]!)
  if (stream === undefined) return notPossible(id, 'its stream is unknown')
  if (stream.one !== null && recordId !== null) {
    await requestRefetches(session.db, [
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
  if (stream.reading?.kind === 'files' && origin.endsWith(' file'))
    return notPossible(id, 'the next backfill fetches the files of exports again')
  return await loadBody(session, deadLetter, stream)
}

/** Makes the event pending again. Inserts it if its day of the inbox has been dropped. */
async function backToInbox(db: Kysely<Warehouse>, deadLetter: Waiting, eventId: string): Promise<Retried> {
  const { id, teamId, body } = deadLetter
  const hashes = await hashesOfBody(db, deadLetter, eventId)
  if (hashes.length > 0) {
    await sql`
      update intake_raw.inbox set status = 'pending', attempts = 0, due_at = null, settled_at = null
      where team_id = ${teamId} and event_id = ${eventId} and status = 'dead'
        and body_hash = any(${hashes}::bytea[])`.execute(db)
    return { id, outcome: 'pending' }
  }
  const event = readEvent(teamId, body)
  await sql`
    insert into intake_raw.inbox
      (team_id, event_id, body_hash, received_on, received_at, event_type, source, record_id, body)
    values (${teamId}, ${event.eventId}, decode(${event.bodyHash}, 'hex'), (now() at time zone 'UTC')::date,
      ${deadLetter.createdAt}, ${event.eventType}, ${event.source}, ${event.recordId}, ${body})
    on conflict (team_id, event_id, body_hash, received_on) do update
      set settled_at = null, status = 'pending', attempts = 0, due_at = null`.execute(db)
  return { id, outcome: 'pending' }
}

/** One event id may arrive with several bodies, each a dead letter of its own: the hashes that match this one. */
async function hashesOfBody(
  db: Kysely<Warehouse>,
  { teamId, stream: name, body }: Waiting,
  eventId: string,
): Promise<readonly Buffer[]> {
  const { rows } = await sql<{ hash: Buffer; body: Buffer }>`
    select body_hash as hash, body from intake_raw.inbox
    where team_id = ${teamId} and event_id = ${eventId} and status = 'dead'`.execute(db)
  const stream = name === INBOX ? undefined : streamNamed(name)
  return rows.filter((row) => body.equals(deadLetterBody(row.body, stream))).map(({ hash }) => hash)
}

/** Loads the stored body as of the time it was read, so that a state read since then wins. */
async function loadBody(session: Session, deadLetter: Waiting, stream: Stream): Promise<Retried> {
  const { id, teamId, body, origin, createdAt } = deadLetter
  let value: unknown
  try {
    value = parseJson(body).value
  } catch {
    return notPossible(
      id,
      'the stored body cannot be parsed; the next full backfill may return the whole record',
    )
  }
  const observedAt = await readTime(session.db, deadLetter)
  const read = readRecord(value, { teamId, stream, origin, observedAt, invalidUtf8: false })
  if (read.kind === 'dead') return notPossible(id, `the stored body ${read.deadLetter.reason}, as before`)
  const lines = linesOf(stream, [read.envelope])
  await writeBatch(session, { stream, lines, from: { kind: 'pages', requestedAt: createdAt } })
  return { id, outcome: 'loaded' }
}

/**
 * When the record was read, in the service's clock. `createdAt` is in the warehouse's clock, which may differ by any
 * number of seconds. Where a run read the stored state, the order of the runs decides instead.
 */
async function readTime(
  db: Kysely<Warehouse>,
  { teamId, stream, recordId, createdAt, runId }: Waiting,
): Promise<Instant> {
  const { rows } = await sql<{ version: string; observed_at: string; run_id: number | null }>`
    select to_char(version, 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as version,
      to_char(observed_at, 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as observed_at,
      substring(origin from '^run:([0-9]+) ')::int as run_id
    from intake_raw.records where team_id = ${teamId} and stream = ${stream} and id = ${recordId}`.execute(db)
  const [current] = rows
  if (current === undefined || current.run_id === null || runId === null) return createdAt
  const moment = (text: string, micros: number) => instantOf(microsOf(parseInstant(text)!) + micros)
  if (current.run_id < runId) return laterOf(createdAt, moment(current.version, 1))
  const before = moment(current.observed_at, -1)
  return before < createdAt ? before : createdAt
}

function notPossible(id: number, why: string): Retried {
  return { id, outcome: 'not_possible', why }
}
