/** Reads dead letters: the record or event, the reason and the count. Invariant: a list contains no body. */
import { type Kysely, sql } from 'kysely'
import type { StreamOrInbox } from '../core/envelope.ts'
import type { Warehouse } from '../warehouse/tables.ts'

export interface StoredDeadLetter {
  readonly id: number
  readonly team: string
  readonly stream: StreamOrInbox
  readonly record_id: string | null
  readonly origin: string
  readonly reason: string
  /** waiting, resolved, retried or discarded. */
  readonly status: string
  readonly seen: number
  readonly created_at: string
  readonly last_seen_at: string
  readonly last_run_id: number | null
  /** Null while the status is `waiting`. */
  readonly settled_at: string | null
}

export interface DeadLetterFilter {
  readonly team?: string
  readonly stream?: string
  /** Default: every status. */
  readonly status?: string
  readonly limit: number
}

export interface DeadLetterList {
  /** The newest first. */
  readonly deadLetters: readonly StoredDeadLetter[]
  readonly total: number
}

const COLUMNS = sql<StoredDeadLetter>`
  dead.id::int as id, coalesce(team.name, dead.team_id::text) as team, dead.stream, dead.record_id, dead.origin,
  dead.reason, dead.status, dead.seen::int as seen, to_json(dead.created_at) #>> '{}' as created_at,
  to_json(dead.last_seen_at) #>> '{}' as last_seen_at, dead.last_run_id::int as last_run_id,
  to_json(dead.settled_at) #>> '{}' as settled_at`

export async function listDeadLetters(
  db: Kysely<Warehouse>,
  filter: DeadLetterFilter,
): Promise<DeadLetterList> {
  const { team = null, stream = null, status = null, limit } = filter
  const { rows } = await sql<StoredDeadLetter & { total: number }>`
    select ${COLUMNS}, count(*) over ()::int as total
    from intake_ops.dead_letters dead left join intake.teams team using (team_id)
    where (${status}::text is null or dead.status = ${status})
      and (${stream}::text is null or dead.stream = ${stream})
      and (${team}::text is null or team.name = ${team})
    order by dead.id desc limit ${limit}`.execute(db)
  const total = rows[0]?.total ?? 0
  return { deadLetters: rows.map(({ total: _, ...deadLetter }) => deadLetter), total }
}

export interface DeadLetterWithBody extends StoredDeadLetter {
  /** Null once the retention period after settlement has removed it. */
  readonly body: Buffer | null
}

export async function readDeadLetter(db: Kysely<Warehouse>, id: number): Promise<DeadLetterWithBody | null> {
  const { rows } = await sql<DeadLetterWithBody>`
    select ${COLUMNS}, stored.body
    from intake_ops.dead_letters dead
    left join intake.teams team using (team_id)
    left join intake_raw.set_aside stored on stored.dead_letter_id = dead.id
    where dead.id = ${id}`.execute(db)
  return rows[0] ?? null
}
