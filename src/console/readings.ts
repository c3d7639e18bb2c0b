/**
 * The readings of the warehouse that pages share.
 *
 * Invariant: one reading at a time, however many pages are open, and a slow one for a hundredth of the time, at most a
 * twentieth: what a reading costs does not grow with the number of pages.
 */
import { type Kysely, sql } from 'kysely'
import type { Clock } from '../core/clock.ts'
import type { Check } from '../operate/doctor/check.ts'
import { type Run, readRuns } from '../operate/health/runs.ts'
import { readStatus, type Status } from '../operate/health/status.ts'
import { openWebhookChecks } from '../operate/health/webhook-checks.ts'
import type { BoundedQueries } from '../warehouse/bounded-queries.ts'
import type { Warehouse } from '../warehouse/tables.ts'
import { readOverview, type TeamOverview } from './pages/overview.ts'
import { readHistory, type StreamHistory } from './pages/streams.ts'

export interface Readings {
  readonly overview: Remembered<readonly TeamOverview[]>
  readonly status: Remembered<Status>
  readonly history: Remembered<readonly StreamHistory[]>
  readonly runs: Remembered<readonly Run[]>
  readonly checks: Remembered<{ readonly checks: readonly Check[]; readonly at: Date }>
  readonly server: Remembered<Server>
  /** One query that pages do not share. */
  look<Result>(work: (db: Kysely<Warehouse>) => Promise<Result>): Promise<Result>
  /**
   * A reading of what one page was asked for, within `milliseconds`. Then null, and the reading goes on: whoever asks for
   * the same `key` next gets its value.
   */
  ask<Value>(key: string, read: () => Promise<Value>, milliseconds: number): Promise<Value | null>
  /** A reading that one kind of page shares. */
  share<Value>(read: () => Promise<Value>, freshMs: number): Remembered<Value>
  /** Something was changed: every reading is taken again. */
  forget(): void
}

export interface Server {
  readonly postgres: string
  readonly bytes: number
  readonly migration: string | null
  /** Days of the inbox that have a partition. */
  readonly inbox_days: number
  /** The largest first, with their indexes; those of a partitioned table as one. */
  readonly tables: readonly { readonly name: string; readonly bytes: number; readonly rows: number }[]
  /** The time of the oldest of each kind; null where there is none. */
  readonly oldest: Readonly<Record<Kept, string | null>>
  /** The size of the database when this process read it first. */
  readonly first: { readonly bytes: number; readonly at: Date }
  readonly at: Date
}

export type Kept = 'events' | 'history' | 'runs' | 'deadLetters' | 'audit'

export interface ReadingsOptions {
  readonly url: string
  readonly inboxDays: number
  readonly maxAgeHours: number
  readonly checks: (signal: AbortSignal) => Promise<readonly Check[]>
  readonly bounded: BoundedQueries
  readonly clock: Clock
}

/** The runs of the list. */
export const RUNS = 50
const LOOK_MS = 25_000

export function openReadings(options: ReadingsOptions): Readings {
  const { url, inboxDays, maxAgeHours, bounded, clock } = options
  const webhookChecks = openWebhookChecks({ inboxDays })
  const look: Readings['look'] = (work) => bounded.run({ purpose: 'console', milliseconds: LOOK_MS }, work)
  const every = (freshMs: number) => ({ freshMs, clock })
  let firstSize: Server['first'] | null = null
  const readings = {
    overview: remembered(() => look((db) => readOverview(db, { maxAgeHours, webhookChecks })), every(3_000)),
    status: remembered(() => readStatus(url, inboxDays), every(3_000)),
    history: remembered(() => look(readHistory), every(3_000)),
    runs: remembered(() => readRuns(url, RUNS), every(2_000)),
    // They ask the service too.
    checks: remembered(async () => {
      const checks = await options.checks(AbortSignal.timeout(60_000))
      return { checks, at: new Date() }
    }, every(60_000)),
    server: remembered(async () => {
      const read = await look(readServer)
      const at = new Date(clock.now() / 1000)
      firstSize ??= { bytes: read.bytes, at }
      return { ...read, at, first: firstSize }
    }, every(30_000)),
  }
  const shared: Remembered<unknown>[] = Object.values(readings)
  const share: Readings['share'] = (read, freshMs) => {
    const own = remembered(read, every(freshMs))
    shared.push(own)
    return own
  }
  const answers = openAnswers(clock)
  const forget = () => {
    answers.forget()
    for (const each of shared) each.forget()
  }
  return { ...readings, look, ask: answers.ask, share, forget }
}

const MAX_TABLES = 10

