/**
 * The questions that a wide view has columns for.
 *
 * Invariant: questions of the form come first, in its order; then questions that only answers refer to.
 */
import { type Kysely, sql } from 'kysely'
import type { Warehouse } from '../warehouse/tables.ts'
import type { AskedQuestion } from './wide-columns.ts'
import type { Subject } from './wide-subjects.ts'

export async function questionsOf(
  db: Kysely<Warehouse>,
  subject: Subject,
): Promise<readonly AskedQuestion[]> {
  return subject.kind === 'export' ? await ofExport(db, subject) : await ofForm(db, subject)
}

async function ofExport(db: Kysely<Warehouse>, { team_id, subject_id }: Subject) {
  const { rows } = await sql<AskedQuestion>`
    select q.question_id, min(q.question_text) as question_text, min(q.question_type) as question_type,
      min(case when q.kind in ('number', 'checkbox') then q.kind when q.kind = 'date' then 'year' else 'text' end) as kind,
      false as repeats, true as is_asked
    from intake.export_columns h
    join intake.exports e on e.team_id = h.team_id and e.id = h.export_id
    join intake_raw.question_terms q
      on q.team_id = e.team_id and q.form_id = e.form_id and q.question_id = h.question_id
    where h.team_id = ${team_id} and h.export_id = ${subject_id}
    group by q.question_id
    order by min(h.position)`.execute(db)
  return rows
}

async function ofForm(db: Kysely<Warehouse>, { team_id, subject_id }: Subject) {
  const { rows } = await sql<AskedQuestion>`
    with terms as (
      select * from intake_raw.question_terms where team_id = ${team_id} and form_id = ${subject_id}
    ), given as (
      select * from intake_raw.answered_questions where team_id = ${team_id} and form_id = ${subject_id}
    ), blocks as (
      select asked ->> 'id' as question_id
      from intake_raw.records form
      cross join lateral jsonb_path_query(form.payload, '$.**.questions[*] ? (@.block != null)') asked
      where form.team_id = ${team_id} and form.stream = 'forms' and form.id = ${subject_id}
    )
    select asked.question_id, coalesce(terms.question_text, given.question_text) as question_text, terms.question_type,
      coalesce(terms.kind, 'other') as kind,
      coalesce(given.repeats, false) or exists (select from blocks where blocks.question_id = asked.question_id) as repeats,
      coalesce(terms.is_asked, false) as is_asked
    from terms
    full join given using (question_id) as asked
    where terms.is_asked or given.question_id is not null
    order by terms.is_asked desc nulls last, terms.position, asked.question_id`.execute(db)
  return rows
}
