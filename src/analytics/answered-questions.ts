/**
 * The questions that responses answer (intake_raw.answered_questions).
 *
 * Invariant: after `followAnswers` the table has every question that a committed response answers. Only responses that
 * were written since the last call are read; without any, the call scans their table once and writes nothing. A text
 * is kept only if several patients were asked the same, so that no text about one person becomes a column name.
 */
import { type Kysely, sql, type Transaction } from 'kysely'
import type { Warehouse } from '../warehouse/tables.ts'

/** No transaction that writes responses takes as long. */
const LONGEST_LOAD = '1 hour'

export async function followAnswers(db: Kysely<Warehouse>): Promise<void> {
  await db.transaction().execute(async (within) => {
    const { rows } = await sql<{ until: string; oldest: string; now_oldest: string }>`
      select until::text, oldest::text, pg_snapshot_xmin(pg_current_snapshot())::text as now_oldest
      from intake_raw.answers_read for update`.execute(within)
    const { until, oldest, now_oldest } = rows[0]!
    if (!(await foundFresh(within, until, oldest))) return
    await noteAnswered(within)
    await sql`update intake_raw.answers_read set until = now(), oldest = ${now_oldest}::bigint`.execute(
      within,
    )
  })
}

/**
 * Collects the responses written since the last time. `_loaded_at` narrows them down and `xmin` decides exactly; alone,
 * the 32 bits of `xmin` would also match very old rows.
 */
async function foundFresh(db: Transaction<Warehouse>, until: string, oldest: string): Promise<boolean> {
  await sql`
    create temporary table fresh_responses on commit drop as
    select team_id, id, form_id, patient_id
    from intake.responses
    where _loaded_at >= ${sql.lit(until)}::timestamptz - ${sql.lit(LONGEST_LOAD)}::interval and form_id is not null
      and (xmin::text::bigint - ${sql.lit(oldest)}::bigint % 4294967296 + 4294967296) % 4294967296 < 2147483648`.execute(
    db,
  )
  await sql`analyze pg_temp.fresh_responses`.execute(db)
  const { rows } = await sql<{ found: boolean }>`
    select exists (select from pg_temp.fresh_responses) as found`.execute(db)
  return rows[0]!.found
}

async function noteAnswered(db: Transaction<Warehouse>): Promise<void> {
  // The first call reads all answers: a hash table that fits in memory halves the time.
  await sql`set local work_mem = '64MB'`.execute(db)
  await sql`
    with answered as (
      select r.team_id, r.form_id, a.question_id, min(a.question_text) as question_text, min(r.patient_id) as patient_id,
        count(*) as times
      from pg_temp.fresh_responses r
      join intake.response_answers a on a.team_id = r.team_id and a.response_id = r.id
      where a.question_id is not null and a.value_position = 1
        and octet_length(r.form_id) <= 500 and octet_length(a.question_id) <= 500
      group by r.team_id, r.form_id, a.question_id, hashtextextended(a.response_id, 0)
    )
    insert into intake_raw.answered_questions as known (team_id, form_id, question_id, question_text, repeats)
    select team_id, form_id, question_id,
      case when min(question_text) = max(question_text) and min(patient_id) < max(patient_id) then min(question_text) end,
      bool_or(times > 1) and not exists (
        select from intake_raw.wide_columns c
        where c.team_id = answered.team_id and c.kind = 'form' and c.subject_id = answered.form_id
          and c.question_id = answered.question_id and c.is_array
      )
    from answered
    group by team_id, form_id, question_id
    order by team_id, form_id, question_id
    on conflict (team_id, form_id, question_id) do update
      set repeats = known.repeats or excluded.repeats, question_text = coalesce(known.question_text, excluded.question_text)
      where (excluded.repeats and not known.repeats) or (known.question_text is null and excluded.question_text is not null)`.execute(
    db,
  )
}