/** Sizes and estimates of Postgres, and ends of indexes: the cost does not grow with the number of records. */
async function readServer(db: Kysely<Warehouse>): Promise<Omit<Server, 'first' | 'at'>> {
  const { rows } = await sql<Omit<Server, 'first' | 'at'>>`
    with own as (
      select coalesce(parent.inhparent, own.oid) as oid, pg_total_relation_size(own.oid) as bytes,
        greatest(own.reltuples, 0) as rows
      from pg_class own join pg_namespace schema on schema.oid = own.relnamespace
      left join pg_inherits parent on parent.inhrelid = own.oid
      where own.relkind in ('r', 'm') and schema.nspname like 'intake%'
    ), largest as (
      select oid::regclass::text as name, sum(bytes)::float8 as bytes, sum(rows)::float8 as rows
      from own group by 1 order by 2 desc, 1 limit ${MAX_TABLES}
    )
    select current_setting('server_version') as postgres, pg_database_size(current_database())::float8 as bytes,
      (select max(name) from intake_ops.migrations) as migration,
      (select count(*)::int from pg_inherits where inhparent = 'intake_raw.inbox'::regclass) - 1 as inbox_days,
      (select json_agg(largest order by bytes desc, name) from largest) as tables,
      json_build_object(
        'events', (select min(to_date(right(relname, 8), 'YYYYMMDD')) from pg_inherits join pg_class on oid = inhrelid
          where inhparent = 'intake_raw.inbox'::regclass and relname ~ '\\d{8}$'
            and (reltuples <> 0 or relpages = 0) and pg_relation_size(oid) > 0),
        'history', (select superseded_at from intake_raw.record_history order by superseded_at limit 1),
        'runs', (select min(started_at) from intake_ops.runs),
        'deadLetters', (select settled_at from intake_ops.dead_letters where settled_at is not null
          order by settled_at limit 1),
        'audit', (select at from intake_ops.audit order by at limit 1)
      ) as oldest`.execute(db)
  return rows[0]!
}

const MAX_ANSWERS = 100

/** Each answer is given once, so that whoever asks later gets a new one. */
export function openAnswers(clock: Clock): Pick<Readings, 'ask' | 'forget'> {
  const begun = new Map<string, { readonly at: number; readonly value: Promise<unknown> }>()
  const ask = async <Value>(key: string, read: () => Promise<Value>, milliseconds: number) => {
    const now = clock.now() / 1000
    const earlier = begun.get(key)
    const isUsable = earlier !== undefined && now - earlier.at <= STALE_MS
    const asked = isUsable ? earlier : { at: now, value: read() }
    if (!isUsable && begun.size >= MAX_ANSWERS) begun.delete([...begun.keys()][0]!)
    begun.set(key, asked)
    const late = new AbortController()
    const patience = clock.sleep(milliseconds, late.signal).catch(() => {})
    // Nobody may wait for it any more when it fails.
    const done = () => true
    const isThere = await Promise.race([asked.value.then(done, done), patience])
    late.abort()
    if (!isThere) return null
    if (begun.get(key) === asked) begun.delete(key)
    return (await asked.value) as Value
  }
  return { ask, forget: () => begun.clear() }
}

export interface Remembered<Value> {
  /** A value of the last seconds; waits for one if there is none. Throws if the warehouse cannot be read. */
  get(): Promise<Value>
  /**
   * As `get`, for at most `milliseconds`. Then a value of the last minute, or null if there is none; the reading goes on.
   */
  within(milliseconds: number): Promise<Value | null>
  /** The next `get` reads again: something was changed. */
  forget(): void
}

/** A page that cannot wait may show a value this old. */
const STALE_MS = 60_000
/** A page that has such a value waits no longer than this for a newer one. */
const SHORT_MS = 120
/** Of the time, reading takes one part of so many; a value that is older than `OLD_MS` is read again sooner. */
const SHARE = 100
const OLD_MS = 30_000
const MIN_SHARE = 20

export function remembered<Value>(
  read: () => Promise<Value>,
  { freshMs, clock }: { readonly freshMs: number; readonly clock: Clock },
): Remembered<Value> {
  let last: { readonly value: Value; readonly at: number; readonly fresh: number } | null = null
  let reading: { readonly since: number; readonly value: Promise<Value> } | null = null
  /** Counts what was changed: a reading that began before a change may not show it. */
  let changes = 0
  const now = () => clock.now() / 1000

  function readOnce(): Promise<Value> {
    if (reading !== null) {
      if (reading.since === changes) return reading.value
      return reading.value.then(readOnce, readOnce)
    }
    const since = changes
    const begun = now()
    const value = read()
      .then((result) => {
        const took = now() - begun
        const fresh = Math.max(freshMs, Math.min(took * SHARE, OLD_MS), took * MIN_SHARE)
        if (since === changes) last = { value: result, at: now(), fresh }
        return result
      })
      .finally(() => {
        reading = null
      })
    reading = { since, value }
    return value
  }

  const ageOf = (value: { readonly at: number }) => now() - value.at

  async function get(): Promise<Value> {
    return last !== null && ageOf(last) <= last.fresh ? last.value : await readOnce()
  }

  return {
    get,
    async within(milliseconds) {
      const before = last
      const value = get()
      // Nobody may wait for it any more when it fails.
      value.catch(() => {})
      const late = new AbortController()
      const isUsable = before !== null && ageOf(before) < STALE_MS
      const patience = clock
        .sleep(isUsable ? Math.min(milliseconds, SHORT_MS) : milliseconds, late.signal)
        .then(
          () => (isUsable && before === last ? before.value : null),
          () => null,
        )
      try {
        return await Promise.race([value, patience])
      } finally {
        late.abort()
      }
    },
    forget() {
      changes += 1
      last = null
    },
  }
}
