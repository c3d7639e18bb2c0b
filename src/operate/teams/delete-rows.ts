/**
 * Deletes every row of a team, in whatever table of the warehouse has a column `team_id`; what hangs on such a row goes
 * with it (on delete cascade).
 *
 * Invariant: tables are found in the catalogue, so that none is forgotten. A part of a table at a time, each committed by
 * itself and each part read once, so that the cost grows with the table and not with its square; interrupted, it is
 * done again from the start. It ends when a whole pass over all tables found nothing.
 */
import { type Kysely, sql } from 'kysely'
import { SQLSTATE, sqlstateOf } from '../../warehouse/sqlstate.ts'
import type { Warehouse } from '../../warehouse/tables.ts'

/** Pages of a table whose rows are deleted at once: 4 MB. */
const PAGES = 512

/** The two that say which teams there are, and were. */
const LAST = ['intake.teams', 'intake_ops.removed_teams']

/** Runs a statement again for as long as another session may be in its way. */
export type Patiently = <Result>(work: () => Promise<Result>) => Promise<Result>

export interface Deleted {
  readonly rows: number
  readonly tables: readonly string[]
}

export async function deleteRows(
  db: Kysely<Warehouse>,
  teamId: number,
  patiently: Patiently,
  signal: AbortSignal,
): Promise<Deleted> {
  let rows = 0
  const tables = new Set<string>()
  for (let found = -1; found !== 0; ) {
    found = 0
    for (const { name, of } of await tablesWithTeam(db)) {
      const deleted = await deleteFrom(db, name, teamId, patiently, signal)
      if (deleted > 0) tables.add(of)
      found += deleted
    }
    rows += found
  }
  return { rows, tables: [...tables].sort() }
}

interface Table {
  readonly name: string
  /** Itself, or the table that it is a partition of. */
  readonly of: string
}

/** Partitions one by one; first what analysts see. */
async function tablesWithTeam(db: Kysely<Warehouse>): Promise<readonly Table[]> {
  const { rows } = await sql<Table>`
    select format('%I.%I', schema.nspname, own.relname) as name,
      coalesce(parent.inhparent, own.oid)::regclass::text as of
    from pg_class own
    join pg_namespace schema on schema.oid = own.relnamespace
    left join pg_inherits parent on parent.inhrelid = own.oid
    where schema.nspname ~ '^intake' and own.relkind = 'r' and exists (
      select from pg_attribute where attrelid = own.oid and attname = 'team_id' and not attisdropped
    )
    order by schema.nspname <> 'intake', schema.nspname, own.relname`.execute(db)
  return rows.filter(({ name }) => !LAST.includes(name))
}

async function deleteFrom(
  db: Kysely<Warehouse>,
  name: string,
  teamId: number,
  patiently: Patiently,
  signal: AbortSignal,
): Promise<number> {
  const table = sql.table(name)
  let deleted = 0
  try {
    const { rows: any } = await patiently(() =>
      sql`select from ${table} where team_id = ${teamId} limit 1`.execute(db),
    )
    if (any.length === 0) return 0
    const { rows } = await sql<{ pages: number }>`
      select (pg_relation_size(${name}::regclass) / current_setting('block_size')::int)::int as pages`.execute(
      db,
    )
    for (let from = 0; from < rows[0]!.pages; from += PAGES) {
      signal.throwIfAborted()
      deleted += await patiently(() => deletePages(db, name, teamId, from))
    }
  } catch (error) {
    // A day of the inbox that grew old meanwhile.
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
    // The range of pages is the way in: through an index each part would look at all that is left.
    await sql`select set_config(setting, 'off', true)
      from unnest(array['enable_indexscan', 'enable_bitmapscan', 'enable_seqscan']) as setting`.execute(
      transaction,
    )
    const { numAffectedRows } = await sql`
      delete from ${sql.table(name)}
      where ctid >= ${`(${from},0)`}::tid and ctid < ${`(${from + PAGES},0)`}::tid and team_id = ${teamId}`.execute(
      transaction,
    )
    return Number(numAffectedRows ?? 0n)
  })
}
