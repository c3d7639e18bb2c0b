/**
 * All that the warehouse holds of one record: its states, the events about it, what was set aside, what is asked for.
 * Invariant: reads only.
 */
import { type Kysely, sql } from 'kysely'
import type { Instant } from '../../core/time.ts'
import type { Stream } from '../../streams/stream.ts'
import type { Warehouse } from '../../warehouse/tables.ts'
import type { Letter } from '../dead-letters/read.ts'

export interface State {
  readonly version: Instant
  readonly observedAt: Instant
  readonly deleted: boolean
  /** Hexadecimal; empty for a tombstone. */
  readonly hash: string
  readonly origin: string
  /** JSON text; null for a tombstone. */
  readonly payload: string | null
  /** When another took its place; null for the newest. */
  readonly supersededAt: string | null
}

export interface HeldEvent {
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

export interface KeptRecord {
  /** From the oldest to the newest. */
  readonly states: readonly State[]
  readonly events: readonly HeldEvent[]
  readonly letters: readonly Letter[]
  readonly refetch: Refetch | null
  /** What runs are named in origins, with when they began. */
  readonly runs: ReadonlyMap<number, { readonly kind: string; readonly startedAt: string }>
}

export interface Key {
  readonly teamId: number
  readonly stream: Stream
  readonly id: string
}

const INSTANT = sql.lit('YYYY-MM-DD"T"HH24:MI:SS.US"Z"')

export async function readKept(db: Kysely<Warehouse>, key: Key): Promise<KeptRecord> {
  const { teamId, stream, id } = key
  const own = sql`team_id = ${teamId} and stream = ${stream.name} and id = ${id}`
  const columns = sql`to_char(version, ${INSTANT}) as version, to_char(observed_at, ${INSTANT}) as "observedAt", deleted,
    encode(hash, 'hex') as hash, origin, payload::text as payload`
  const { rows: states } = await sql<State>`
    select ${columns}, to_json(superseded_at) #>> '{}' as "supersededAt", superseded_at as at
    from intake_raw.record_history where ${own}
    union all
    select ${columns}, null, 'infinity' from intake_raw.records where ${own}
    order by at, version`.execute(db)
  const { rows: letters } = await sql<Letter>`
    select letter.id::int as id, team.name as team, letter.stream, letter.record_id, letter.origin, letter.reason,
      letter.status, letter.seen::int as seen, to_json(letter.created_at) #>> '{}' as created_at,
      to_json(letter.last_seen_at) #>> '{}' as last_seen_at, letter.last_run_id::int as last_run_id,
      to_json(letter.settled_at) #>> '{}' as settled_at
    from intake_ops.dead_letters letter join intake.teams team using (team_id)
    where letter.team_id = ${teamId} and letter.stream = ${stream.name} and letter.record_id = ${id}
    order by letter.id`.execute(db)
  const { rows: refetches } = await sql<Refetch>`
    select reason, origin, attempts + failures as attempts, to_json(requested_at) #>> '{}' as requested_at, to_json(due_at) #>> '{}' as due_at
    from intake_ops.refetches where ${own}`.execute(db)
  const events = await eventsAbout(db, key)
  return { states, events, letters, refetch: refetches[0] ?? null, runs: await runsIn(db, states) }
}

async function eventsAbout(
  db: Kysely<Warehouse>,
  { teamId, stream, id }: Key,
): Promise<readonly HeldEvent[]> {
  if (stream.source === undefined) return []
  const { rows } = await sql<HeldEvent>`
    select event_id as "eventId", event_type as "eventType", to_char(received_at, ${INSTANT}) as "receivedAt", status,
      attempts, body
    from intake_raw.inbox where team_id = ${teamId} and source = ${stream.source} and record_id = ${id}
    order by seq`.execute(db)
  return rows
}

async function runsIn(db: Kysely<Warehouse>, states: readonly State[]): Promise<KeptRecord['runs']> {
  const ids = states.flatMap(({ origin }) => /^run:(\d{1,18})\b/.exec(origin)?.[1] ?? [])
  const { rows } = await sql<{ id: number; kind: string; startedAt: string }>`
    select run_id::int as id, kind, to_json(started_at) #>> '{}' as "startedAt" from intake_ops.runs
    where run_id = any(${ids}::bigint[])`.execute(db)
  return new Map(rows.map(({ id, kind, startedAt }) => [id, { kind, startedAt }]))
}
