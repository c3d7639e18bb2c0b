/** The SQL files of the project, in the folder next to `src/` or `dist/`, and their numbered migrations. */
import { readdir, readFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { type Kysely, type Migration, type MigrationProvider, sql } from 'kysely'
import { SQLSTATE, sqlstateOf } from './sqlstate.ts'
import type { Warehouse } from './tables.ts'

export const SQL_FOLDER = new URL('../../sql/', import.meta.url)

export function sqlFile(name: string): Promise<string> {
  return readFile(new URL(name, SQL_FOLDER), 'utf8')
}

/** Each `sql/migrations/NNNN_name.sql`, run inside the migrator's transaction. Migrations have no `down`. */
export const migrationFiles: MigrationProvider = {
  async getMigrations() {
    const folder = new URL('migrations/', SQL_FOLDER)
    const names = (await readdir(fileURLToPath(folder)))
      .filter((name) => /^\d{4}_\w+\.sql$/.test(name))
      .sort()
    const migrations: Record<string, Migration> = {}
    for (const name of names) {
      const text = await sqlFile(`migrations/${name}`)
      migrations[name.replace(/\.sql$/, '')] = {
        async up(db) {
          await sql.raw(text).execute(db)
        },
      }
    }
    return migrations
  },
}

/**
 * Creates the missing ones of the roles intake_loader, intake_analyst and intake_clinical, and their grants
 * (sql/roles.sql). Returns null, or the reason for failing.
 *
 * Invariant: a user who may not create roles can still migrate; the result says which roles are missing.
 */
export async function ensureRoles(db: Kysely<Warehouse>): Promise<string | null> {
  const statements = await sqlFile('roles.sql')
  for (let attempt = 1; ; attempt++) {
    try {
      await sql.raw(statements).execute(db)
      return null
    } catch (error) {
      const state = sqlstateOf(error)
      if (state === SQLSTATE.insufficientPrivilege || state === '42704') {
        return 'roles intake_loader, intake_analyst and intake_clinical are not in place: this user may not create or grant them; create them as a superuser and migrate again'
      }
      // Two databases of one server that grant at once collide on the server's catalogue ("tuple concurrently updated").
      if (attempt >= 5 || (state !== 'XX000' && state !== SQLSTATE.uniqueViolation)) throw error
    }
  }
}
