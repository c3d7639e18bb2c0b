/**
 * The wide views of forms and exports, recreated when their questions change.
 *
 * Invariant: without a change nothing is recreated; a view and its stored columns change in one transaction; processes
 * that refresh at the same time take turns.
 */
import { type Kysely, type RawBuilder, sql, type Transaction } from 'kysely'
import { lockAlone } from '../../warehouse/locks.ts'
import { SQLSTATE, sqlstateOf } from '../../warehouse/sqlstate.ts'
import type { Warehouse } from '../../warehouse/tables.ts'
import { EXPORT_COLUMNS, exportView, SHOWN_COLUMNS, shownView } from './shown-sql.ts'
import { FORM_COLUMNS, formView } from './view-sql.ts'
import { columnsFor, nameFor, type WideColumn } from './wide-columns.ts'
import {
  changedSubjects,
  followAnswers,
  questionsOf,
  SCHEMAS,
  type Subject,
  schemaOf,
} from './wide-questions.ts'

/** How long to wait for readers of a view: new readers queue behind this wait. */
const LOCK_TIMEOUT = '2s'

/**
 * Creates views that are missing or out of date; needs the rights of the owner. Returns their names. A view that fails
 * does not stop the others; the first error is thrown at the end.
 */
export async function refreshWideViews(db: Kysely<Warehouse>): Promise<readonly string[]> {
  await followAnswers(db)
  const made: string[] = []
  const failures: unknown[] = []
  const changed = await changedSubjects(db)
  if (changed.length === 0) return made
  const server = { words: await reservedWords(db), roles: await rolesOf(db) }
  for (const subject of changed) {
    try {
      const name = await db.transaction().execute((within) => makeInTurn(within, subject, server))
      if (name !== null) made.push(name)
    } catch (error) {
      failures.push(error)
      if (sqlstateOf(error) === undefined || sqlstateOf(error) === SQLSTATE.insufficientPrivilege) break
    }
  }
  if (failures.length > 0) throw failures[0]
  return made
}

/** The same for all views. */
interface Server {
  /** Words that need quotes as a column name. */
  readonly words: readonly string[]
  /** Roles that exist of those that read wide views. */
  readonly roles: readonly string[]
}

/** Null when another process created it while this one waited. */
async function makeInTurn(
  db: Transaction<Warehouse>,
  subject: Subject,
  server: Server,
): Promise<string | null> {
  await lockAlone(db, 'wideViews', 'wide views')
  await sql`set local lock_timeout = ${sql.lit(LOCK_TIMEOUT)}`.execute(db)
  const { kind, team_id, subject_id } = subject
  const { rows } = await sql<{ view_name: string }>`
    select view_name from intake_raw.wide_views
    where team_id = ${team_id} and kind = ${kind} and subject_id = ${subject_id}`.execute(db)
  const view_name = rows[0]?.view_name ?? null
  return view_name === subject.view_name ? await makeView(db, subject, server) : null
}

const MADE = {
  form: { fixed: FORM_COLUMNS, make: formView },
  shown: { fixed: SHOWN_COLUMNS, make: shownView },
  export: { fixed: EXPORT_COLUMNS, make: exportView },
} as const

async function makeView(
  db: Transaction<Warehouse>,
  subject: Subject,
  { words, roles }: Server,
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
  const { fixed, make } = MADE[kind]
  const columns = columnsFor(
    await knownColumns(db, subject),
    await questionsOf(db, subject),
    new Set([...Object.keys(fixed), ...words]),
  )
  await keepColumns(db, subject, columns)
  const names = columns.map(({ column_name }) => column_name)
  // A question that had the name of a fixed column before that column existed keeps it.
  const shown = Object.fromEntries(Object.entries(fixed).filter(([name]) => !names.includes(name)))
  await dropOlder(db, view, [...Object.keys(shown), ...names])
  const readers = ['intake_loader', 'intake_clinical', ...(kind === 'form' ? [] : ['intake_analyst'])]
  const grants = readers
    .filter((role) => roles.includes(role))
    .map((role) => sql`grant select on ${sql.table(view)} to ${sql.id(role)}`)
  await runUnseen(db, [make(view, columns), ...commentsOn(view, subject, shown, columns), ...grants])
  return view
}

