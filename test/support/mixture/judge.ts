/** Compares a warehouse with a mixture: every row of every table of every team, and the state of each event. */
import { createHash } from 'node:crypto'
import type { Mixture } from './mixture.ts'
import { MIXED_STREAMS, type Row } from './records.ts'

export type Query = <Found extends object>(
  text: string,
  values?: readonly unknown[],
) => Promise<readonly Found[]>

type Lines = Readonly<Record<string, readonly string[]>>

/** The differences, one line each; empty if there are none. Contains ids, and no values. */
export async function faultsOf(query: Query, mixture: Mixture): Promise<readonly string[]> {
  const faults = [...(await inboxFaults(query, mixture))]
  for (const team of mixture.teams) {
    const expected = expectedOf(mixture, team)
    const actual = await storedLines(query, team)
    for (const table of new Set([...Object.keys(expected), ...Object.keys(actual)])) {
      const [wanted, found] = [new Set(expected[table]), new Set(actual[table])]
      const missing = [...wanted].filter((line) => !found.has(line))
      const extra = [...found].filter((line) => !wanted.has(line))
      const which = [...missing, ...extra][0]
      if (which !== undefined || (actual[table]?.length ?? 0) !== (expected[table]?.length ?? 0))
        faults.push(
          `${table} of ${team}: ${missing.length} rows missing, ${extra.length} too many: ${idIn(which)}`,
        )
    }
  }
  return faults
}

/** Every row of every table of a team, by table; of a deleted record only the id. */
export function expectedOf({ records }: Mixture, team: string): Lines {
  const tables: Record<string, string[]> = {}
  const put = (table: string, row: Row) => {
    tables[table] ??= []
    tables[table].push(lineOf(row))
  }
  for (const stream of MIXED_STREAMS) {
    for (const [id, state] of records.get(team)![stream]) {
      put('records', { stream, id, payload: state?.payload ?? null })
      if (state === null) put(stream, { id })
      else for (const [table, rows] of Object.entries(state.rows)) for (const row of rows) put(table, row)
    }
  }
  return tables
}

async function storedLines(query: Query, team: string): Promise<Lines> {
  const names = await query<{ name: string; root: boolean }>(
    `select table_name as name, bool_or(column_name = '_deleted_at') as root from information_schema.columns
     where table_schema = 'intake' and table_name in (select tablename from pg_tables) and table_name <> 'teams' group by 1`,
  )
  const parts = names.map(({ name, root }) => {
    const row = root
      ? "case when _deleted_at is null then to_jsonb(t) else jsonb_build_object('id', t.id) end"
      : 'to_jsonb(t)'
    return `select '${name}' as name, ${row} as row from intake.${name} t, own where t.team_id = own.id`
  })
  parts.push(
    `select 'records', jsonb_build_object('stream', stream, 'id', t.id, 'payload', payload) from intake_raw.records t, own
     where t.team_id = own.id`,
  )
  const tables: Record<string, string[]> = {}
  const own = 'with own as materialized (select team_id as id from intake.teams where name = $1)'
  for (const { name, row } of await query<{ name: string; row: Row }>(`${own} ${parts.join(' union all ')}`, [
    team,
  ])) {
    tables[name] ??= []
    tables[name].push(lineOf(row))
  }
  return tables
}

/** With sorted keys at every depth, and without the metadata of loading. */
function lineOf(row: Row): string {
  const fields = Object.entries(row).filter(([column]) => column !== 'team_id' && !column.startsWith('_'))
  return JSON.stringify(Object.fromEntries(fields), (_, value: unknown) =>
    typeof value === 'object' && value !== null && !Array.isArray(value)
      ? Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)))
      : value,
  )
}

function idIn(line: string | undefined): string {
  if (line === undefined) return 'one is there twice'
  const row = JSON.parse(line) as Row
  const key = Object.keys(row).find((name) => name === 'id' || name.endsWith('_id')) ?? 'id'
  return String(row.id ?? row[key])
}

/** Every event is in the inbox once, with its exact bytes, and done; events that give no record are dead letters. */
async function inboxFaults(query: Query, { deliveries, lost }: Mixture): Promise<readonly string[]> {
  const keyOf = (team: string, eventId: string, hash: string) => `${team} ${eventId} ${hash}`
  const sent = new Set(
    deliveries.map(({ team, eventId, body }) =>
      keyOf(team, eventId, createHash('sha256').update(body).digest('hex')),
    ),
  )
  const stored = await query<{
    team: string
    event_id: string
    hash: string
    status: string
    attempts: number
  }>(
    `select name as team, event_id, encode(sha256(body), 'hex') as hash, status, attempts
     from intake_raw.inbox join intake.teams using (team_id)`,
  )
  const faults: string[] = []
  const say = (count: number, what: string) => {
    if (count > 0) faults.push(`${count} events ${what}`)
  }
  const actual = new Set(stored.map(({ team, event_id, hash }) => keyOf(team, event_id, hash)))
  say([...sent].filter((key) => !actual.has(key)).length, 'are not in the inbox')
  say([...actual].filter((key) => !sent.has(key)).length, 'in the inbox were not sent')
  say(stored.length - actual.size, 'are stored twice')
  say(stored.filter(({ status }) => status === 'pending').length, 'are pending')
  say(stored.filter(({ attempts }) => attempts > 0).length, 'were tried again alone')
  for (const [team, count] of lost) {
    const dead = stored.filter((row) => row.team === team && row.status === 'dead').length
    if (dead !== count) faults.push(`${dead} events of ${team} are dead, not ${count}`)
  }
  const deadLetters = await query<{ team: string; count: number }>(
    'select name as team, count(*)::int from intake_ops.dead_letters join intake.teams using (team_id) group by 1',
  )
  for (const [team, count] of lost) {
    const found = deadLetters.find((row) => row.team === team)?.count ?? 0
    if (found !== count) faults.push(`${found} dead letters of ${team}, not ${count}`)
  }
  const asked = await query<{ count: number }>('select count(*)::int from intake_ops.refetches')
  if (asked[0]!.count > 0) faults.push(`${asked[0]!.count} records are still to be fetched`)
  return faults
}
