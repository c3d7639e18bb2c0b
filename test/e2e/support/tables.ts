/** The warehouse as text, to compare what two roads left in it, or whether one touched it. */
import { STREAMS } from '../../../src/streams/catalogue.ts'
import { query } from './scene.ts'

/** What depends on when and how a row came, not on what it says. */
const CIRCUMSTANCES = ['team_id', '_version', '_origin', '_loaded_at']

/** Rows of a team's live records by table, without `leaveOut`, in the order of their text. */
export async function liveRows(
  url: string,
  team = 'default',
  leaveOut: readonly string[] = [],
): Promise<Record<string, readonly string[]>> {
  const tables: Record<string, readonly string[]> = {}
  const columns = [...CIRCUMSTANCES, ...leaveOut]
  const own = `team_id = (select team_id from intake.teams where name = '${team}')`
  for (const stream of STREAMS) {
    const live = `where ${own} and _deleted_at is null`
    tables[stream.table] = await linesOf(url, `intake.${stream.table}`, columns, live)
    for (const { table } of stream.children)
      tables[table] = await linesOf(url, `intake.${table}`, columns, `where ${own}`)
  }
  const raw = ['version', 'observed_at', 'origin', ...columns]
  tables.records = await linesOf(url, 'intake_raw.records', raw, `where ${own} and not deleted`)
  return tables
}

/** The same without what a shape writes otherwise: payloads, hashes, what is set aside of a record. */
export async function mappedRows(
  url: string,
  team = 'default',
  leaveOut: readonly string[] = [],
): Promise<Record<string, readonly string[]>> {
  const { records: _, ...tables } = await liveRows(url, team, ['_hash', '_extra', '_problems', ...leaveOut])
  return tables
}

async function linesOf(
  url: string,
  table: string,
  columns: readonly string[],
  where: string,
): Promise<readonly string[]> {
  const rows = await query<{ line: string }>(
    url,
    `select (to_jsonb(t) - $1::text[])::text as line from ${table} t ${where} order by 1`,
    [columns],
  )
  return rows.map(({ line }) => line)
}

/** Place and writer of every row version that a repeated backfill must leave alone. */
export async function rowVersions(url: string): Promise<readonly string[]> {
  const tables = await query<{ name: string }>(
    url,
    `select format('%I.%I', schemaname, tablename) as name from pg_tables
     where schemaname = 'intake' and tablename <> 'teams'
        or schemaname = 'intake_raw' and tablename in ('records', 'record_history')
     order by 1`,
  )
  const text = tables
    .map(({ name }) => `select '${name} ' || ctid || ' ' || xmin as version from ${name}`)
    .join(' union all ')
  return (await query<{ version: string }>(url, `${text} order by 1`)).map(({ version }) => version)
}
