/**
 * The statements that make the wide views for analysts, of a form and of an export.
 *
 * Invariant: they read the views of intake_analytics, and show nothing that these do not show; their first columns are
 * always the same.
 */
import { type RawBuilder, sql } from 'kysely'
import { arraysOf, elementsOf, FORM_COLUMNS, PLACES, subjectOf } from './view-sql.ts'
import type { WideColumn } from './wide-columns.ts'

/** Columns before those of the questions. */
export const SHOWN_COLUMNS = {
  team_id: 'The team (intake_analytics.teams).',
  response_id: 'The response (intake_analytics.responses).',
  patient: 'Pseudonym of the patient (intake_analytics.patients).',
  packet_id: FORM_COLUMNS.packet_id,
  is_submitted: FORM_COLUMNS.is_submitted,
  is_skipped: FORM_COLUMNS.is_skipped,
  is_archived: FORM_COLUMNS.is_archived,
  created_at: FORM_COLUMNS.created_at,
  submitted_at: FORM_COLUMNS.submitted_at,
} as const

/**
 * The statement that makes the wide view of a form for analysts: intake_analytics.answers with one column a question. It shows
 * nothing that answers and matrix_answers do not show; of files and signatures, whether there is one.
 */
export function shownView(view: string, columns: readonly WideColumn[]): RawBuilder<unknown> {
  const { team, subject } = subjectOf('shown', view)
  const of = (alias: string) => {
    const name = sql.ref(alias)
    return sql`${name}.team_id = ${team} and ${name}.form_id = ${subject} and ${name}.response_id = r.response_id`
  }
  const first = sql`
    left join lateral (
      select jsonb_object_agg(a.question_id, a.text) filter (where a.text is not null) as text,
        jsonb_object_agg(a.question_id, a.value_number) filter (where a.value_number is not null) as numeric,
        jsonb_object_agg(a.question_id, a.value_boolean) filter (where a.value_boolean is not null) as boolean,
        jsonb_object_agg(a.question_id, a.value_year) filter (where a.value_year is not null) as integer
      from (
        select own.*, coalesce(own.choice, own.value_text) as text from intake_analytics.answers own
        where ${of('own')} and own.question_id is not null
        order by own.position desc, own.value_position desc
      ) a
    ) first on true`
  const arrays = arraysOf(columns)
  const every =
    arrays.length === 0
      ? sql``
      : sql`
    left join lateral (
      select jsonb_object_agg(given.question_id, given.values) as of
      from (
        select a.question_id, jsonb_agg(
            jsonb_build_array(coalesce(a.choice, a.value_text), a.value_number, a.value_boolean) order by a.position, a.value_position
          ) as values
        from intake_analytics.answers a
        where ${of('a')} and a.question_id in (${sql.join(arrays)})
          and (a.choice is not null or a.value_text is not null or a.value_number is not null or a.value_boolean is not null)
        group by a.question_id
      ) given
    ) answers on true`
  const cells = columns.some(({ data_type }) => data_type === 'jsonb')
    ? sql`
    left join lateral (
      select jsonb_object_agg(given.question_id, given.values) as of
      from (
        select c.question_id, jsonb_agg(
            jsonb_build_object('row', c.row_text, 'column', c.column_text, 'value', coalesce(c.value_text, c.value_year::text))
            order by c.position
          ) as values
        from intake_analytics.matrix_answers c
        where ${of('c')} and c.question_id is not null and c.is_shown
        group by c.question_id
      ) given
    ) cells on true`
    : sql``
  const values = columns.map((column) => sql`${shownCellOf(column)} as ${sql.ref(column.column_name)}`)
  const fixed = Object.keys(SHOWN_COLUMNS).map((name) => sql`r.${sql.ref(name)}`)
  return sql`create or replace view ${sql.table(view)} with (security_barrier = true) as
    select ${sql.join([...fixed, ...values])}
    from intake_analytics.responses r ${first} ${every} ${cells}
    where r.team_id = ${team} and r.form_id = ${subject}`
}

function shownCellOf({ data_type, is_array, question_id, question_type }: WideColumn): RawBuilder<unknown> {
  const id = sql.lit(question_id)
  if (data_type === 'jsonb') return sql`cells.of -> ${id}`
  const own = sql`s.team_id = r.team_id and s.response_id = r.response_id and s.question_id = ${id}`
  if (/^file$/i.test(question_type ?? ''))
    return sql`exists (select from intake.response_files s where ${own})`
  if (/^signature$/i.test(question_type ?? '')) {
    return sql`exists (select from intake.response_signatures s
      where ${own} and (s.has_image or s.signed_at is not null or s.signer_name <> ''))`
  }
  const type = sql.raw(data_type)
  return is_array
    ? elementsOf(sql`answers.of -> ${id}`, sql.lit(PLACES[data_type as keyof typeof PLACES]), type)
    : sql`(first.${type} ->> ${id})::${type}`
}

/** Columns before those of the questions. */
export const EXPORT_COLUMNS = {
  team_id: 'The team (intake_analytics.teams).',
  row_number: 'Place of the row in the file, from 1.',
  patient: 'Pseudonym of the patient (intake_analytics.patients).',
  sent_at: 'When the form was sent.',
  completed_at: 'When it was completed.',
  is_archived: 'True when the answers are archived.',
  response_id:
    'The response that the row contains (intake_analytics.responses); null if none or several may be it.',
} as const

/**
 * The statement that makes the wide view of one export, for analysts: intake_analytics.export_answers with one column a
 * question. It shows nothing that export_answers does not show.
 */
export function exportView(view: string, columns: readonly WideColumn[]): RawBuilder<unknown> {
  const { team, subject } = subjectOf('export', view)
  const values = columns.map((column) => {
    const own = sql`filter (where e.question_id = ${sql.lit(column.question_id)})`
    return sql`${exportCellOf(column, own)} as ${sql.ref(column.column_name)}`
  })
  const fixed = sql`e.team_id, e.row_number, min(e.patient) as patient, min(e.sent_at) as sent_at,
    min(e.completed_at) as completed_at, bool_or(e.is_archived) as is_archived`
  // Versions without this column may have given its name to a question.
  const isTaken = columns.some(({ column_name }) => column_name === 'response_id')
  const response = isTaken ? [] : [sql`min(e.response_id) as response_id`]
  return sql`create or replace view ${sql.table(view)} with (security_barrier = true) as
    select ${sql.join([fixed, ...response, ...values])}
    from intake_analytics.export_answers e
    where e.team_id = ${team} and e.export_id = ${subject}
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
