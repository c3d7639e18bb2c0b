/**
 * The statements that make the wide views of a form and of an export.
 *
 * Invariant: its first columns are always the same; the view runs with the rights of whoever reads it, so that the
 * policies of the tables bind it. A column that a query does not select costs nothing.
 */
import { type RawBuilder, sql } from 'kysely'
import type { WideColumn } from './wide-columns.ts'

/** Columns before those of the questions. */
export const FORM_COLUMNS = {
  team_id: 'The team (intake.teams).',
  response_id: 'The response (intake.responses).',
  patient_id: 'The patient (intake.patients).',
  packet_id: 'The packet it belongs to, if any.',
  is_submitted: 'True when it was submitted.',
  is_skipped: 'True when the logic of a packet left it out.',
  is_archived: 'True when staff archived it.',
  created_at: 'When the patient was asked.',
  submitted_at: 'When it was submitted.',
} as const

/** Values of a question as text, number, boolean and date, in the order of the payload. */
const VALUES = sql`
  left join lateral (
    select jsonb_object_agg(given.question_id, given.values) as of
    from (
      select a.question_id, jsonb_agg(
          jsonb_build_array(a.value_text, a.value_number, a.value_boolean, a.value_date) order by a.position, a.value_position
        ) as values
      from intake.response_answers a
      where a.team_id = r.team_id and a.response_id = r.id and a.question_id is not null and a.value_text is not null
      group by a.question_id
    ) given
  ) answers on true`

const CELLS = sql`
  left join lateral (
    select jsonb_object_agg(given.question_id, given.values) as of
    from (
      select c.question_id, jsonb_agg(
          jsonb_build_object('row', coalesce(c.row_text, c.row_id), 'column', coalesce(c.column_text, c.column_id), 'value', c.value_text)
          order by c.position
        ) as values
      from intake.response_matrix_cells c
      where c.team_id = r.team_id and c.response_id = r.id and c.question_id is not null
      group by c.question_id
    ) given
  ) cells on true`

const PLACES = { text: 0, numeric: 1, boolean: 2, date: 3 } as const

export function formView(
  view: string,
  teamId: number,
  formId: string,
  columns: readonly WideColumn[],
): RawBuilder<unknown> {
  const values = columns.map((column) => sql`${cellOf(column)} as ${sql.ref(column.column_name)}`)
  const fixed = sql`r.team_id, r.id as response_id, r.patient_id, r.packet_id, r.is_submitted, r.is_skipped, r.is_archived,
    r.created_at, r.submitted_at`
  return sql`create or replace view ${sql.table(view)} with (security_invoker = true) as
    select ${sql.join([fixed, ...values])}
    from intake.responses r ${VALUES} ${columns.some(({ data_type }) => data_type === 'jsonb') ? CELLS : sql``}
    where r.team_id = ${sql.lit(teamId)} and r.form_id = ${sql.lit(formId)} and r._deleted_at is null`
}

function cellOf({ data_type, is_array, question_id, question_type }: WideColumn): RawBuilder<unknown> {
  const id = sql.lit(question_id)
  if (data_type === 'jsonb') return sql`cells.of -> ${id}`
  if (data_type === 'timestamptz') {
    return sql`(select min(s.signed_at) from intake.response_signatures s
      where s.team_id = r.team_id and s.response_id = r.id and s.question_id = ${id})`
  }
  if (is_array && question_type?.toLowerCase() === 'file') {
    return sql`(select array_agg(f.name order by f.position) from intake.response_files f
      where f.team_id = r.team_id and f.response_id = r.id and f.question_id = ${id})`
  }
  const place = sql.lit(PLACES[data_type as keyof typeof PLACES])
  const type = sql.raw(data_type)
  return is_array
    ? sql`(select array_agg((each.value ->> ${place})::${type} order by each.place)
        from jsonb_array_elements(answers.of -> ${id}) with ordinality as each (value, place))`
    : sql`(answers.of -> ${id} -> 0 ->> ${place})::${type}`
}

/** Columns before those of the questions. */
export const EXPORT_COLUMNS = {
  team_id: 'The team (intake_analytics.teams).',
  row_number: 'Place of the row in the file, from 1.',
  patient: 'Pseudonym of the patient (intake_analytics.patients).',
  sent_at: 'When the form was sent.',
  completed_at: 'When it was completed.',
  is_archived: 'True when the answers are archived.',
} as const

/**
 * The statement that makes the wide view of one export, for analysts: intake_analytics.export_answers with one column a
 * question. It shows nothing that export_answers does not show.
 */
export function exportView(
  view: string,
  teamId: number,
  exportId: string,
  columns: readonly WideColumn[],
): RawBuilder<unknown> {
  const values = columns.map((column) => {
    const own = sql`filter (where e.question_id = ${sql.lit(column.question_id)})`
    return sql`${exportCellOf(column, own)} as ${sql.ref(column.column_name)}`
  })
  const fixed = sql`e.team_id, e.row_number, min(e.patient) as patient, min(e.sent_at) as sent_at,
    min(e.completed_at) as completed_at, bool_or(e.is_archived) as is_archived`
  return sql`create or replace view ${sql.table(view)} with (security_barrier = true) as
    select ${sql.join([fixed, ...values])}
    from intake_analytics.export_answers e
    where e.team_id = ${sql.lit(teamId)} and e.export_id = ${sql.lit(exportId)}
    group by e.team_id, e.row_number`
}

function exportCellOf({ data_type }: WideColumn, own: RawBuilder<unknown>): RawBuilder<unknown> {
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
