/**
 * Planner statistics for tables that have none: autovacuum analyzes a newly filled table only minutes later, and until
 * then every query is planned as if the table were nearly empty.
 *
 * Invariant: a table that has statistics is left to autovacuum.
 */
import { type Kysely, sql } from 'kysely'
import type { Warehouse } from '../warehouse/tables.ts'

/** Smaller tables need no statistics. */
const LARGE_BYTES = 1_000_000

export async function analyzeNew(db: Kysely<Warehouse>): Promise<void> {
  const { rows } = await sql<{ name: string }>`
    select n.nspname || '.' || c.relname as name
    from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where n.nspname in ('intake', 'intake_raw') and c.relkind = 'r' and c.reltuples < 0
      and pg_relation_size(c.oid) > ${sql.lit(LARGE_BYTES)} and pg_has_role(c.relowner, 'usage')
    order by 1`.execute(db)
  if (rows.length > 0) await sql`analyze ${sql.join(rows.map(({ name }) => sql.table(name)))}`.execute(db)
}
