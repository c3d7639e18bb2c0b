/**
 * Refreshes planner statistics, which contain common values and histogram bounds of columns, and so values of deleted
 * rows.
 *
 * Invariant: changes no row. Only the owner of a table may refresh its statistics.
 */
import { type Kysely, sql } from 'kysely'
import { ALL_STREAMS, FILES, PERSONS } from '../../streams/catalogue.ts'
import { namingColumns } from '../../streams/subjects.ts'
import type { Warehouse } from '../../warehouse/tables.ts'

/** Returns false if values of deleted rows may remain; docs/security.md describes what to do. */
export async function refreshStatistics(db: Kysely<Warehouse>): Promise<boolean> {
  const { rows } = await sql<{ name: string; own: boolean }>`
    select format('%I.%I', nspname, relname) as name, pg_has_role(relowner, 'usage') as own
    from pg_class relation join pg_namespace schema on schema.oid = relnamespace
    where nspname in ('intake', 'intake_raw', 'intake_ops') and relkind in ('r', 'p') and not relispartition
      and exists (
        select from pg_stats where schemaname in (nspname, 'intake_partitions') and starts_with(tablename, relname)
      )
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
    where schemaname in ('intake', 'intake_raw', 'intake_ops', 'intake_partitions') group by 1, 2, 3 order by 1, 2, 3`.execute(
    db,
  )
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

/*
 * Rewrites tables, because deleted rows stay in their files, readable to whoever has the files, until their place is used
 * again; `vacuum` alone only permits that.
 *
 * Invariant: changes no row. A table is locked, also against reading, while it is rewritten. Only its owner may rewrite it.
 */

export interface Rewritten {
  readonly tables: readonly string[]
  /** Tables that are not rewritten, because the login does not own them. */
  readonly notOwned: readonly string[]
  /** The sessions for which deleted rows were kept. */
  readonly keepers: readonly string[]
  /** False if some are not rewritten, or contain deleted rows still because another session may read them. */
  readonly isComplete: boolean
}

/** Tables that may contain deleted rows of patients: all but those of streams that name no patient. Sizes in bytes. */
export async function tablesToRewrite(
  db: Kysely<Warehouse>,
): Promise<readonly { readonly name: string; readonly bytes: number; readonly own: boolean }[]> {
  const impersonal = ALL_STREAMS.filter((stream) => {
    const { root, children } = namingColumns(stream)
    return stream !== PERSONS && stream !== FILES && root.length + children.flat().length === 0
  }).flatMap(({ table, children }) => [table, ...children.map((child) => child.table)])
  const { rows } = await sql<{ name: string; bytes: number; own: boolean }>`
    select format('%I.%I', nspname, relname) as name,
      -- The tree of a table without partitions is empty.
      coalesce((select sum(pg_total_relation_size(relid)) from pg_partition_tree(relation.oid)),
        pg_total_relation_size(relation.oid))::float8 as bytes,
      pg_has_role(relowner, 'usage')
        or (select pg_has_role(datdba, 'usage') from pg_database where datname = current_database()) as own
    from pg_class relation join pg_namespace schema on schema.oid = relnamespace
    where relkind in ('r', 'p') and not relispartition and relpersistence <> 't'
      and (nspname in ('intake_raw', 'intake_ops')
        or nspname = 'intake' and relname <> all(${[...impersonal, 'teams']}::text[])
        or relation.oid = 'pg_statistic'::regclass)
    order by 1`.execute(db)
  return rows
}

export async function rewrite(db: Kysely<Warehouse>, name: string): Promise<void> {
  await sql`vacuum full ${sql.table(name)}`.execute(db)
}

/**
 * Those for which rewriting would keep rows that were deleted before `transaction`: none, once they all ended.
 *
 * A transaction that wrote counts in every database of the server, not only in this one: each snapshot that is taken while
 * it runs, also that of `vacuum full` itself, begins with it. A transaction that only reads counts in its own database.
 */
export async function keepersOf(db: Kysely<Warehouse>, transaction: string): Promise<readonly string[]> {
  const deleted = sql`age(${transaction}::text::xid)`
  const { rows } = await sql<{ keeper: string }>`
    select concat('session ', pid, ' of database ' || datname) as keeper from pg_stat_activity
    where pid <> pg_backend_pid() and (age(backend_xid) >= ${deleted}
      or age(backend_xmin) >= ${deleted} and (datname is null or datname = current_database()))
    union all
    select 'a prepared transaction of database ' || database from pg_prepared_xacts where age(transaction) >= ${deleted}
    union all
    select 'the replication slot ' || slot_name from pg_replication_slots
    where (age(xmin) >= ${deleted} or age(catalog_xmin) >= ${deleted})
      and (database is null or database = current_database())
    order by 1`.execute(db)
  return rows.map(({ keeper }) => keeper)
}
