/**
 * Deletes every row of a team from every table that has a column `team_id`. Rows that reference them are deleted by
 * cascade.
 *
 * Invariant: tables come from the catalogue, so that none is missed. Each range of pages is read once and committed
 * separately, so that the cost is linear in the size of the table. An interrupted deletion starts again from the first
 * table. It ends after a pass over all tables that deletes nothing.
 */
import { type Kysely, sql } from 'kysely'
import { TID_SCANS_IN_TRANSACTION } from '../warehouse/connect.ts'
import { SQLSTATE, sqlstateOf } from '../warehouse/sqlstate.ts'
import type { Warehouse } from '../warehouse/tables.ts'

/** Pages of one range: 4 MB. */
const PAGES = 512

/** The tables of teams themselves; the caller deletes from them. */
const EXCLUDED = ['intake.teams', 'intake_ops.removed_teams']

/** Retries a statement while another session holds a lock that it needs. */
export type WithRetries = <Result>(work: () => Promise<Result>) => Promise<Result>

export interface Deleted {
  readonly rows: number
  readonly tables: readonly string[]
}

export async function deleteRows(
  db: Kysely<Warehouse>,
  teamId: number,
  withRetries: WithRetries,
  signal: AbortSignal,
): Promise<Deleted> {
  let rows = 0
  const tables = new Set<string>()
  for (let found = -1; found !== 0; ) {
    found = 0
    for (const { name, of } of await tablesWithTeam(db)) {
      const deleted = await deleteFrom(db, name, teamId, withRetries, signal)
      if (deleted > 0) tables.add(of)
      found += deleted
    }
    rows += found
  }
  return { rows, tables: [...tables].sort() }
}

interface Table {
  readonly name: string
  /** The parent of a partition; else the table itself. */
  readonly of: string
}

/** Returns partitions instead of their parents; the tables of analysts come first. */
async function tablesWithTeam(db: Kysely<Warehouse>): Promise<readonly Table[]> {
  const { rows } = await sql<Table>`
    select format('%I.%I', schema.nspname, own.relname) as name,
      format('%I.%I', whole_schema.nspname, whole.relname) as of
    from pg_class own
    join pg_namespace schema on schema.oid = own.relnamespace
    left join pg_inherits parent on parent.inhrelid = own.oid
    join pg_class whole on whole.oid = coalesce(parent.inhparent, own.oid)
    join pg_namespace whole_schema on whole_schema.oid = whole.relnamespace
    where schema.nspname ~ '^intake' and own.relkind = 'r' and exists (
      select from pg_attribute where attrelid = own.oid and attname = 'team_id' and not attisdropped
    )
    order by schema.nspname <> 'intake', schema.nspname, own.relname`.execute(db)
  return rows.filter(({ name }) => !EXCLUDED.includes(name))
}

async function deleteFrom(
  db: Kysely<Warehouse>,
  name: string,
  teamId: number,
  withRetries: WithRetries,
  signal: AbortSignal,
): Promise<number> {
  const table = sql.table(name)
  let deleted = 0
  try {
    const { rows: any } = await withRetries(() =>
      sql`select from ${table} where team_id = ${teamId} limit 1`.execute(db),
    )
    if (any.length === 0) return 0
    const { rows } = await sql<{ pages: number }>`
      select (pg_relation_size(${name}::regclass) / current_setting('block_size')::int)::int as pages`.execute(
      db,
    )
    for (let from = 0; from < rows[0]!.pages; from += PAGES) {
      signal.throwIfAborted()
      deleted += await withRetries(() => deletePages(db, name, teamId, from))
    }
  } catch (error) {
    // Housekeeping has dropped this partition of the inbox.
    if (sqlstateOf(error) !== SQLSTATE.undefinedTable) throw error
  }
  return deleted
}

async function deletePages(
  db: Kysely<Warehouse>,
  name: string,
  teamId: number,
  from: number,
): Promise<number> {
  return await db.transaction().execute(async (transaction) => {
    await sql.raw(TID_SCANS_IN_TRANSACTION).execute(transaction)
    const { numAffectedRows } = await sql`
      delete from ${sql.table(name)}
      where ctid >= ${`(${from},0)`}::tid and ctid < ${`(${from + PAGES},0)`}::tid and team_id = ${teamId}`.execute(
      transaction,
    )
    return Number(numAffectedRows ?? 0n)
  })
}
