/**
 * The forms and exports whose wide views are missing or out of date, and the questions that their views have columns for.
 *
 * Invariant: one query over questions, not over answers, finds what changed: the same questions have the same signature.
 * Questions of the form come first, in its order; then questions that only answers refer to.
 */
import { type Kysely, type RawBuilder, sql, type Transaction } from 'kysely'
import type { Stream } from '../../streams/stream.ts'
import type { Warehouse } from '../../warehouse/tables.ts'
import type { AskedQuestion } from './wide-columns.ts'

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

export async function questionsOf(
  db: Kysely<Warehouse>,
  subject: Subject,
): Promise<readonly AskedQuestion[]> {
  if (subject.kind === 'export') return await ofExport(db, subject)
  const questions = await ofForm(db, subject)
  return subject.kind === 'form' ? questions : questions.map(asShown)
}

/** Of a date analysts see the year; of a file and a signature, whether there is one. */
function asShown(question: AskedQuestion): AskedQuestion {
  switch (question.kind) {
    case 'date':
      return { ...question, kind: 'year' }
    case 'file':
    case 'signature':
      return { ...question, kind: 'checkbox', repeats: false }
    default:
      return question
  }
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

/**
 * The questions that responses answer (intake_raw.answered_questions).
 *
 * Invariant: after `followAnswers` the table has every question that a committed response answers. Only responses that
 * were written since the last call are read, found by the numbers of their changes; without a change, the call looks
 * into the index of these numbers once and writes nothing. A text is kept only if several patients were asked the same,
 * so that no text about one person becomes a column name.
 */
export async function followAnswers(db: Kysely<Warehouse>): Promise<void> {
  await db.transaction().execute(async (within) => {
    // A restored dump may name a transaction that this server has not reached.
    const { rows } = await sql<{ since: string | null; now_oldest: string }>`
      select case when until > '-infinity' and oldest <= pg_snapshot_xmax(pg_current_snapshot())::text::bigint
          then (oldest << 20)::text end as since,
        pg_snapshot_xmin(pg_current_snapshot())::text as now_oldest
      from intake_raw.answers_read for update`.execute(within)
    const { since, now_oldest } = rows[0]!
    if (since !== null && !(await hasChanges(within, since))) return
    const found = await foundFresh(within, since)
    if (found) await noteAnswered(within)
    // While no response is stored, the next call reads everything again, which is nothing.
    if (!found && since === null) return
    await sql`update intake_raw.answers_read set until = now(), oldest = ${now_oldest}::bigint`.execute(
      within,
    )
  })
}

/** Lets the next `followAnswers` read all responses: their rows were rewritten, and no change was numbered. */
export async function forgetAnswersRead(db: Kysely<Warehouse>, { children }: Stream): Promise<void> {
  if (!children.some(({ table }) => table === 'response_answers')) return
  await sql`update intake_raw.answers_read set until = '-infinity' where until > '-infinity'`.execute(db)
}

async function hasChanges(db: Transaction<Warehouse>, since: string): Promise<boolean> {
  const { rows } = await sql`
    select from intake_raw.records where change_seq >= ${since}::bigint order by change_seq limit 1`.execute(
    db,
  )
  return rows.length > 0
}

/** Collects the responses written since the change `since`; all of them if it is null. */
async function foundFresh(db: Transaction<Warehouse>, since: string | null): Promise<boolean> {
  const columns = sql`own.team_id, own.id, own.form_id, own.patient_id`
  // Each change is looked up, however many rows the planner expects.
  if (since !== null) await sql`set local enable_seqscan = off`.execute(db)
  await sql`
    create temporary table fresh_responses on commit drop as
    ${
      since === null
        ? sql`select ${columns} from intake.responses own where form_id is not null`
        : sql`
      select ${columns} from intake_raw.records changed
      cross join lateral (
        select * from intake.responses own where own.team_id = changed.team_id and own.id = changed.id offset 0
      ) own
      where changed.change_seq >= ${sql.lit(since)}::bigint and changed.stream = 'responses' and own.form_id is not null`
    }`.execute(db)
  await sql`set local enable_seqscan = on`.execute(db)
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
