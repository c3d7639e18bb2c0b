/**
 * The ids that a scan has seen, kept in a temporary table so that memory stays flat however long the list is, and
 * compared there with the stored records (law 6).
 *
 * Invariant: an id is among the seen ids exactly when its record, or a dead letter with it, was in a page of this scan.
 */
import { sql } from 'kysely'
import type { Envelope, StreamName } from '../../core/envelope.ts'
import type { Instant } from '../../core/time.ts'
import { sendCopy } from '../../load/merge/write-batch.ts'
import { copyCell } from '../../normalize/lines.ts'
import type { Session } from '../../warehouse/connect.ts'

const FLUSH_AT = 10_000

export interface SeenIds {
  add(id: string): void
  /** Notes the list entry by which a record was fetched, or found unchanged. */
  addSummary(summary: Envelope): void
  /**
   * Ids of the summaries that equal the list entry by which the current state was fetched. A summary without
   * `updated_at` may hide a change, and is never one of them.
   */
  unchangedSummaries(place: Place, summaries: readonly Envelope[]): Promise<ReadonlySet<string>>
  /** Keeps the noted summaries of records that are loaded. Those of the given ids stay noted, for a later call. */
  keepSummaries(place: Place, except?: ReadonlySet<string>): Promise<void>
  /** Adds the ids of the kept pages (scan-progress.ts), except the pages `without`, which are read again. */
  restore(place: Place, scan: { readonly beganAt: string }, without: readonly number[]): Promise<void>
  /** When the scan began, on the clock of the warehouse. */
  readonly beganAt: string
  /** Writes the added ids once there are enough. */
  flushIfFull(): Promise<void>
  /** Distinct ids seen. */
  count(): Promise<number>
  /** The ids seen, in order. */
  ids(): Promise<readonly string[]>
  /** Ids seen more than once. */
  repeated(): Promise<readonly string[]>
  /**
   * Live records that were stored before the scan and that it did not see: their number, and the ids up to `limit`. They
   * were read before `since`, a time of the service's clock, or written before the scan began: a service whose clock was
   * set back may have given them a time in the future. A time more than a day after `since` came from a wrong clock and
   * is ignored.
   */
  missing(
    place: TabledPlace,
    since: Instant,
    limit: number,
  ): Promise<{ readonly count: number; readonly ids: readonly string[] }>
}

export interface Place {
  readonly teamId: number
  readonly stream: StreamName
}

/** As `Place`, with the table of the stream's rows, whose `_loaded_at` is the time they were written. */
export interface TabledPlace extends Place {
  readonly table: string
}

