/**
 * Sums up the counts of records (intake_ops.record_counts) and their newest times (intake_ops.newest_times), to which every
 * statement appends what it changed.
 *
 * Invariant: summing up changes no sum and no newest time, and a reader sees the rows before or the one after. Only rows
 * that are committed are summed up; writers append others meanwhile, and wait for nothing. One session sums up at a time:
 * otherwise it could store a time that it looked up before a change whose row another session has summed up.
 */
import { type Kysely, sql } from 'kysely'
import { ALL_STREAMS } from '../../streams/catalogue.ts'
import { ownTimeOf } from '../../streams/stream.ts'
import { tryLock, unlock } from '../../warehouse/locks.ts'
import type { Warehouse } from '../../warehouse/tables.ts'

/** Rows of a team and stream from which summing up pays. */
const MANY_CHANGES = 500

/** Of the rows of a team and stream: true if the newest may be gone, and has to be looked up. */
export const isNewestGone = sql`coalesce(max(gone) >= max(newest), max(gone) is not null)`

/** `db`: a single connection. `teams`: only for these, by name; null: for all. */
export async function sumUpCounts(
  db: Kysely<Warehouse>,
  teams: readonly string[] | null = null,
): Promise<void> {
  if (!(await tryLock({ db }, 'counts', 'counts'))) return
  try {
    await sumUpRecords(db, teams)
    await sumUpTimes(db, teams)
  } finally {
    await unlock({ db }, 'counts', 'counts')
  }
}

async function sumUpRecords(db: Kysely<Warehouse>, teams: readonly string[] | null): Promise<void> {
  const { rows } = await sql<{ team_id: number; stream: string }>`
    select team_id, stream from intake_ops.record_counts join intake.teams using (team_id)
    where ${teams}::text[] is null or name = any(${teams}::text[])
    group by team_id, stream having count(*) >= ${MANY_CHANGES} or ${isNewestGone}
    order by 1, 2`.execute(db)
  for (const { team_id, stream } of rows) {
    const own = sql`team_id = ${team_id} and stream = ${stream}`
    await sql`
      with gone as (
        delete from intake_ops.record_counts where ctid = any(array(
          select ctid from intake_ops.record_counts where ${own} for update skip locked
        ))
        returning *
      )
      insert into intake_ops.record_counts (team_id, stream, live, deleted, newest)
      select ${team_id}, ${stream}, sum(live), sum(deleted), case
          when ${isNewestGone} then (select max(version) from intake_raw.records where ${own})
          else max(newest)
        end
      from gone having count(*) > 0`.execute(db)
  }
}

const AHEAD = sql`now() + interval '5 minutes'`

async function sumUpTimes(db: Kysely<Warehouse>, teams: readonly string[] | null): Promise<void> {
  const isStale = sql`${isNewestGone} or coalesce(min(ahead) <= ${AHEAD}, false)`
  const isEventStale = sql`coalesce(max(gone_event) >= max(newest_event), max(gone_event) is not null)`
  const { rows } = await sql<{ team_id: number; stream: string }>`
    select team_id, stream from intake_ops.newest_times join intake.teams using (team_id)
    where ${teams}::text[] is null or name = any(${teams}::text[])
    group by team_id, stream having count(*) >= ${MANY_CHANGES} or ${isStale} or ${isEventStale}
    order by 1, 2`.execute(db)
  for (const { team_id, stream: name } of rows) {
    const stream = ALL_STREAMS.find((each) => each.name === name)
    // A stream of a newer version of intake-sync.
    if (stream === undefined) continue
    const own = sql.raw(ownTimeOf(stream))
    const table = sql`from ${sql.table(`intake.${stream.table}`)} where team_id = ${team_id}`
    await sql`
      with changes as (
        delete from intake_ops.newest_times where ctid = any(array(
          select ctid from intake_ops.newest_times where team_id = ${team_id} and stream = ${name} for update skip locked
        ))
        returning *
      )
      insert into intake_ops.newest_times (team_id, stream, newest, ahead, newest_event)
      select ${team_id}, ${name},
        case when ${isStale} then (select max(${own}) ${table} and ${own} <= ${AHEAD}) else max(newest) end,
        case when ${isStale} then (select min(${own}) ${table} and ${own} > ${AHEAD}) else min(ahead) end,
        case when ${isEventStale} then (select max(_loaded_at) ${table} and _origin like 'event:%') else max(newest_event) end
      from changes having count(*) > 0`.execute(db)
  }
}
