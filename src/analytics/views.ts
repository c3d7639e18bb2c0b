/**
 * The views of sql/views and of the declarations of streams, recreated when their text changes.
 *
 * Invariant: all views match their files, or none was changed; views of users that depend on ours are never dropped. A
 * view whose file did not change costs one comparison.
 */
import { createHash } from 'node:crypto'
import { readdir } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { type Kysely, sql, type Transaction } from 'kysely'
import { IntakeError } from '../core/errors.ts'
import { SQL_FOLDER, sqlFile } from '../warehouse/migrations.ts'
import { SQLSTATE, sqlstateOf } from '../warehouse/sqlstate.ts'
import type { Warehouse } from '../warehouse/tables.ts'
import { streamViews, withStreams } from './stream-views.ts'
import { schemaOf } from './wide/wide-subjects.ts'

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
  return [...files, ...streamViews()].map(({ name, text }) => {
    const view = /create or replace view (\w+\.\w+)/.exec(text)![1]!
    return { name, text, view, hash: createHash('sha256').update(text).digest() }
  })
}
