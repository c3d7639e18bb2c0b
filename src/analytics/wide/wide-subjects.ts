/**
 * The forms and exports whose wide views are missing or out of date.
 *
 * Invariant: one query, over questions and not over answers; the same questions have the same signature.
 */
import { type Kysely, type RawBuilder, sql } from 'kysely'
import type { Warehouse } from '../../warehouse/tables.ts'

export interface Subject {
  /** form: its responses; shown: the same, as analysts see them; export: its rows, as analysts see them. */
  readonly kind: 'form' | 'shown' | 'export'
  readonly team_id: number
  readonly subject_id: string
  readonly name: string | null
  /** Null for one that has no view yet. */
  readonly view_name: string | null
  readonly signature: string
}

export const SCHEMAS = { form: 'intake', shown: 'intake_forms', export: 'intake_exports' } as const

/** The schema of a view of `kind`. */
export function schemaOf(kind: RawBuilder<unknown>): RawBuilder<unknown> {
  const cases = Object.entries(SCHEMAS).map(
    ([each, schema]) => sql`when ${sql.lit(each)} then ${sql.lit(schema)}`,
  )
  return sql`case ${kind} ${sql.join(cases, sql` `)} end`
}

export async function changedSubjects(db: Kysely<Warehouse>): Promise<readonly Subject[]> {
  const { rows } = await sql<Subject>`
    with asked as (
      select * from intake_raw.question_terms where is_asked
    ), forms as (
      select 'form' as kind, team_id, form_id as subject_id, md5('subject_of ' || string_agg(
          concat_ws(' ', question_id, asked.kind, md5(asked.question_type), md5(asked.question_text),
            case when given.repeats then 'repeats' end),
          ' ' order by asked.position, question_id
        )) as signature
      from asked
      full join intake_raw.answered_questions given using (team_id, form_id, question_id)
      group by team_id, form_id
    ), exports as (
      select 'export' as kind, h.team_id, h.export_id as subject_id, md5('subject_of response_id ' || string_agg(
          concat_ws(' ', h.question_id, q.kind, md5(q.question_type), md5(q.question_text)), ' ' order by h.position
        )) as signature
      from intake.export_columns h
      join intake.exports e on e.team_id = h.team_id and e.id = h.export_id
      join intake_raw.question_terms q
        on q.team_id = e.team_id and q.form_id = e.form_id and q.question_id = h.question_id
      group by h.team_id, h.export_id
    ), subjects as (
      select * from forms
      union all
      select 'shown', team_id, subject_id, signature from forms
      union all
      select * from exports
    )
    select s.kind, s.team_id, s.subject_id,
      case s.kind
        when 'export' then (select e.name from intake.exports e where e.team_id = s.team_id and e.id = s.subject_id)
        else (select f.name from intake.forms f where f.team_id = s.team_id and f.id = s.subject_id)
      end as name, v.view_name, s.signature
    from subjects s
    left join intake_raw.wide_views v using (team_id, kind, subject_id)
    where v.signature is distinct from s.signature
      or to_regclass(format('%I.%I', ${schemaOf(sql`s.kind`)}, v.view_name)) is null
    order by s.team_id, array_position('{form,shown,export}', s.kind), name, s.subject_id`.execute(db)
  return rows
}
