/**
 * Brings the analytics schemas up to date after a run: recreates views whose files changed, records new questions,
 * recreates wide views whose forms changed, and analyzes new tables.
 *
 * Invariant: a failure here does not fail a run that loaded everything: it is reported, and the next run tries again.
 */
import { type Kysely, sql } from 'kysely'
import { ensureRoles, isAhead } from '../warehouse/migrations.ts'
import { SQLSTATE, sqlstateOf } from '../warehouse/sqlstate.ts'
import type { Warehouse } from '../warehouse/tables.ts'
import { noteQuestions } from './classify.ts'
import { isInUse, syncViews } from './views.ts'
import { refreshWideViews } from './wide/wide-views.ts'

/** Null, or why the views are not as new as the tables. */
export async function refreshAnalytics(db: Kysely<Warehouse>): Promise<string | null> {
  try {
    await sql`select intake_raw.restart_changes()`.execute(db)
    await noteQuestions(db)
    // The views of a newer version stay: this process may still run while that one is installed.
    if (!(await isAhead(db)) && (await syncViews(db)).length > 0) await ensureRoles(db)
    await refreshWideViews(db)
    await analyzeNew(db)
    return null
  } catch (error) {
    if (isInUse(error)) return `the views are not up to date: ${error.message}; ${error.hint}`
    const state = sqlstateOf(error)
    if (state === undefined) throw error
    return state === SQLSTATE.insufficientPrivilege
      ? 'the wide views are not up to date: only who owns the schemas may make them; run intake-sync migrate as the owner'
      : `the wide views are not up to date (${isOfPostgres(state) ? `SQLSTATE ${state}` : state}); the next run tries again`
  }
}

/** False for a code of Node, such as EPIPE. */
function isOfPostgres(code: string): boolean {
  return /^(?=.*\d)[\dA-Z]{5}$/.test(code)
}

/** Smaller tables need no statistics. */
const LARGE_BYTES = 1_000_000

/**
 * Planner statistics for tables that have none: autovacuum analyzes a newly filled table only minutes later, and until
 * then every query is planned as if the table were nearly empty. A table that has statistics is left to autovacuum; but of
 * those that sql/partitions.sql divided, it only analyzes the partitions, so these tables are analyzed as they grow.
 */
async function analyzeNew(db: Kysely<Warehouse>): Promise<void> {
  const { rows } = await sql<{ name: string }>`
    select n.nspname || '.' || c.relname as name
    from pg_class c join pg_namespace n on n.oid = c.relnamespace
    left join lateral (
      select sum(pg_relation_size(part.oid)) as bytes, sum(part.reltuples) as rows
      from pg_partitioned_table join pg_inherits on inhparent = partrelid join pg_class part on part.oid = inhrelid
      where partrelid = c.oid and partstrat = 'h'
    ) divided on c.relkind = 'p'
    where n.nspname in ('intake', 'intake_raw') and c.relkind in ('r', 'p') and pg_has_role(c.relowner, 'usage')
      and (c.reltuples < 0 or divided.rows > 1.2 * c.reltuples)
      and coalesce(divided.bytes, pg_relation_size(c.oid)) > ${sql.lit(LARGE_BYTES)}
    order by 1`.execute(db)
  if (rows.length > 0) await sql`analyze ${sql.join(rows.map(({ name }) => sql.table(name)))}`.execute(db)
}
