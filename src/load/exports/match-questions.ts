/**
 * Matches columns of an export to questions: by the question of the export's form whose text is the column's title.
 *
 * Invariant: a column has a question if exactly one question of the stored form has the title as its text, or is a table
 * with a cell of that title (`question - row - column`). Only rows that change are written, so matching may be repeated
 * whenever forms or exports were read.
 */
import { type Kysely, sql } from 'kysely'
import type { Warehouse } from '../../warehouse/tables.ts'

/** The tables of columns and of their exports. */
export interface MatchedTables {
  readonly columns: string
  readonly entries: string
}

const LOADED: MatchedTables = { columns: 'intake.export_columns', entries: 'intake.exports' }

/** `exportId` null: all exports of the team. Returns the number of changed columns. */
export async function matchQuestions(
  db: Kysely<Warehouse>,
  teamId: number,
  exportId: string | null = null,
  tables: MatchedTables = LOADED,
): Promise<number> {
  const [columns, entries] = [sql.table(tables.columns), sql.table(tables.entries)]
  const { numAffectedRows } = await sql`
    with cells as materialized (
      select own.export_id, own.position, own.title, own.question_id, entry.form_id
      from ${columns} own
      join ${entries} entry on entry.team_id = own.team_id and entry.id = own.export_id
      where own.team_id = ${teamId} and (${exportId}::text is null or own.export_id = ${exportId})
    ), questions as materialized (
      select form_id, position, question_id, question_type, text
      from intake.form_questions
      where team_id = ${teamId} and form_id in (select form_id from cells)
    ), candidates as (
      select cells.export_id, cells.position, questions.question_id, questions.position as place
      from cells join questions on questions.form_id = cells.form_id and questions.text = cells.title
      union all
      select cells.export_id, cells.position, questions.question_id, questions.position
      from cells join questions on questions.form_id = cells.form_id
        and questions.question_type = 'matrix' and questions.text <> ''
        and starts_with(cells.title, questions.text || ' - ')
        and position(' - ' in substr(cells.title, length(questions.text) + 4)) > 0
    ), matched as (
      select export_id, position, min(question_id) as question_id
      from candidates group by export_id, position
      having count(distinct coalesce('id ' || question_id, 'place ' || place)) = 1
    )
    update ${columns} own set question_id = matched.question_id
    from cells left join matched using (export_id, position)
    where own.team_id = ${teamId} and own.export_id = cells.export_id and own.position = cells.position
      and own.question_id is distinct from matched.question_id`.execute(db)
  return Number(numAffectedRows ?? 0)
}
