/**
 * The wide views of forms and exports, made again when what they were made from changed.
 *
 * Invariant: while nothing changed this is one query; a view is made in one transaction with the columns it has; two
 * processes that refresh take turns.
 */
import { type Kysely, type RawBuilder, sql, type Transaction } from 'kysely'
import type { Warehouse } from '../tables.ts'
import { nameFor } from './column-names.ts'
import { EXPORT_COLUMNS, exportView } from './export-view.ts'
import { FORM_COLUMNS, formView } from './form-view.ts'
import { type AskedQuestion, columnsFor, type WideColumn } from './wide-columns.ts'

/** Key of the advisory lock under which wide views are made. */
const WIDE_VIEWS_LOCK = 7_204_310_002

interface Subject {
  readonly kind: 'form' | 'export'
  readonly team_id: number
  readonly subject_id: string
  readonly name: string | null
  /** Null for one that has no view yet. */
  readonly view_name: string | null
  readonly signature: string
}

const SCHEMAS = { form: 'intake', export: 'intake_analytics' } as const

/** Makes the views that are missing or changed; needs the rights of the owner. Returns their names. */
export async function refreshWideViews(db: Kysely<Warehouse>): Promise<readonly string[]> {
  const made: string[] = []
  const changed = await changedSubjects(db)
  const words = changed.length === 0 ? [] : await reservedWords(db)
  for (const subject of changed) {
    await db.transaction().execute(async (within) => {
      await sql`select pg_advisory_xact_lock(${sql.lit(WIDE_VIEWS_LOCK)})`.execute(within)
      made.push(await makeView(within, subject, words))
    })
  }
  return made
}

async function changedSubjects(db: Kysely<Warehouse>): Promise<readonly Subject[]> {
  const { rows } = await sql<Subject>`
    with forms as (
      select 'form' as kind, team_id, form_id as subject_id, md5(string_agg(
          concat_ws(' ', question_id, kind, md5(question_type), md5(question_text)), ' ' order by position, question_id
        )) as signature
      from intake_raw.question_terms
      group by team_id, form_id
    ), exports as (
      select 'export' as kind, h.team_id, h.export_id as subject_id, md5(string_agg(
          concat_ws(' ', h.question_id, q.kind, md5(q.question_type), md5(q.question_text)), ' ' order by h.position
        )) as signature
      from intake.export_columns h
      join intake.exports e on e.team_id = h.team_id and e.id = h.export_id
      join intake_raw.question_terms q
        on q.team_id = e.team_id and q.form_id = e.form_id and q.question_id = h.question_id
      group by h.team_id, h.export_id
    ), subjects as (select * from forms union all select * from exports)
    select s.kind, s.team_id, s.subject_id, coalesce(f.name, e.name) as name, v.view_name, s.signature
    from subjects s
    left join intake_raw.wide_views v using (team_id, kind, subject_id)
    left join intake.forms f on s.kind = 'form' and f.team_id = s.team_id and f.id = s.subject_id
    left join intake.exports e on s.kind = 'export' and e.team_id = s.team_id and e.id = s.subject_id
    where v.signature is distinct from s.signature
      or to_regclass(format('%I.%I', case s.kind when 'form' then 'intake' else 'intake_analytics' end, v.view_name)) is null
    order by s.team_id, s.kind desc, name, s.subject_id`.execute(db)
  return rows
}

async function makeView(
  db: Transaction<Warehouse>,
  subject: Subject,
  words: readonly string[],
): Promise<string> {
  const { kind, team_id, subject_id, signature } = subject
  const name = subject.view_name ?? (await freeName(db, subject))
  const view = `${SCHEMAS[kind]}.${name}`
  await sql`
    insert into intake_raw.wide_views (team_id, kind, subject_id, view_name, signature)
    values (${team_id}, ${kind}, ${subject_id}, ${name}, ${signature})
    on conflict (team_id, kind, subject_id) do update set signature = excluded.signature, made_at = now()`.execute(
    db,
  )
  const fixed = kind === 'form' ? FORM_COLUMNS : EXPORT_COLUMNS
  const columns = columnsFor(
    await knownColumns(db, subject),
    await questionsOf(db, subject),
    new Set([...Object.keys(fixed), ...words]),
  )
  await keepColumns(db, subject, columns)
  const make = kind === 'form' ? formView : exportView
  await runUnseen(db, make(view, team_id, subject_id, columns))
  await comment(db, view, subject, fixed, columns)
  for (const role of await readersOf(db, kind)) {
    await runUnseen(db, sql`grant select on ${sql.table(view)} to ${sql.id(role)}`)
  }
  return view
}

/** The roles that read such views; they may not be there yet, and are granted by sql/roles.sql then. */
async function readersOf(db: Transaction<Warehouse>, kind: Subject['kind']): Promise<readonly string[]> {
  const readers = ['intake_loader', 'intake_clinical', ...(kind === 'export' ? ['intake_analyst'] : [])]
  const { rows } = await sql<{ rolname: string }>`
    select rolname from pg_roles where rolname = any(${readers}::text[])`.execute(db)
  return rows.map(({ rolname }) => rolname)
}

