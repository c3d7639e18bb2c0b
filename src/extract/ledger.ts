/**
 * The ids that a scan has seen, kept in a temporary table so that memory stays flat however long the list is, and
 * compared there with what the warehouse holds (law 6).
 *
 * Invariant: an id is in the ledger exactly when its record, or a dead letter with it, was in a page of this scan.
 */
import { sql } from 'kysely'
import type { StreamName } from '../core/streams.ts'
import type { Instant } from '../core/time.ts'
import { copyCell, sendCopy } from '../load/copy.ts'
import type { Session } from '../warehouse/connect.ts'

const FLUSH_AT = 10_000

/**
 * The ledger and the records are compared whole, and nothing is known of a temporary table's contents: a plan that
 * looks ids up one by one would make a scan quadratic.
 */
export const LEDGER_PLANNER = ['enable_nestloop=off', 'jit=off']

export interface Ledger {
  add(id: string): void
  /** Writes what was added, once enough has gathered. */
  flushIfFull(): Promise<void>
  /** Distinct ids seen. */
  count(): Promise<number>
  /** Ids seen more than once. */
  repeated(): Promise<readonly string[]>
  /**
   * Live records held since before `since` that the scan did not see: how many, and the ids up to `limit`. A state that
   * was read more than a day later was read by a clock that was wrong, and says nothing.
   */
  missing(
    place: Place,
    since: Instant,
    limit: number,
  ): Promise<{ readonly count: number; readonly ids: readonly string[] }>
}

export interface Place {
  readonly teamId: number
  readonly stream: StreamName
}

export async function openLedger(session: Session): Promise<Ledger> {
  let waiting: string[] = []
  await session.client.query('create temporary table if not exists seen (id text not null); truncate seen')

  async function flush(): Promise<void> {
    if (waiting.length === 0) return
    const lines = Buffer.from(`${waiting.map(copyCell).join('\n')}\n`)
    waiting = []
    await sendCopy(session.client, 'copy pg_temp.seen (id) from stdin', lines)
  }

  return {
    add: (id) => {
      waiting.push(id)
    },
    flushIfFull: async () => {
      if (waiting.length >= FLUSH_AT) await flush()
    },
    async count() {
      await flush()
      const { rows } = await sql<{ ids: string }>`
        select count(*) as ids from (select from pg_temp.seen group by id) distinct_ids`.execute(session.db)
      return Number(rows[0]?.ids ?? 0)
    },
    async repeated() {
      await flush()
      const { rows } = await sql<{ id: string }>`
        select id from pg_temp.seen group by id having count(*) > 1`.execute(session.db)
      return rows.map((row) => row.id)
    },
    async missing(place, since, limit) {
      await flush()
      const { rows } = await sql<{ id: string; total: string }>`
        select held.id, count(*) over () as total
        from intake_raw.records held
        where held.team_id = ${place.teamId} and held.stream = ${place.stream} and not held.deleted
          and (held.observed_at < ${since} or held.observed_at > ${since}::timestamptz + interval '1 day')
          and not exists (select from pg_temp.seen where seen.id = held.id)
        order by held.id
        limit ${limit}`.execute(session.db)
      return { count: Number(rows[0]?.total ?? 0), ids: rows.map((row) => row.id) }
    },
  }
}

/** Records of the stream that the warehouse holds alive. */
export async function countLive(session: Session, place: Place): Promise<number> {
  const { rows } = await sql<{ live: string }>`
    select count(*) as live from intake_raw.records
    where team_id = ${place.teamId} and stream = ${place.stream} and not deleted`.execute(session.db)
  return Number(rows[0]?.live ?? 0)
}
