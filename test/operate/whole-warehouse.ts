/** All loaded rows as text, to compare with an earlier state. */
import { query } from '../e2e/support/scene.ts'

/** Every row of `intake` and of the records behind it, by table, without the time of writing. */
export async function wholeWarehouse(url: string): Promise<Record<string, readonly string[]>> {
  const tables = await query<{ name: string }>(
    url,
    `select format('%I.%I', table_schema, table_name) as name from information_schema.tables
     where table_schema = 'intake' and table_type = 'BASE TABLE' or (table_schema, table_name) in (('intake_raw', 'records'), ('intake_raw', 'export_files'))
     order by 1`,
  )
  const text = tables.map(
    ({ name }) =>
      `select '${name}' as name, (to_jsonb(t) - '_loaded_at' - 'change_seq' - 'changed_at')::text as line from ${name} t`,
  )
  const rows = await query<{ name: string; line: string }>(url, `${text.join(' union all ')} order by 1, 2`)
  const lines: Record<string, string[]> = Object.fromEntries(tables.map(({ name }) => [name, []]))
  for (const { name, line } of rows) lines[name]!.push(line)
  return lines
}

/** Empties the tables of `intake`, except teams. */
export async function emptyIntake(url: string): Promise<void> {
  const tables = await query<{ name: string }>(
    url,
    `select format('%I.%I', schemaname, tablename) as name from pg_tables
     where schemaname = 'intake' and tablename <> 'teams'`,
  )
  await query(url, tables.map(({ name }) => `delete from ${name}`).join('; '))
}
