/**
 * Refreshes planner statistics, which contain common values and histogram bounds of columns, and so values of deleted
 * rows.
 *
 * Invariant: changes no row. Only the owner of a table may refresh its statistics.
 */
import { type Kysely, sql } from 'kysely'
import type { Warehouse } from '../../warehouse/tables.ts'

/** Returns false if values of deleted rows may remain; docs/security.md describes what to do. */
export async function refreshStatistics(db: Kysely<Warehouse>): Promise<boolean> {
  const { rows } = await sql<{ name: string; own: boolean }>`
    select format('%I.%I', nspname, relname) as name, pg_has_role(relowner, 'usage') as own
    from pg_class relation join pg_namespace schema on schema.oid = relnamespace
    where nspname in ('intake', 'intake_raw', 'intake_ops') and relkind in ('r', 'p') and not relispartition
      and exists (select from pg_stats where schemaname = nspname and starts_with(tablename, relname))
    order by 1`.execute(db)
  for (const { name } of rows.filter(({ own }) => own)) await sql`analyze ${sql.table(name)}`.execute(db)
  return rows.every(({ own }) => own) && (await clearEmptyTables(db))
}

/** `analyze` keeps the old statistics of a table without rows. Postgres 18 and later can clear them. */
async function clearEmptyTables(db: Kysely<Warehouse>): Promise<boolean> {
  const { rows: tables } = await sql<{
    schema: string
    table: string
    columns: string[]
    inherited: boolean
  }>`
    select schemaname as schema, tablename as table, inherited, array_agg(attname::text) as columns from pg_stats
    where schemaname in ('intake', 'intake_raw', 'intake_ops') group by 1, 2, 3 order by 1, 2, 3`.execute(db)
  const { rows } = await sql<{ canClear: boolean }>`
    select to_regproc('pg_clear_attribute_stats') is not null as "canClear"`.execute(db)
  let cleared = true
  for (const { schema, table, columns, inherited } of tables) {
    const { rows: first } = await sql`select from ${sql.table(`${schema}.${table}`)} limit 1`.execute(db)
    if (first.length > 0) continue
    if (rows[0]?.canClear !== true) cleared = false
    else
      await sql`
      select pg_clear_attribute_stats(${schema}, ${table}, column_name, ${inherited})
      from unnest(${columns}::text[]) as column_name`.execute(db)
  }
  return cleared
}
