/**
 * Matches columns of an export to questions: by the question of the export's form whose text is the column's title.
 *
 * Invariant: a column has a question if exactly one question of the stored form has the title as its text, or is a table
 * with a cell of that title (`question - row - column`). Only rows that change are written, so matching may be repeated
 * whenever forms or exports were read. A trigger of `form_questions` does the same when a form changes.
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
  const { rows } = await sql<{ changed: string }>`
    select intake_raw.match_columns(${teamId}::smallint, ${exportId}::text, null, ${tables.columns}::text::regclass,
      ${tables.entries}::text::regclass) as changed`.execute(db)
  return Number(rows[0]!.changed)
}
