/**
 * Sums up the counts of records (intake_ops.record_counts), to which every statement appends what it changed.
 *
 * Invariant: summing up changes no sum, and a reader sees the rows before or the one after. Only rows that are committed are
 * summed up; writers append others meanwhile, and wait for nothing.
 */
import { type Kysely, sql } from 'kysely'
import type { Warehouse } from '../../warehouse/tables.ts'

/** Rows of a team and stream from which summing up pays. */
const MANY_CHANGES = 500

/** `teams`: of these only, by name; null: of all. */
export async function sumUpCounts(
  db: Kysely<Warehouse>,
  teams: readonly string[] | null = null,
): Promise<void> {
  const { rows } = await sql<{ team_id: number; stream: string }>`
    select team_id, stream from intake_ops.record_counts join intake.teams using (team_id)
    where ${teams}::text[] is null or name = any(${teams}::text[])
    group by team_id, stream having count(*) >= ${MANY_CHANGES} or bool_or(is_stale)
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
          when bool_or(is_stale) then (select max(version) from intake_raw.records where ${own})
          else max(newest)
        end
      from gone having count(*) > 0`.execute(db)
  }
}