/** Drops a view whose columns do not begin those of the new one: an older version made it. Fails if others built on it. */
async function dropOlder(db: Transaction<Warehouse>, view: string, names: readonly string[]): Promise<void> {
  const { rows } = await sql<{ older: boolean }>`
    select array_agg(attname::text order by attnum) is distinct from (${names}::text[])[:count(*)] as older
    from pg_attribute where attrelid = to_regclass(${view.replace('.', '."')} || '"') and attnum > 0
    having count(*) > 0`.execute(db)
  if (rows[0]?.older) await sql`drop view ${sql.table(view)}`.execute(db)
}

/** A name that is free in the schema. */
async function freeName(db: Transaction<Warehouse>, { kind, name }: Subject): Promise<string> {
  const { rows } = await sql<{ name: string }>`
    select relname as name from pg_class where relnamespace = ${SCHEMAS[kind]}::regnamespace
    union select view_name from intake_raw.wide_views where kind = ${kind}`.execute(db)
  const taken = new Set(rows.map((row) => row.name))
  return nameFor(`${kind === 'export' ? kind : 'form'} ${name ?? ''}`, {
    empty: kind,
    prefix: '',
    taken,
  })
}

async function knownColumns(db: Transaction<Warehouse>, { kind, team_id, subject_id }: Subject) {
  const { rows } = await sql<WideColumn>`
    select place, column_name, question_id, data_type, is_array, question_text, question_type
    from intake_raw.wide_columns
    where team_id = ${team_id} and kind = ${kind} and subject_id = ${subject_id}
    order by place`.execute(db)
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

async function reservedWords(db: Kysely<Warehouse>): Promise<readonly string[]> {
  const { rows } = await sql<{ word: string }>`
    select word from pg_get_keywords() where catcode in ('R', 'T')`.execute(db)
  return rows.map(({ word }) => word)
}

/** sql/roles.sql grants to roles that are created later. */
async function rolesOf(db: Kysely<Warehouse>): Promise<readonly string[]> {
  const { rows } = await sql<{ rolname: string }>`
    select rolname from pg_roles where rolname in ('intake_loader', 'intake_clinical', 'intake_analyst')`.execute(
    db,
  )
  return rows.map(({ rolname }) => rolname)
}

function commentsOn(
  view: string,
  { kind, name }: Subject,
  fixed: Readonly<Record<string, string>>,
  columns: readonly WideColumn[],
): readonly RawBuilder<unknown>[] {
  const what = kind === 'export' ? 'One row of the export' : 'One row a response to the form'
  const texts: [string, string][] = [
    ...Object.entries(fixed),
    ...columns.map(({ column_name, question_text, question_id }): [string, string] => [
      column_name,
      question_text === null || question_text === '' ? `Question ${question_id}.` : question_text,
    ]),
  ]
  const whole = sql`comment on view ${sql.table(view)} is ${sql.lit(`${what} ${name || 'without a name'}, one column a question.`)}`
  return [
    whole,
    ...texts.map(
      ([column, text]) => sql`comment on column ${sql.table(view)}.${sql.ref(column)} is ${sql.lit(text)}`,
    ),
  ]
}

/**
 * Runs statements that contain names of forms and texts of questions. They are sent as a parameter, so that they appear
 * neither in pg_stat_activity nor in the statement log of the server.
 */
async function runUnseen(
  db: Transaction<Warehouse>,
  statements: readonly RawBuilder<unknown>[],
): Promise<void> {
  const { sql: text } = sql`${sql.join(statements, sql`; `)}`.compile(db)
  await sql`select set_config('intake.statements', ${text}, true)`.execute(db)
  await sql`do $$ begin execute current_setting('intake.statements'); perform set_config('intake.statements', '', true); end $$`.execute(
    db,
  )
}

/** The wide views of a team, with their schemas. */
export async function wideViewsOf(db: Kysely<Warehouse>, teamId: number): Promise<readonly string[]> {
  const { rows } = await sql<{ view: string }>`
    select concat_ws('.', ${schemaOf(sql.ref('kind'))}, view_name) as view
    from intake_raw.wide_views where team_id = ${teamId}`.execute(db)
  return rows.map(({ view }) => view)
}
