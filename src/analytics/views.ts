/**
 * The views of sql/views and of the declarations of streams, recreated when their text changes.
 *
 * Invariant: all views match their files, or none was changed; views of users that depend on ours are never dropped. A
 * view whose file did not change costs one comparison. In the views of streams a person is only a pseudonym, and
 * only declared columns are shown.
 */
import { createHash } from 'node:crypto'
import { readdir } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { type Kysely, sql, type Transaction } from 'kysely'
import { IntakeError } from '../core/errors.ts'
import { ALL_STREAMS, PERSONS } from '../streams/catalogue.ts'
import { type Analysts, ownTimeOf, type Stream } from '../streams/stream.ts'
import { SQL_FOLDER, sqlFile } from '../warehouse/migrations.ts'
import { SQLSTATE, sqlstateOf } from '../warehouse/sqlstate.ts'
import type { Warehouse } from '../warehouse/tables.ts'
import { schemaOf } from './wide/wide-questions.ts'

interface ViewFile {
  readonly name: string
  readonly text: string
  readonly hash: Buffer
  /** The view it makes, with its schema. */
  readonly view: string
}

/** Postgres replaces a view only by one that has at least the same columns, of the same types, in the same order. */
const OTHER_COLUMNS = '42P16'
/** Error code when views of users depend on ours. */
const IN_USE = 'views_in_use'

export function isInUse(error: unknown): error is IntakeError {
  return error instanceof IntakeError && error.code === IN_USE
}

/** Creates views that are missing or out of date; needs the rights of the owner. Returns their names. */
export async function syncViews(db: Kysely<Warehouse>): Promise<readonly string[]> {
  const files = await viewFiles()
  const changed = await changedOf(db, files)
  if (changed.length === 0) return []
  try {
    await db.transaction().execute((within) => make(within, changed))
    return changed.map(({ view }) => view)
  } catch (error) {
    if (sqlstateOf(error) !== OTHER_COLUMNS) throw error
  }
  await db.transaction().execute(async (within) => {
    await dropAll(within, files)
    await make(within, files)
  })
  return files.map(({ view }) => view)
}

async function make(db: Transaction<Warehouse>, files: readonly ViewFile[]): Promise<void> {
  for (const { name, text, hash } of files) {
    await sql.raw(text).execute(db)
    await sql`
      insert into intake_ops.view_files (name, hash) values (${name}, ${hash})
      on conflict (name) do update set hash = excluded.hash, made_at = now()`.execute(db)
  }
}

async function dropAll(db: Transaction<Warehouse>, files: readonly ViewFile[]): Promise<void> {
  try {
    // The wide views for analysts are built on ours, and made again with them (wide-views.ts).
    const { rows: wide } = await sql<{ view: string }>`
      select concat_ws('.', ${schemaOf(sql.ref('kind'))}, view_name) as view
      from intake_raw.wide_views where kind <> 'form'`.execute(db)
    for (const { view } of [...wide, ...files.toReversed()])
      await sql`drop view if exists ${sql.table(view)}`.execute(db)
  } catch (error) {
    if (sqlstateOf(error) !== SQLSTATE.othersDepend) throw error
    throw new IntakeError(
      'the columns of views in intake_analytics changed, and views of others depend on them',
      {
        code: IN_USE,
        verdict: 'stop',
        cause: error,
        hint: 'drop what was built on the views of intake and intake_analytics, run intake-sync migrate, and create it again',
      },
    )
  }
}

async function changedOf(db: Kysely<Warehouse>, files: readonly ViewFile[]): Promise<readonly ViewFile[]> {
  const { rows } = await sql<{ name: string; hash: Buffer }>`
    select file.name, file.hash from intake_ops.view_files file
    join unnest(${files.map(({ name }) => name)}::text[], ${files.map(({ view }) => view)}::text[]) as own (name, view)
      on own.name = file.name
    where to_regclass(own.view) is not null`.execute(db)
  const made = new Map(rows.map(({ name, hash }) => [name, hash.toString('hex')]))
  return files.filter(({ name, hash }) => made.get(name) !== hash.toString('hex'))
}

/** In the order of their names: a view is made after those that it reads; those of streams read tables only. */
async function viewFiles(): Promise<readonly ViewFile[]> {
  const names = (await readdir(fileURLToPath(new URL('views/', SQL_FOLDER)))).filter((name) =>
    /^\d\d_\w+\.sql$/.test(name),
  )
  const groups = await sqlFile('views/groups.sql')
  const files = await Promise.all(
    names.sort().map(async (name) => {
      const text = await sqlFile(`views/${name}`)
      return { name, text: withStreams(text.replace('/* the groups of members */', () => groups)) }
    }),
  )
  return [...files, ...streamViews(ALL_STREAMS)].map(({ name, text }) => {
    const view = /create or replace view (\w+\.\w+)/.exec(text)![1]!
    return { name, text, view, hash: createHash('sha256').update(text).digest() }
  })
}

