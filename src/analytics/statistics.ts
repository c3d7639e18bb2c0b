/**
 * Statistics for the planner where there are none yet: a table that was just filled for the first time is looked at by
 * autovacuum only minutes later, and until then every query is planned as if it were nearly empty.
 *
 * Invariant: a table that has statistics is left to autovacuum.
 */
import { type Kysely, sql } from 'kysely'
import type { Warehouse } from '../warehouse/tables.ts'

/** Smaller ones are planned well enough without. */
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
