/** Every row of every table as text, to search for data that must no longer be in the warehouse. */
import { query } from '../e2e/support/scene.ts'

/** Tables whose rows contain one of `texts`, in a text, in JSON or in bytes; each with the number of these rows. */
export async function tablesHolding(
  url: string,
  texts: readonly string[],
): Promise<Readonly<Record<string, number>>> {
  const tables = await query<{ name: string }>(
    url,
    `select format('%I.%I', schemaname, tablename) as name from pg_tables
     where schemaname !~ '^pg_' and schemaname not in ('information_schema', 'intake_partitions') order by 1`,
  )
  // A row's text shows bytes as hexadecimal digits.
  const patterns = texts.flatMap((text) => [`%${text}%`, `%${Buffer.from(text).toString('hex')}%`])
  const parts = tables.map(
    ({ name }) =>
      `select '${name}' as name, count(*)::int as count from ${name} t where t::text ilike any ($1)`,
  )
  const rows = await query<{ name: string; count: number }>(url, parts.join(' union all '), [patterns])
  return Object.fromEntries(rows.filter(({ count }) => count > 0).map(({ name, count }) => [name, count]))
}