/** Stands in a file of sql/views for the newest time and the last event of each stream that analysts see. */
const EACH_STREAM = /^ *-- each stream:.*$/m

/** `text` with what follows from the streams in place of its comments: a line `-- each stream:`, or a list of names. */
function withStreams(text: string): string {
  const lines = ALL_STREAMS.filter(({ analysts }) => analysts !== 'nothing').map(newestOf)
  const names = ALL_STREAMS.filter(({ analysts }) => analysts !== 'nothing').map(({ name }) => `'${name}'`)
  return text
    .replace(EACH_STREAM, () => lines.join('\n  union all\n'))
    .replaceAll('/* the streams of analysts */', names.join(', '))
    .replaceAll('/* the stream of persons */', `'${PERSONS.name}'`)
}

/** Reads the table itself only if the kept times do not say which is the newest, until operate/health/counts.ts sums up. */
function newestOf(stream: Stream): string {
  const own = ownTimeOf(stream)
  const table = `from intake.${stream.table} x where x.team_id = t.team_id`
  return `  select '${stream.name}' as stream,
    case
      when coalesce(kept.gone >= kept.newest, kept.gone is not null) or kept.ahead <= now() + interval '5 minutes'
        then (select max(${own}) filter (where ${own} <= now() + interval '5 minutes') ${table})
      else kept.newest
    end as newest_record_at,
    case
      when coalesce(kept.gone_event >= kept.newest_event, kept.gone_event is not null)
        then (select max(_loaded_at) filter (where _origin like 'event:%') ${table})
      else kept.newest_event
    end as last_event_at
  from (
    select max(newest) as newest, max(gone) as gone, min(ahead) as ahead, max(newest_event) as newest_event,
      max(gone_event) as gone_event
    from intake_ops.newest_times where newest_times.team_id = t.team_id and newest_times.stream = '${stream.name}'
  ) kept`
}

/** The views of those streams that declare columns for analysts, by a name in place of a file's. */
export function streamViews(
  streams: readonly Stream[],
): readonly { readonly name: string; readonly text: string }[] {
  return streams.flatMap((stream) =>
    showsColumns(stream.analysts)
      ? [{ name: `stream ${stream.name}`, text: viewOf(stream, stream.analysts.columns) }]
      : [],
  )
}

function showsColumns(analysts: Analysts): analysts is Extract<Analysts, { readonly columns: unknown }> {
  return analysts !== 'nothing' && 'columns' in analysts
}

/** Comments come from the table, in which each column has one. */
function viewOf({ table, columns }: Stream, shown: readonly string[]): string {
  const cells = shown.map((name) => {
    const isPerson = columns.some((column) => column.name === name && column.to === PERSONS.name)
    return isPerson
      ? {
          cell: `case when s.${name} is not null then intake_ops.pseudonym(k.inner_pad, k.outer_pad, s.team_id, s.${name}) end`,
          as: name.replace(/_id$/, ''),
          about: "'Pseudonym of the patient (intake_analytics.patients).'",
        }
      : { cell: `s.${name}`, as: name, about: commentOf(table, name) }
  })
  const all = [
    { cell: 's.team_id', as: 'team_id', about: "'The team (intake_analytics.teams).'" },
    { cell: 's.id', as: 'id', about: commentOf(table, 'id') },
    ...cells,
  ]
  return `create or replace view intake_analytics.${table} with (security_barrier = true) as
select ${all.map(({ cell, as }) => `${cell} as ${as}`).join(', ')}
from intake.${table} s
cross join intake_ops.analytics_key k
where s._deleted_at is null and s.team_id = any ((select intake_ops.teams_of(current_user::text))::smallint[]);

do $comments$
begin
  comment on view intake_analytics.${table} is 'One row per record of intake.${table} that is not deleted.';
${all.map(({ as, about }) => `  execute format('comment on column intake_analytics.${table}.${as} is %L', ${about});`).join('\n')}
end
$comments$;
`
}

function commentOf(table: string, column: string): string {
  return `(select col_description(attrelid, attnum) from pg_attribute where attrelid = 'intake.${table}'::regclass and attname = '${column}')`
}
