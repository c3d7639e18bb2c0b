/**
 * Reads everything that the warehouse stores about one record: states, events, dead letters and a pending refetch.
 *
 * Invariant: what it returns contains health data; callers decide what to show.
 */
import { type Kysely, sql } from 'kysely'
import type { Instant } from '../core/time.ts'
import type { Stream } from '../streams/stream.ts'
import type { Warehouse } from '../warehouse/tables.ts'
import type { StoredDeadLetter } from './dead-letters.ts'

export interface State {
  readonly version: Instant
  readonly observedAt: Instant
  readonly deleted: boolean
  /** Hexadecimal; empty for a tombstone. */
  readonly hash: string
  readonly origin: string
  /** JSON text; null for a tombstone. */
  readonly payload: string | null
  /** Null for the current state. */
  readonly supersededAt: string | null
}

export interface StoredEvent {
  readonly eventId: string
  readonly eventType: string | null
  readonly receivedAt: Instant
  readonly status: string
  readonly attempts: number
  readonly body: Buffer
}

export interface Refetch {
  readonly reason: string
  readonly origin: string
  readonly attempts: number
  readonly requested_at: string
  readonly due_at: string
}

export interface StoredRecord {
  /** From the oldest to the newest. */
  readonly states: readonly State[]
  readonly events: readonly StoredEvent[]
  readonly deadLetters: readonly StoredDeadLetter[]
  readonly refetch: Refetch | null
  /** The runs that origins name, by id. */
  readonly runs: ReadonlyMap<number, { readonly kind: string; readonly startedAt: string }>
}

export interface Key {
  readonly teamId: number
  readonly stream: Stream
  readonly id: string
}

const INSTANT = sql.lit('YYYY-MM-DD"T"HH24:MI:SS.US"Z"')

export async function readStoredRecord(db: Kysely<Warehouse>, key: Key): Promise<StoredRecord> {
  const { teamId, stream, id } = key
  const ofRecord = sql`team_id = ${teamId} and stream = ${stream.name} and id = ${id}`
  const columns = sql`to_char(version, ${INSTANT}) as version, to_char(observed_at, ${INSTANT}) as "observedAt", deleted,
    encode(hash, 'hex') as hash, origin, payload::text as payload`
  const { rows: states } = await sql<State>`
    select ${columns}, to_json(superseded_at) #>> '{}' as "supersededAt", superseded_at as at
    from intake_raw.record_history where ${ofRecord}
    union all
    select ${columns}, null, 'infinity' from intake_raw.records where ${ofRecord}
    order by at, version`.execute(db)
  const { rows: deadLetters } = await sql<StoredDeadLetter>`
    select dead.id::int as id, team.name as team, dead.stream, dead.record_id, dead.origin, dead.reason,
      dead.status, dead.seen::int as seen, to_json(dead.created_at) #>> '{}' as created_at,
      to_json(dead.last_seen_at) #>> '{}' as last_seen_at, dead.last_run_id::int as last_run_id,
      to_json(dead.settled_at) #>> '{}' as settled_at
    from intake_ops.dead_letters dead join intake.teams team using (team_id)
    where dead.team_id = ${teamId} and dead.stream = ${stream.name} and dead.record_id = ${id}
    order by dead.id`.execute(db)
  const { rows: refetches } = await sql<Refetch>`
    select reason, origin, attempts + failures as attempts, to_json(requested_at) #>> '{}' as requested_at, to_json(due_at) #>> '{}' as due_at
    from intake_ops.refetches where ${ofRecord}`.execute(db)
  const events = await eventsAbout(db, key)
  return { states, events, deadLetters, refetch: refetches[0] ?? null, runs: await runsIn(db, states) }
}

async function eventsAbout(
  db: Kysely<Warehouse>,
  { teamId, stream, id }: Key,
): Promise<readonly StoredEvent[]> {
  if (stream.source === undefined) return []
  const { rows } = await sql<StoredEvent>`
    select event_id as "eventId", event_type as "eventType", to_char(received_at, ${INSTANT}) as "receivedAt", status,
      attempts, body
    from intake_raw.inbox where team_id = ${teamId} and source = ${stream.source} and record_id = ${id}
    order by seq`.execute(db)
  return rows
}

async function runsIn(db: Kysely<Warehouse>, states: readonly State[]): Promise<StoredRecord['runs']> {
  const ids = states.flatMap(({ origin }) => /^run:(\d{1,18})\b/.exec(origin)?.[1] ?? [])
  const { rows } = await sql<{ id: number; kind: string; startedAt: string }>`
    select run_id::int as id, kind, to_json(started_at) #>> '{}' as "startedAt" from intake_ops.runs
    where run_id = any(${ids}::bigint[])`.execute(db)
  return new Map(rows.map(({ id, kind, startedAt }) => [id, { kind, startedAt }]))
}
