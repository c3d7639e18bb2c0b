/**
 * The roles intake_loader, intake_analyst and intake_clinical, and their grants (sql/roles.sql).
 *
 * Invariant: a user who may not create roles can still migrate; the result says which roles are missing.
 */
import { type Kysely, sql } from 'kysely'
import { sqlFile } from './migrations.ts'
import { SQLSTATE, sqlstateOf } from './sqlstate.ts'
import type { Warehouse } from './tables.ts'

/** Creates missing roles and grants. Returns null, or the reason for failing. */
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
