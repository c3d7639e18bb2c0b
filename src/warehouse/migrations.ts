/** The SQL files of the project, in the folder next to `src/` or `dist/`, and their numbered migrations. */
import { readdir, readFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { type Migration, type MigrationProvider, sql } from 'kysely'

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
