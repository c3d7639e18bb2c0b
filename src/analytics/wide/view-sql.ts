/**
 * The statement that makes the wide view of a form.
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

/**
 * The first value of each question, by type: one object per type and response, in which a later row replaces an earlier one
 * (the rows come backwards). An object of arrays per question would take four times as long.
 */
const FIRST = sql`
  left join lateral (
    select jsonb_object_agg(a.question_id, a.value_text) as text, jsonb_object_agg(a.question_id, a.value_number) as numeric,
      jsonb_object_agg(a.question_id, a.value_boolean) as boolean, jsonb_object_agg(a.question_id, a.value_date) as date
    from (
      select * from intake.response_answers own
      where own.team_id = r.team_id and own.response_id = r.id and own.question_id is not null and own.value_text is not null
      order by own.position desc, own.value_position desc
    ) a
  ) first on true`

/** All values of the questions whose columns are arrays, as text, number, boolean and date, in the order of the payload. */
function everyOf(columns: readonly WideColumn[]): RawBuilder<unknown> {
  const ids = arraysOf(columns)
  if (ids.length === 0) return sql``
  return sql`
  left join lateral (
    select jsonb_object_agg(given.question_id, given.values) as of
    from (
      select a.question_id, jsonb_agg(
          jsonb_build_array(a.value_text, a.value_number, a.value_boolean, a.value_date) order by a.position, a.value_position
        ) as values
      from intake.response_answers a
      where a.team_id = r.team_id and a.response_id = r.id and a.question_id in (${sql.join(ids)}) and a.value_text is not null
      group by a.question_id
    ) given
  ) answers on true`
}

export function arraysOf(columns: readonly WideColumn[]): readonly RawBuilder<unknown>[] {
  return [...new Set(columns.filter(({ is_array }) => is_array).map(({ question_id }) => question_id))].map(
    (id) => sql.lit(id),
  )
}

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

export const PLACES = { text: 0, numeric: 1, boolean: 2, date: 3 } as const

/** Team and subject of a wide view, looked up when it is read: its definition and plans, which everybody may see, have no id. */
export function subjectOf(kind: 'form' | 'shown' | 'export', view: string) {
  const name = view.slice(view.indexOf('.') + 1)
  const found = sql`intake_raw.subject_of(${sql.lit(kind)}, ${sql.lit(name)}, current_user::text)`
  return { team: sql`(select team_id from ${found})`, subject: sql`(select subject_id from ${found})` }
}

export function formView(view: string, columns: readonly WideColumn[]): RawBuilder<unknown> {
  const own = subjectOf('form', view)
  const values = columns.map((column) => sql`${cellOf(column)} as ${sql.ref(column.column_name)}`)
  const fixed = sql`r.team_id, r.id as response_id, r.patient_id, r.packet_id, r.is_submitted, r.is_skipped, r.is_archived,
    r.created_at, r.submitted_at`
  return sql`create or replace view ${sql.table(view)} with (security_invoker = true) as
    select ${sql.join([fixed, ...values])}
    from intake.responses r ${FIRST} ${everyOf(columns)} ${columns.some(({ data_type }) => data_type === 'jsonb') ? CELLS : sql``}
    where r.team_id = ${own.team} and r.form_id = ${own.subject} and r._deleted_at is null`
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
  const type = sql.raw(data_type)
  return is_array
    ? elementsOf(sql`answers.of -> ${id}`, sql.lit(PLACES[data_type as keyof typeof PLACES]), type)
    : sql`(first.${type} ->> ${id})::${type}`
}

export function elementsOf(list: RawBuilder<unknown>, place: RawBuilder<unknown>, type: RawBuilder<unknown>) {
  return sql`(select array_agg((each.value ->> ${place})::${type} order by each.place)
    from jsonb_array_elements(${list}) with ordinality as each (value, place))`
}
