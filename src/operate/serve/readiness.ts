/** The reasons why this process is not ready. Invariant: a reason contains no data of a record. */
import { type Kysely, sql } from 'kysely'
import { IntakeError } from '../../core/errors.ts'
import type { Glances } from '../../warehouse/glance.ts'
import { migrationFiles } from '../../warehouse/migrations.ts'
import { warehouseError } from '../../warehouse/sqlstate.ts'
import type { Warehouse } from '../../warehouse/tables.ts'

/** Returns why a part does not work; null if it does. */
export type Trouble = () => string | null

const LIMIT_MS = 1_500

/** Returns no reasons if ready. Resolves within two seconds, whatever the warehouse does. */
export async function reasonsNotReady(
  glances: Glances,
  parts: Readonly<Record<string, Trouble>>,
): Promise<readonly string[]> {
  const own = Object.entries(parts).flatMap(([name, trouble]) => {
    const why = trouble()
    return why === null ? [] : [`${name}: ${why}`]
  })
  try {
    await glances.look({ purpose: 'readiness', milliseconds: LIMIT_MS }, requireSchema)
    return own
  } catch (error) {
    const { code, message } = warehouseError(error)
    return [`${code === 'schema' ? 'schema' : 'database'}: ${message}`, ...own]
  }
}

async function requireSchema(db: Kysely<Warehouse>): Promise<void> {
  const known = Object.keys(await migrationFiles.getMigrations())
  const { rows } = await sql<{ name: string }>`select name from intake_ops.migrations`.execute(db)
  const applied = new Set(rows.map(({ name }) => name))
  const behind = known.filter((name) => !applied.has(name)).length
  if (behind === 0) return
  throw new IntakeError(`behind this version by ${behind} migration(s)`, { code: 'schema', verdict: 'retry' })
}
