/**
 * The days of the inbox: one partition each, made ahead and dropped as a whole.
 *
 * Invariant: an event is dropped only when it, and every event of its day, left `pending` more than `days` ago. Ingest
 * is never delayed: a lock is waited for briefly, a drop tries that a few times, and leaves the rest for the next time.
 * An event without a partition of its day goes to the default one, from where it is moved while there are few, and
 * removed when it is old.
 */
import { sql } from 'kysely'
import { openSession, type Session } from '../../warehouse/connect.ts'
import { SQLSTATE, sqlstateOf, warehouseError } from '../../warehouse/sqlstate.ts'

/** Days that have their partition before they begin. */
const AHEAD = 2
const LOCK_MS = 100
/** For making a day, because statements on the default partition wait meanwhile. A drop reads a whole day, unlocked. */
const MAKING_MS = 1_000
/** Most events of a day that are moved at once. */
const MAX_MOVED = 10_000
/** Events of the default partition whose days are read. */
const MAX_LOOKED_AT = 50_000
/** Events that are removed from the default partition in one statement, and statements. */
const MAX_REMOVED = 5_000
const MAX_REMOVALS = 20

const TOO_MANY = '54000'
const DUPLICATE_TABLE = '42P07'
/** Failures after which the next attempt may succeed, or another process has done the work. */
const LATER: ReadonlySet<string | undefined> = new Set([
  SQLSTATE.lockNotAvailable,
  SQLSTATE.queryCanceled,
  SQLSTATE.deadlock,
  SQLSTATE.undefinedTable,
  DUPLICATE_TABLE,
  TOO_MANY,
])

export interface InboxDays {
  /** Partitions made. */
  readonly created: number
  /** Partitions dropped. */
  readonly dropped: number
  /** Events moved out of the default partition. */
  readonly moved: number
}

/** `days`: INTAKE_INBOX_DAYS. `now` may be of any machine; the days ahead of the warehouse's own clock are made too. */
export async function keepInboxDays(url: string, options: { days: number; now: Date }): Promise<InboxDays> {
  await using session = await openSession({ url, purpose: 'inbox days', lockTimeoutMs: LOCK_MS })
  try {
    const made = await makeDays(session, options.now)
    const dropped = await dropDays(session, options)
    return { ...made, dropped }
  } catch (error) {
    throw warehouseError(error)
  }
}

async function makeDays(session: Session, now: Date): Promise<Omit<InboxDays, 'dropped'>> {
  const { rows } = await sql<{ day: string }>`
    select day::text from (
      select (today + ahead)::date as day
      from unnest(array[${now.toISOString()}::timestamptz, now()]) as moment,
        lateral (select (moment at time zone 'UTC')::date as today) as of_moment,
        generate_series(0, ${AHEAD}::int) as ahead
      union
      select received_on from (select received_on from intake_raw.inbox_rest limit ${MAX_LOOKED_AT}) as caught
    ) as wanted
    where to_regclass('intake_raw.inbox_' || to_char(day, 'YYYYMMDD')) is null
    order by day`.execute(session.db)
  await sql`select set_config('statement_timeout', ${String(MAKING_MS)}, false)`.execute(session.db)
  let created = 0
  let moved = 0
  for (const { day } of rows) {
    const count = await later(async () => {
      const result = await sql<{ moved: number | null }>`
        select intake_raw.add_inbox_day(${day}, ${MAX_MOVED}) as moved`.execute(session.db)
      return result.rows[0]?.moved ?? null
    })
    if (count === null) continue
    created += 1
    moved += count
  }
  await sql`set statement_timeout = 0`.execute(session.db)
  return { created, moved }
}

async function dropDays(session: Session, { days, now }: { days: number; now: Date }): Promise<number> {
  const before = new Date(now.getTime() - days * 86_400_000).toISOString()
  const { rows } = await sql<{ day: string }>`
    select to_date(right(part.relname, 8), 'YYYYMMDD')::text as day
    from pg_inherits
      join pg_class as part on part.oid = inhrelid
    where inhparent = 'intake_raw.inbox'::regclass
      and part.relname ~ '^inbox_[0-9]{8}$'
      and to_date(right(part.relname, 8), 'YYYYMMDD') < (${before}::timestamptz at time zone 'UTC')::date
    order by day`.execute(session.db)
  let dropped = 0
  for (const { day } of rows) {
    const gone = await later(async () => {
      const result = await sql<{ dropped: boolean }>`
        select intake_raw.drop_inbox_day(${day}, ${before}) as dropped`.execute(session.db)
      return result.rows[0]?.dropped ?? null
    })
    // Another day would wait for the same locks.
    if (gone === null) break
    if (gone) dropped += 1
  }
  for (let removals = 0; removals < MAX_REMOVALS; removals += 1) {
    if ((await removeFromRest(session, before)) < MAX_REMOVED) break
  }
  return dropped
}

/** Days that could not be given a partition grow old in the default one. */
async function removeFromRest(session: Session, before: string): Promise<number> {
  const { numAffectedRows } = await sql`
    delete from intake_raw.inbox_rest where ctid = any(array(
      select ctid from intake_raw.inbox_rest
      where status <> 'pending' and settled_at < ${before}
      limit ${MAX_REMOVED}
    ))`.execute(session.db)
  return Number(numAffectedRows ?? 0n)
}

async function later<Result>(work: () => Promise<Result | null>): Promise<Result | null> {
  try {
    return await work()
  } catch (error) {
    if (LATER.has(sqlstateOf(error))) return null
    throw error
  }
}
