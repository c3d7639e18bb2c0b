/** Everything that is loaded, as text: for "as it was before". */
import { query } from '../e2e/support/scene.ts'

/** Every row of `intake` and of the records behind it, by table, but for the moment it was written. */
export async function wholeWarehouse(url: string): Promise<Record<string, readonly string[]>> {
  const tables = await query<{ name: string }>(
    url,
    `select format('%I.%I', table_schema, table_name) as name from information_schema.tables
     where table_schema = 'intake' and table_type = 'BASE TABLE' or (table_schema, table_name) in (('intake_raw', 'records'), ('intake_raw', 'export_files'))
     order by 1`,
  )
  const text = tables.map(
    ({ name }) => `select '${name}' as name, (to_jsonb(t) - '_loaded_at')::text as line from ${name} t`,
  )
  const rows = await query<{ name: string; line: string }>(url, `${text.join(' union all ')} order by 1, 2`)
  const held: Record<string, string[]> = Object.fromEntries(tables.map(({ name }) => [name, []]))
  for (const { name, line } of rows) held[name]!.push(line)
  return held
}

/** Empties the tables of `intake`, those of the teams aside. */
export async function emptyIntake(url: string): Promise<void> {
  const tables = await query<{ name: string }>(
    url,
    `select format('%I.%I', schemaname, tablename) as name from pg_tables
     where schemaname = 'intake' and tablename <> 'teams'`,
  )
  await query(url, tables.map(({ name }) => `delete from ${name}`).join('; '))
}
