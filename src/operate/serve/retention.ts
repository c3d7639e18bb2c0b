/**
 * Removes what is older than its retention: superseded payloads (INTAKE_HISTORY_DAYS); runs with their verifications,
 * settled dead letters, taken times of schedules and entries of logs (INTAKE_RUN_DAYS); scans not continued for a day.
 *
 * Invariant: each portion is a short transaction of its own that waits for no lock and that no load waits for. The current
 * state of a record, a checkpoint, a waiting dead letter, a run in progress and the newest runs of a stream stay. What a
 * run in progress may have superseded stays. Several processes may do this at once.
 */
import { type Kysely, type RawBuilder, sql } from 'kysely'
import { isObject, type JsonObject, parseText } from '../../core/json.ts'
import { hashesOf } from '../../load/erasures.ts'
import { MIN_ENTRY_TIME } from '../../load/merge/skip-unchanged.ts'
import { ALL_STREAMS, PERSONS } from '../../streams/catalogue.ts'
import { openSession, type Session } from '../../warehouse/connect.ts'
import { warehouseError } from '../../warehouse/sqlstate.ts'
import type { Warehouse } from '../../warehouse/tables.ts'
import { deletePast, type Place, placeOf } from '../erase/find.ts'
import { identitiesIn } from '../erase/identities.ts'
import { sumUpCounts } from '../health/counts.ts'

export interface Retention {
  /** Null: for ever. */
  readonly historyDays: number | null
  /** Null: for ever. */
  readonly runDays: number | null
}

export interface PruneOptions extends Retention {
  /** Of `openRetention`. */
  readonly db: Kysely<Warehouse>
  /** Teams whose counts are summed up; default: all. */
  readonly teams?: readonly string[]
  readonly now: Date
  /** No portion begins later than this after the first; the next call goes on. */
  readonly forMs: number
}

/** Numbers of removed rows. */
export interface Pruned {
  history: number
  runs: number
  deadLetters: number
  ticks: number
  deliveries: number
}

/** Rows of one transaction. */
const PORTION = 1_000
/** Runs of a stream that stay, whatever their age: silence compares the newest with the one before. */
const KEPT_RUNS = 2
const LOCK_TIMEOUT_MS = 1_000

/** For removals of expired rows: one that waits for a lock fails soon, and the next round repeats it. */
export async function openRetention(url: string): Promise<Session> {
  return await openSession({ url, purpose: 'retention', lockTimeoutMs: LOCK_TIMEOUT_MS })
}

export async function prune(options: PruneOptions): Promise<Pruned> {
  const { db, historyDays, runDays, now, forMs, teams = null } = options
  const pruned: Pruned = { history: 0, runs: 0, deadLetters: 0, ticks: 0, deliveries: 0 }
  const until = performance.now() + forMs
  const all = async (kind: keyof Pruned, portion: () => Promise<number>) => {
    for (let count = PORTION; count === PORTION && performance.now() < until; ) {
      count = await portion()
      pruned[kind] += count
    }
  }
  try {
    await sumUpCounts(db, teams)
    // Otherwise their ids would stay until the stream is read again.
    const old = sql`select ctid from intake_ops.scans where kept_at < now() - interval '1 day' for update skip locked`
    await sql`delete from intake_ops.scans where ctid = any(array(${old}))`.execute(db)
    if (historyDays !== null) await all('history', () => pruneHistory(db, daysBefore(now, historyDays)))
    if (runDays === null) return pruned
    const before = daysBefore(now, runDays)
    await all('runs', () => pruneRuns(db, before))
    await all('deadLetters', () => pruneDeadLetters(db, before))
    await all('ticks', () => pruneTicks(db, before))
    const numbered = await db.selectFrom('intake.teams').select('team_id').orderBy('team_id').execute()
    for (const { team_id } of numbered) {
      for (const { name, table } of LOGS) {
        const log = { teamId: team_id, stream: name, table }
        await markPruned(db, log, before)
        await all('deliveries', () => pruneLog(db, log))
      }
    }
    return pruned
  } catch (error) {
    throw warehouseError(error)
  }
}

const LOGS = ALL_STREAMS.filter(({ entryAt }) => entryAt !== undefined)

function daysBefore(now: Date, days: number): string {
  return new Date(now.getTime() - days * 86_400_000).toISOString()
}

/** Identities in payloads of patients stay as keyed hashes, so that an erasure finds rows of exports under them. */
async function pruneHistory(db: Kysely<Warehouse>, before: string): Promise<number> {
  return await db.transaction().execute(async (transaction) => {
    const { rows } = await sql<{ place: Place; teamId: number; id: string; payload: string | null }>`
      select ${placeOf('past')} as place, team_id as "teamId", id, case when stream = ${PERSONS.name} then payload::text end as payload
      from intake_raw.record_history past
      where superseded_at < least(
        ${before}::timestamptz, (select min(started_at) from intake_ops.runs where status = 'running')
      )
      order by superseded_at limit ${PORTION} for update skip locked`.execute(transaction)
    if (rows.length === 0) return 0
    for (const [teamId, persons] of byTeam(rows)) {
      const { hashOf } = await hashesOf(transaction, teamId)
      const former = persons.flatMap(({ id, payload }) =>
        identitiesIn(payload).map((subject) => ({ id, hash: hashOf(subject) })),
      )
      await sql`
        insert into intake_ops.former_identities (team_id, id, hash)
        select ${teamId}, id, decode(hash, 'hex')
        from unnest(${former.map(({ id }) => id)}::text[], ${former.map(({ hash }) => hash)}::text[]) as given (id, hash)
        order by 2, 3 on conflict do nothing`.execute(transaction)
    }
    return await deletePast(
      transaction,
      rows.map(({ place }) => place),
    )
  })
}

