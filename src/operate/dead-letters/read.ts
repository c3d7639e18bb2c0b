/** What was set aside: which records and events, why, and how often. Invariant: reads only; a body comes by itself. */
import { type Kysely, sql } from 'kysely'
import type { StreamOrInbox } from '../../core/streams.ts'
import type { Warehouse } from '../../warehouse/tables.ts'

export interface Letter {
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
  /** When it came to need nobody; null while it waits. */
  readonly settled_at: string | null
}

export interface LetterFilter {
  readonly team?: string
  readonly stream?: string
  /** All of them when left out. */
  readonly status?: string
  readonly limit: number
}

export interface LetterList {
  /** The newest. */
  readonly letters: readonly Letter[]
  readonly total: number
}

const LETTER = sql<Letter>`
  letter.id::int as id, coalesce(team.name, letter.team_id::text) as team, letter.stream, letter.record_id, letter.origin,
  letter.reason, letter.status, letter.seen::int as seen, to_json(letter.created_at) #>> '{}' as created_at,
  to_json(letter.last_seen_at) #>> '{}' as last_seen_at, letter.last_run_id::int as last_run_id,
  to_json(letter.settled_at) #>> '{}' as settled_at`

export async function listLetters(db: Kysely<Warehouse>, filter: LetterFilter): Promise<LetterList> {
  const { team = null, stream = null, status = null, limit } = filter
  const { rows } = await sql<Letter & { total: number }>`
    select ${LETTER}, count(*) over ()::int as total
    from intake_ops.dead_letters letter left join intake.teams team using (team_id)
    where (${status}::text is null or letter.status = ${status})
      and (${stream}::text is null or letter.stream = ${stream})
      and (${team}::text is null or team.name = ${team})
    order by letter.id desc limit ${limit}`.execute(db)
  const total = rows[0]?.total ?? 0
  return { letters: rows.map(({ total: _, ...letter }) => letter), total }
}

export interface WholeLetter extends Letter {
  /** Null where it is kept no longer: long after the letter was settled. */
  readonly body: Buffer | null
}

export async function letterOf(db: Kysely<Warehouse>, id: number): Promise<WholeLetter | null> {
  const { rows } = await sql<WholeLetter>`
    select ${LETTER}, held.body
    from intake_ops.dead_letters letter
    left join intake.teams team using (team_id)
    left join intake_raw.set_aside held on held.dead_letter_id = letter.id
    where letter.id = ${id}`.execute(db)
  return rows[0] ?? null
}
