/**
 * The statement that makes the wide view of one export, for analysts: intake_analytics.export_answers, a column a
 * question, on the same terms.
 *
 * Invariant: nothing is in it that export_answers does not show.
 */
import { type RawBuilder, sql } from 'kysely'
import type { WideColumn } from './wide-columns.ts'

/** Columns before those of the questions. */
export const EXPORT_COLUMNS = {
  team_id: 'The team (intake_analytics.teams).',
  row_number: 'Place of the row in the file, from 1.',
  patient: 'Pseudonym of the patient (intake_analytics.patients).',
  sent_at: 'When the form was sent.',
  completed_at: 'When it was completed.',
  is_archived: 'True when the answers are archived.',
} as const

export function exportView(
  view: string,
  teamId: number,
  exportId: string,
  columns: readonly WideColumn[],
): RawBuilder<unknown> {
  const values = columns.map((column) => {
    const own = sql`filter (where e.question_id = ${sql.lit(column.question_id)})`
    return sql`${cellOf(column, own)} as ${sql.ref(column.column_name)}`
  })
  const fixed = sql`e.team_id, e.row_number, min(e.patient) as patient, min(e.sent_at) as sent_at,
    min(e.completed_at) as completed_at, bool_or(e.is_archived) as is_archived`
  return sql`create or replace view ${sql.table(view)} with (security_barrier = true) as
    select ${sql.join([fixed, ...values])}
    from intake_analytics.export_answers e
    where e.team_id = ${sql.lit(teamId)} and e.export_id = ${sql.lit(exportId)}
    group by e.team_id, e.row_number`
}

function cellOf({ data_type }: WideColumn, own: RawBuilder<unknown>): RawBuilder<unknown> {
  switch (data_type) {
    case 'numeric':
      return sql`min(e.value_number) ${own}`
    case 'boolean':
      return sql`bool_or(e.value_boolean) ${own}`
    case 'integer':
      return sql`min(e.value_year) ${own}`
    default:
      return sql`min(coalesce(e.choice, e.value_text)) ${own}`
  }
}
