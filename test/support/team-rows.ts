/**
 * All rows of one team, in every table and view of the warehouse, to prove that nothing changed.
 *
 * Invariant: tables with a column team_id are found in the catalogue, so that new tables are included. For tables, the
 * transaction that wrote each row is included too, so that a row that was rewritten with the same content shows.
 */
import { query } from '../e2e/support/scene.ts'
import { readPrepared } from './sessions.ts'

export type TeamRows = ReadonlyMap<string, readonly string[]>

export interface Relation {
  readonly name: string
  readonly is_view: boolean
}

/** Tables that contain rows of a team under another key than team_id. */
const BY_ANOTHER_KEY: Readonly<Record<string, string>> = {
  'intake_raw.set_aside': `t.dead_letter_id in (select id from intake_ops.dead_letters where team_id = $1)`,
  'intake_ops.runs': `exists (select from intake_ops.run_streams part where part.run_id = t.run_id and part.team_id = $1)
    and not exists (select from intake_ops.run_streams part where part.run_id = t.run_id and part.team_id <> $1)`,
}

/** A row of a table, and the transaction that wrote it. */
const OF_TABLE = `t.xmin::text || ' ' || t::text`

/** Tables that belong to no team. */
export async function tablesOfNoTeam(url: string): Promise<readonly string[]> {
  const rows = await relations(url, false)
  return rows.map(({ name }) => name).filter((name) => !(name in BY_ANOTHER_KEY))
}

/**
 * Everything on one snapshot, or only what `wanted` returns true for. Planning takes longer than reading, so that each
 * statement is planned once.
 */
export async function rowsOfTeam(
  url: string,
  teamId: number,
  wanted: (relation: Relation) => boolean = () => true,
): Promise<TeamRows> {
  const found = (await relations(url, true)).filter(wanted)
  const parts = found.map(({ name, is_view }) => {
    // An interval since some time grows on its own.
    const line = is_view ? `(to_jsonb(t) - 'lag')::text` : OF_TABLE
    return { name, text: `select ${line} from ${name} t where team_id = $1` }
  })
  for (const [name, condition] of Object.entries(BY_ANOTHER_KEY)) {
    parts.push({ name, text: `select ${OF_TABLE} from ${name} t where ${condition}` })
  }
  const texts = parts.map(
    ({ text }) => `select line from (${text}) as every (line) order by line collate "C"`,
  )
  const results = await readPrepared<{ line: string }>(url, texts, teamId)
  return new Map(parts.map(({ name }, at) => [name, results[at]!.map(({ line }) => line)]))
}

/** What `action` finds in a warehouse that never had the team. */
export async function withoutTeam<Result>(
  url: string,
  teamId: number,
  action: () => Promise<Result>,
): Promise<Result> {
  const tables = (await relations(url, true)).filter(({ is_view }) => !is_view)
  // Found through rows of other tables, so put aside before them.
  const conditions = [
    ...Object.entries(BY_ANOTHER_KEY),
    ...tables.map(({ name }) => [name, 'team_id = $1'] as const),
  ]
  return await withoutRows(
    url,
    conditions.map(([name, condition]) => [name, condition.replaceAll('$1', String(teamId))]),
    action,
  )
}

/** Puts rows aside, by table and condition, and back again as they were when `action` has ended. */
export async function withoutRows<Result>(
  url: string,
  conditions: readonly (readonly [name: string, condition: string])[],
  action: () => Promise<Result>,
): Promise<Result> {
  const rows = await query<{ name: string; columns: string }>(
    url,
    `select format('%I.%I', n.nspname, c.relname) as name, string_agg(quote_ident(a.attname), ', ' order by a.attnum) as columns
     from pg_attribute a join pg_class c on c.oid = a.attrelid join pg_namespace n on n.oid = c.relnamespace
     where n.nspname ~ '^intake' and a.attnum > 0 and not a.attisdropped and a.attgenerated = '' group by 1`,
  )
  const columns = new Map(rows.map((row) => [row.name, row.columns]))
  const aside = (name: string) => `aside.${name.replaceAll(/\W+/g, '_')}`
  await change(url, [
    'create schema aside',
    ...conditions.flatMap(([name, condition]) => [
      `create table ${aside(name)} as select ${columns.get(name)} from ${name} t where ${condition}`,
      `delete from ${name} t where ${condition}`,
    ]),
  ])
  try {
    return await action()
  } finally {
    await change(url, [
      ...conditions.map(
        ([name]) =>
          `insert into ${name} (${columns.get(name)}) overriding system value select * from ${aside(name)}`,
      ),
      'drop schema aside cascade',
    ])
  }
}

/** In one transaction, without triggers and references. */
async function change(url: string, texts: readonly string[]): Promise<void> {
  await query(
    url,
    `do $aside$ begin set local session_replication_role = replica; ${texts.join('; ')}; end $aside$`,
  )
}

/** Rows that only one of them has, as `- table row` and `+ table row`. */
export function changesBetween(before: TeamRows, after: TeamRows): readonly string[] {
  const names = [...new Set([...before.keys(), ...after.keys()])].sort()
  return names.flatMap((name) => {
    const [old, now] = [before.get(name) ?? [], after.get(name) ?? []]
    return [
      ...without(old, now).map((line) => `- ${name} ${line}`),
      ...without(now, old).map((line) => `+ ${name} ${line}`),
    ]
  })
}

/** A row that is twice in `lines` and once in `others` is left once. */
function without(lines: readonly string[], others: readonly string[]): readonly string[] {
  const counts = new Map<string, number>()
  for (const line of others) counts.set(line, (counts.get(line) ?? 0) + 1)
  return lines.filter((line) => {
    const left = counts.get(line) ?? 0
    counts.set(line, left - 1)
    return left <= 0
  })
}

/**
 * Tables, and views too where they have a team. Without the change feeds: which rows they show depends on every open
 * transaction of the server. The tables behind them are there.
 */
export async function relations(url: string, withTeam: boolean): Promise<readonly Relation[]> {
  return await query(
    url,
    `select format('%I.%I', n.nspname, c.relname) as name, c.relkind in ('v', 'm') as is_view
     from pg_class c join pg_namespace n on n.oid = c.relnamespace
     where n.nspname ~ '^intake' and not c.relispartition and c.relkind = any ($2::"char"[]) and c.relname <> 'changes'
       and $1 = exists (
         select from pg_attribute a where a.attrelid = c.oid and a.attname = 'team_id' and not a.attisdropped
       )
     order by 1`,
    [withTeam, withTeam ? ['r', 'p', 'v', 'm'] : ['r', 'p']],
  )
}