export async function openSeenIds(session: Session): Promise<SeenIds> {
  const waiting: string[] = []
  const summaries: string[] = []
  await session.client.query(`
    create temporary table if not exists seen (id text not null);
    create temporary table if not exists summaries (id text not null, hash bytea not null);
    truncate seen, summaries`)
  const { rows: began } = await sql<{ at: string }>`select now()::text as at`.execute(session.db)
  let beganAt = began[0]!.at

  async function flush(): Promise<void> {
    await send('copy pg_temp.seen (id) from stdin', waiting.splice(0).map(copyCell))
    await send('copy pg_temp.summaries (id, hash) from stdin', summaries.splice(0))
  }

  async function send(statement: string, lines: readonly string[]): Promise<void> {
    if (lines.length > 0) await sendCopy(session.client, statement, Buffer.from(`${lines.join('\n')}\n`))
  }

  return {
    addSummary: ({ id, content }) => {
      summaries.push(`${copyCell(id)}\t\\\\x${content!.hash}`)
    },
    async unchangedSummaries({ teamId, stream }, incoming) {
      const dated = incoming.filter(({ content }) => typeof content!.payload.updated_at === 'string')
      if (dated.length === 0) return new Set()
      const ids = dated.map(({ id }) => id)
      const hashes = dated.map(({ content }) => content!.hash)
      const { rows } = await sql<{ id: string }>`
        select incoming.id from unnest(${ids}::text[], ${hashes}::text[]) as incoming (id, hash)
        cross join lateral (
          select hash from intake_raw.list_entries entry
          where team_id = ${teamId} and stream = ${stream} and entry.id = incoming.id
          offset 0
        ) entry
        cross join lateral (
          select from intake_raw.records current
          where team_id = ${teamId} and stream = ${stream} and current.id = incoming.id and not deleted
          offset 0
        ) current
        where entry.hash = decode(incoming.hash, 'hex')`.execute(session.db)
      return new Set(rows.map(({ id }) => id))
    },
    get beganAt() {
      return beganAt
    },
    async restore({ teamId, stream }, scan, without) {
      beganAt = scan.beganAt
      await sql`
        insert into pg_temp.seen (id) select unnest(ids) from intake_ops.scan_pages
        where team_id = ${teamId} and stream = ${stream} and page <> all(${[...without]}::int[])`.execute(
        session.db,
      )
    },
    async keepSummaries({ teamId, stream }, except = new Set()) {
      await flush()
      await sql`
        with noted as (delete from pg_temp.summaries where id <> all(${[...except]}::text[]) returning id, hash)
        insert into intake_raw.list_entries (team_id, stream, id, hash)
        select ${teamId}, ${stream}, incoming.id, incoming.hash
        from (select distinct on (id) id, hash from noted order by id, hash) incoming
        where exists (select from intake_raw.records current
                      where current.team_id = ${teamId} and current.stream = ${stream} and current.id = incoming.id
                        and not current.deleted)
          and not exists (select from intake_ops.dead_letters dead_letter
                          where dead_letter.team_id = ${teamId} and dead_letter.stream = ${stream}
                            and dead_letter.record_id = incoming.id and dead_letter.status in ('waiting', 'discarded'))
        on conflict (team_id, stream, id) do update set hash = excluded.hash
        where intake_raw.list_entries.hash <> excluded.hash`.execute(session.db)
    },
    add: (id) => {
      waiting.push(id)
    },
    flushIfFull: async () => {
      if (waiting.length >= FLUSH_AT || summaries.length >= FLUSH_AT) await flush()
    },
    async count() {
      await flush()
      const { rows } = await sql<{ ids: string }>`
        select count(*) as ids from (select from pg_temp.seen group by id) distinct_ids`.execute(session.db)
      return Number(rows[0]?.ids ?? 0)
    },
    async ids() {
      await flush()
      const { rows } = await sql<{ id: string }>`select distinct id from pg_temp.seen order by id`.execute(
        session.db,
      )
      return rows.map((row) => row.id)
    },
    async repeated() {
      await flush()
      const { rows } = await sql<{ id: string }>`
        select id from pg_temp.seen group by id having count(*) > 1`.execute(session.db)
      return rows.map((row) => row.id)
    },
    async missing(place, since, limit) {
      await flush()
      // First the ids alone, which the index of keys contains: of the records themselves, only absent ones are read.
      const { rows } = await sql<{ id: string; total: string }>`
        with absent as materialized (
          select stored.id from intake_raw.records stored
          where stored.team_id = ${place.teamId} and stored.stream = ${place.stream}
            and not exists (select from pg_temp.seen where seen.id = stored.id)
        )
        select current.id, count(*) over () as total
        from absent
        cross join lateral (
          select * from intake_raw.records stored
          where stored.team_id = ${place.teamId} and stored.stream = ${place.stream} and stored.id = absent.id
          offset 0
        ) current
        where not current.deleted
          and (current.observed_at < ${since} or current.observed_at > ${since}::timestamptz + interval '1 day'
            or exists (select from ${sql.table(`intake.${place.table}`)} written
                       where written.team_id = current.team_id and written.id = current.id
                         and written._loaded_at < ${beganAt}::timestamptz))
        order by current.id
        limit ${limit}`.execute(session.db)
      return { count: Number(rows[0]?.total ?? 0), ids: rows.map((row) => row.id) }
    },
  }
}

/** The number of live records of the stream, which triggers maintain. */
export async function countLive(session: Session, place: Place): Promise<number> {
  const { rows } = await sql<{ live: string }>`
    select coalesce(sum(live), 0) as live from intake_ops.record_counts
    where team_id = ${place.teamId} and stream = ${place.stream}`.execute(session.db)
  return Number(rows[0]!.live)
}
