/** The warehouse as text, to compare two ways of loading, or to prove that nothing was touched. */
import { STREAMS } from '../../../src/streams/catalogue.ts'
import { query } from './scene.ts'

/** Columns that depend on when and how a row was loaded, not on its content. */
const CIRCUMSTANCES = ['team_id', '_version', '_origin', '_loaded_at']

/** Rows of a team's live records by table, without `leaveOut`, in the order of their text. */
export async function liveRows(
  url: string,
  team = 'default',
  leaveOut: readonly string[] = [],
): Promise<Record<string, readonly string[]>> {
  const columns = [...CIRCUMSTANCES, ...leaveOut]
  const raw = ['version', 'observed_at', 'origin', 'change_seq', 'changed_at', ...columns]
  const names = [
    ...STREAMS.flatMap(({ table, children }) => [table, ...children.map((child) => child.table)]),
  ]
  const roots = new Set(STREAMS.map(({ table }) => table))
  const parts = names.map((name) => {
    const live = roots.has(name) ? 'and _deleted_at is null' : ''
    return `select '${name}' as name, (to_jsonb(t) - $1::text[])::text as line from intake.${name} t, own where t.team_id = own.id ${live}`
  })
  parts.push(
    `select 'records', (to_jsonb(t) - $2::text[])::text from intake_raw.records t, own where t.team_id = own.id and not deleted`,
  )
  const text = `with own as materialized (select team_id as id from intake.teams where name = $3) ${parts.join(' union all ')} order by 1, 2`
  const tables: Record<string, string[]> = Object.fromEntries([...names, 'records'].map((name) => [name, []]))
  const rows = await query<{ name: string; line: string }>(url, text, [columns, raw, team])
  for (const { name, line } of rows) tables[name]!.push(line)
  return tables
}

/** The same without what differs between shapes: payloads, hashes, dead letters of records. */
export async function mappedRows(
  url: string,
  team = 'default',
  leaveOut: readonly string[] = [],
): Promise<Record<string, readonly string[]>> {
  const { records: _, ...tables } = await liveRows(url, team, ['_hash', '_extra', '_problems', ...leaveOut])
  return tables
}

/** Tables of `intake` that a fresh load does not reproduce, and why: they contain changes that no list reports. */
const NOT_LOADED = {
  teams: 'numbers are given to teams in the order in which they are named',
  question_concepts: 'what was decided of a question; one that was reworded since waits for another decision',
}

/**
 * Every other table of `intake` and the records behind them, for one team, as a fresh load would leave them: live rows,
 * without times, origins and generated numbers.
 */
export async function everyTable(url: string, team: string): Promise<Record<string, readonly string[]>> {
  const names = await query<{ name: string; root: boolean }>(
    url,
    `select table_name as name, bool_or(column_name = '_deleted_at') as root from information_schema.columns
     where table_schema = 'intake' and table_name in (select tablename from pg_tables) and table_name <> all ($1) group by 1`,
    [Object.keys(NOT_LOADED)],
  )
  const parts = names.map(({ name, root }) => {
    const live = root ? 'and _deleted_at is null' : ''
    return `select '${name}' as name, (to_jsonb(t) - $1::text[])::text as line from intake.${name} t, own where t.team_id = own.id ${live}`
  })
  parts.push(
    `select 'records', (to_jsonb(t) - $1::text[])::text from intake_raw.records t, own where t.team_id = own.id and not deleted`,
  )
  const text = `with own as materialized (select team_id as id from intake.teams where name = $2) ${parts.join(' union all ')} order by 1, 2`
  const volatile = [...CIRCUMSTANCES, 'version', 'observed_at', 'origin', 'change_seq', 'changed_at']
  const tables: Record<string, string[]> = Object.fromEntries(names.map(({ name }) => [name, []]))
  for (const { name, line } of await query<{ name: string; line: string }>(url, text, [volatile, team])) {
    tables[name] ??= []
    tables[name].push(line)
  }
  return tables
}

/** Place and writer of every row version that a repeated backfill must not change. */
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
