/** Whether this process can do its work: the reasons why it cannot, without a word of what it works on. */
import { type Kysely, sql } from 'kysely'
import { IntakeError } from '../../core/errors.ts'
import { glance } from '../../warehouse/glance.ts'
import { migrationFiles } from '../../warehouse/migrations.ts'
import { warehouseError } from '../../warehouse/sqlstate.ts'
import type { Warehouse } from '../../warehouse/tables.ts'

/** A part that runs: null when it works, else why not. */
export type Troubled = () => string | null

const LIMIT_MS = 1_500

/** Empty when ready. Resolves within two seconds, whatever the warehouse does. */
export async function reasonsNotReady(
  url: string,
  parts: Readonly<Record<string, Troubled>>,
): Promise<readonly string[]> {
  const own = Object.entries(parts).flatMap(([name, trouble]) => {
    const why = trouble()
    return why === null ? [] : [`${name}: ${why}`]
  })
  try {
    await glance({ url, purpose: 'readiness', milliseconds: LIMIT_MS }, requireSchema)
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
