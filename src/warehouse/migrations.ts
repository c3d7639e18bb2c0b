/**
 * The SQL files of the project, in the folder next to `src/` or `dist/`, and their numbered migrations.
 *
 * Invariant: migrations run in the order of their numbers, each once. A missing right to create roles does not stop a
 * migration; the result says which roles are missing.
 */
import { readdir, readFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { type Kysely, type Migration, type MigrationProvider, sql } from 'kysely'
import { SQLSTATE, sqlstateOf } from './sqlstate.ts'
import type { Warehouse } from './tables.ts'

export const SQL_FOLDER = new URL('../../sql/', import.meta.url)

export function sqlFile(name: string): Promise<string> {
  return readFile(new URL(name, SQL_FOLDER), 'utf8')
}

/** Begins a migration that runs in batches, outside the transaction of the others. */
const IN_BATCHES = '-- In batches'

export function runsInBatches(text: string): boolean {
  return text.startsWith(IN_BATCHES)
}

/** Statements of a file, without comments before them. Quotes, dollar quotes and comments may hold semicolons. */
export function statementsIn(text: string): readonly string[] {
  const statements: string[] = []
  let start = 0
  const skip = /'(?:[^']|'')*'|"[^"]*"|\$(\w*)\$[\s\S]*?\$\1\$|--[^\n]*|\/\*[\s\S]*?\*\/|;/g
  for (const match of text.matchAll(skip)) {
    if (match[0] !== ';') continue
    statements.push(text.slice(start, match.index))
    start = match.index + 1
  }
  return [...statements, text.slice(start)]
    .map((each) => each.replace(/^(?:\s|--[^\n]*(?:\n|$))+/, '').trim())
    .filter((each) => each !== '')
}

/** `NNNN_name` of each migration of this version, in their order. Reads none of the files. */
export async function migrationNames(): Promise<readonly string[]> {
  const names = await readdir(fileURLToPath(new URL('migrations/', SQL_FOLDER)))
  return names
    .filter((name) => /^\d{4}_\w+\.sql$/.test(name))
    .map((name) => name.replace(/\.sql$/, ''))
    .sort()
}

/**
 * Each `sql/migrations/NNNN_name.sql`, run inside the migrator's transaction. Migrations have no `down`. One that runs in
 * batches was executed before its turn (analytics/migrate.ts) and is only recorded.
 */
export const migrationFiles: MigrationProvider = {
  async getMigrations() {
    const migrations: Record<string, Migration> = {}
    for (const name of await migrationNames()) {
      const text = await sqlFile(`migrations/${name}.sql`)
      migrations[name] = {
        async up(db) {
          if (!runsInBatches(text)) await sql.raw(text).execute(db)
        },
      }
    }
    return migrations
  },
}

export interface Applied {
  readonly name: string
  /** An ISO time. */
  readonly timestamp: string
}

/** The applied migrations; none in a database without our schemas. */
export async function appliedTo(db: Kysely<Warehouse>): Promise<readonly Applied[]> {
  try {
    const { rows } = await sql<Applied>`
      select name, timestamp from intake_ops.migrations order by timestamp, name`.execute(db)
    return rows
  } catch (error) {
    const state = sqlstateOf(error)
    if (state === SQLSTATE.undefinedTable || state === '3F000') return []
    throw error
  }
}

/** Whether a newer version migrated the database. */
export async function isAhead(db: Kysely<Warehouse>): Promise<boolean> {
  const known = await migrationFiles.getMigrations()
  return (await appliedTo(db)).some(({ name }) => known[name] === undefined)
}

/**
 * Creates the missing ones of the roles intake_loader, intake_analyst, intake_clinical and intake_researcher, and their
 * grants (sql/roles.sql). Returns null, or the reason for failing.
 *
 * Invariant: a user who may not create roles can still migrate; the result says which roles are missing.
 */
export async function ensureRoles(db: Kysely<Warehouse>): Promise<string | null> {
  const statements = await sqlFile('roles.sql')
  for (let attempt = 1; ; attempt++) {
    try {
      await sql.raw(statements).execute(db)
      const { rows } = await sql`select from pg_roles where rolname = 'intake_researcher'`.execute(db)
      return rows.length > 0
        ? null
        : 'the role intake_researcher is not in place: this user may not create it; create it as a superuser and migrate again'
    } catch (error) {
      const state = sqlstateOf(error)
      if (state === SQLSTATE.insufficientPrivilege || state === '42704') {
        return 'roles intake_loader, intake_analyst, intake_clinical and intake_researcher are not in place: this user may not create or grant them; create them as a superuser and migrate again'
      }
      // Two databases of one server that grant at once collide on the server's catalogue ("tuple concurrently updated").
      if (attempt >= 5 || (state !== 'XX000' && state !== SQLSTATE.uniqueViolation)) throw error
    }
  }
}