/** A name that nothing in the schema has, for this subject from now on. */
async function freeName(db: Transaction<Warehouse>, { kind, name }: Subject): Promise<string> {
  const { rows } = await sql<{ name: string }>`
    select relname as name from pg_class where relnamespace = ${SCHEMAS[kind]}::regnamespace
    union select view_name from intake_raw.wide_views where kind = ${kind}`.execute(db)
  const taken = new Set(rows.map((row) => row.name))
  return nameFor(`${kind} ${name ?? ''}`, { empty: kind, prefix: '', taken })
}

async function knownColumns(db: Transaction<Warehouse>, { kind, team_id, subject_id }: Subject) {
  const { rows } = await sql<WideColumn>`
    select place, column_name, question_id, data_type, is_array, question_text, question_type
    from intake_raw.wide_columns
    where team_id = ${team_id} and kind = ${kind} and subject_id = ${subject_id}
    order by place`.execute(db)
  return rows
}

/** Those that are asked, in the order of the form, then those that only answers tell of. */
async function questionsOf(db: Transaction<Warehouse>, subject: Subject): Promise<readonly AskedQuestion[]> {
  const { kind, team_id, subject_id } = subject
  if (kind === 'export') {
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
  const { rows } = await sql<AskedQuestion>`
    with answered as (
      select a.question_id, a.response_id, min(a.question_text) as question_text, count(*) filter (where a.value_position = 1) > 1 as repeats
      from intake.responses r
      join intake.response_answers a on a.team_id = r.team_id and a.response_id = r.id
      where r.team_id = ${team_id} and r.form_id = ${subject_id} and a.question_id is not null
      group by a.question_id, a.response_id
    ), given as (
      select question_id, min(question_text) as question_text, bool_or(repeats) as repeats from answered group by question_id
    ), blocks as (
      select asked ->> 'id' as question_id
      from intake_raw.records form
      cross join lateral jsonb_path_query(form.payload, '$.**.questions[*] ? (@.block != null)') asked
      where form.team_id = ${team_id} and form.stream = 'forms' and form.id = ${subject_id}
    )
    select coalesce(q.question_id, given.question_id) as question_id,
      coalesce(q.question_text, given.question_text) as question_text, q.question_type, coalesce(q.kind, 'other') as kind,
      coalesce(given.repeats, false) or exists (select from blocks where blocks.question_id = q.question_id) as repeats,
      q.question_id is not null as is_asked
    from (select * from intake_raw.question_terms where team_id = ${team_id} and form_id = ${subject_id}) q
    full join given using (question_id)
    order by q.position, question_id`.execute(db)
  return rows
}

async function keepColumns(
  db: Transaction<Warehouse>,
  { kind, team_id, subject_id }: Subject,
  columns: readonly WideColumn[],
): Promise<void> {
  await sql`
    insert into intake_raw.wide_columns
      (team_id, kind, subject_id, place, column_name, question_id, data_type, is_array, question_text, question_type)
    select ${team_id}, ${kind}, ${subject_id}, c.place, c.column_name, c.question_id, c.data_type, c.is_array,
      c.question_text, c.question_type
    from jsonb_to_recordset(${JSON.stringify(columns)}::jsonb) as c (place int, column_name text, question_id text,
      data_type text, is_array boolean, question_text text, question_type text)
    on conflict (team_id, kind, subject_id, place) do update set question_text = excluded.question_text
      where wide_columns.question_text is distinct from excluded.question_text`.execute(db)
}

/** Words that cannot be the name of a column without quotes. */
async function reservedWords(db: Kysely<Warehouse>): Promise<readonly string[]> {
  const { rows } = await sql<{ word: string }>`
    select word from pg_get_keywords() where catcode in ('R', 'T')`.execute(db)
  return rows.map(({ word }) => word)
}

async function comment(
  db: Transaction<Warehouse>,
  view: string,
  { kind, name, subject_id }: Subject,
  fixed: Readonly<Record<string, string>>,
  columns: readonly WideColumn[],
): Promise<void> {
  const what = kind === 'form' ? 'One row a response to the form' : 'One row of the export'
  const texts: [string, string][] = [
    ...Object.entries(fixed),
    ...columns.map(({ column_name, question_text, question_id }): [string, string] => [
      column_name,
      question_text === null || question_text === '' ? `Question ${question_id}.` : question_text,
    ]),
  ]
  const whole = sql`comment on view ${sql.table(view)} is ${sql.lit(`${what} ${name ?? subject_id}, one column a question.`)}`
  const each = texts.map(
    ([column, text]) => sql`comment on column ${sql.table(view)}.${sql.ref(column)} is ${sql.lit(text)}`,
  )
  await runUnseen(db, sql`${sql.join([whole, ...each], sql`; `)}`)
}

/**
 * Runs statements that hold names of forms and texts of questions, without showing them in pg_stat_activity and in what
 * the server logs of statements: they go there as a parameter.
 */
async function runUnseen(db: Transaction<Warehouse>, statements: RawBuilder<unknown>): Promise<void> {
  const { sql: text } = statements.compile(db)
  await sql`select set_config('intake.statements', ${text}, true)`.execute(db)
  await sql`do $$ begin execute current_setting('intake.statements'); perform set_config('intake.statements', '', true); end $$`.execute(
    db,
  )
}