type Person = { readonly id: string; readonly payload: JsonObject }

function byTeam(
  rows: readonly { readonly teamId: number; readonly id: string; readonly payload: string | null }[],
): ReadonlyMap<number, readonly Person[]> {
  const teams = new Map<number, Person[]>()
  for (const { teamId, id, payload } of rows) {
    const person = payload === null ? null : parseText(payload)
    if (isObject(person)) teams.set(teamId, [...(teams.get(teamId) ?? []), { id, payload: person }])
  }
  return teams
}

/** A run stays while it is one of the newest of its kind, or the newest success, for one of its streams. */
async function pruneRuns(db: Kysely<Warehouse>, before: string): Promise<number> {
  const later = (condition: RawBuilder<unknown>) => sql`
    select count(*) from (
      select from intake_ops.run_streams newer join intake_ops.runs using (run_id)
      where newer.team_id = part.team_id and newer.stream = part.stream and newer.run_id > part.run_id
        and runs.kind = run.kind and ${condition}
      limit ${KEPT_RUNS}
    ) as newer`
  return await affected(
    sql`
      delete from intake_ops.runs where run_id = any(array(
        select run_id from intake_ops.runs run
        where status <> 'running' and coalesce(finished_at, started_at) < ${before}
          and not exists (
            select from (
              select team_id, stream, status, run_id from intake_ops.run_streams
              union all
              select team_id, stream, case when is_equal then 'succeeded' else 'differs' end, run_id
              from intake_ops.verifications
            ) as part
            where part.run_id = run.run_id and (
              run.kind <> 'verify' and ((${later(sql`true`)}) < ${KEPT_RUNS}
                or part.status = 'succeeded' and (${later(sql`newer.status = 'succeeded'`)}) < 1)
              or run.kind = 'verify' and not exists (
                select from intake_ops.verifications newer
                where newer.team_id = part.team_id and newer.stream = part.stream and newer.run_id > part.run_id
              )
            )
          )
        order by run_id limit ${PORTION} for update skip locked
      ))`.execute(db),
  )
}

async function pruneDeadLetters(db: Kysely<Warehouse>, before: string): Promise<number> {
  return await affected(
    sql`
      delete from intake_ops.dead_letters where id = any(array(
        select id from intake_ops.dead_letters
        where settled_at < ${before} and status not in ('waiting', 'discarded')
        order by settled_at limit ${PORTION} for update skip locked
      ))`.execute(db),
  )
}

/** The newest of each team stays: from it, the next `serve` knows which times were missed. */
async function pruneTicks(db: Kysely<Warehouse>, before: string): Promise<number> {
  return await affected(
    sql`
      delete from intake_ops.schedule_ticks where ctid = any(array(
        select ctid from intake_ops.schedule_ticks tick where due_at < ${before} and exists (
          select from intake_ops.schedule_ticks newer
          where (newer.team_id, newer.job) = (tick.team_id, tick.job) and newer.due_at > tick.due_at
        )
        limit ${PORTION} for update skip locked
      ))`.execute(db),
  )
}

interface Log {
  readonly teamId: number
  readonly stream: string
  readonly table: string
}

/**
 * Notes the time up to which entries expired: those older than `before` that the warehouse stored before then too, so that a
 * first load is whole whatever its age. First, so that a run in progress does not load again what goes.
 */
async function markPruned(
  db: Kysely<Warehouse>,
  { teamId, stream, table }: Log,
  before: string,
): Promise<void> {
  await sql`
    insert into intake_ops.pruned_logs as known (team_id, stream, before)
    select ${teamId}, ${stream}, max(_version) + interval '1 microsecond' from ${sql.table(`intake.${table}`)}
    where team_id = ${teamId} and _version < ${before} and _loaded_at < ${before} and _version > ${sql.lit(MIN_ENTRY_TIME)}
    having max(_version) is not null
    on conflict (team_id, stream) do update set before = excluded.before where known.before < excluded.before`.execute(
    db,
  )
}

async function pruneLog(db: Kysely<Warehouse>, { teamId, stream, table }: Log): Promise<number> {
  return await db.transaction().execute(async (transaction) => {
    // In the order of a load: `records` first.
    const { rows } = await sql<{ id: string }>`
      select id from intake_raw.records
      where team_id = ${teamId} and stream = ${stream} and id = any(array(
        select id from ${sql.table(`intake.${table}`)}
        where team_id = ${teamId} and _version > ${sql.lit(MIN_ENTRY_TIME)} and _version < (
          select before from intake_ops.pruned_logs where team_id = ${teamId} and stream = ${stream}
        )
        order by _version limit ${PORTION}
      ))
      order by id for update skip locked`.execute(transaction)
    const ids = rows.map(({ id }) => id)
    const own = sql`team_id = ${teamId} and id = any(${ids}::text[])`
    for (const name of ['intake_raw.records', 'intake_raw.record_history', 'intake_raw.list_entries']) {
      await sql`delete from ${sql.table(name)} where ${own} and stream = ${stream}`.execute(transaction)
    }
    return await affected(sql`delete from ${sql.table(`intake.${table}`)} where ${own}`.execute(transaction))
  })
}

async function affected(result: Promise<{ readonly numAffectedRows?: bigint }>): Promise<number> {
  return Number((await result).numAffectedRows ?? 0n)
}
