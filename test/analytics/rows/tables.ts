/**
 * Small tables as text, for rows that a test stores and rows that it expects: columns between blanks, `-` for null, `''` for an
 * empty text, `~` for a blank in a text.
 */
import { createHmac } from 'node:crypto'

/** A statement of the owner of the warehouse. */
export type Run = (text: string, values?: unknown[]) => Promise<unknown>

const KEY = 'the key of these rows'

type Row = Readonly<Record<string, unknown>>

const wordsOf = (text: string) =>
  text
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '' && !line.startsWith('-- '))
    .map((line) => line.split(/\s+/))

function cellOf(word: string | undefined): unknown {
  if (word === undefined || word === '-') return null
  if (word === "''") return ''
  const text = word.replaceAll('~', ' ')
  return text.startsWith('{"') || text.startsWith('[') ? JSON.parse(text) : text
}

/** The first line names the columns. */
export function rowsOf(text: string): readonly Row[] {
  const [head, ...lines] = wordsOf(text)
  return lines.map((words) => Object.fromEntries(head!.map((name, at) => [name, cellOf(words[at])])))
}

/** Words that differ between the two teams, whose ids are the same. */
const WORDS = /^(name|text|concept|code|question_text|link_id|provider)$/

const ofTeam = (team_id: number, row: Row): Row => ({
  team_id,
  ...Object.fromEntries(
    Object.entries(row).map(([name, value]) => [
      name,
      team_id === 2 && WORDS.test(name) && typeof value === 'string' && value !== ''
        ? `${value} of 2`
        : value,
    ]),
  ),
})

/** Stores rows, of each team the same ids. */
export async function put(run: Run, table: string, text: string, teams = [1, 2]): Promise<void> {
  const rows = teams.flatMap((team) => rowsOf(text).map((row) => ofTeam(team, row)))
  const isRoot = /^intake\.(patients|forms|packets|documents|responses|messages|exports|packet_responses)$/
  const all = isRoot.test(table)
    ? rows.map((row) => ({ _version: '2026-05-05T00:00Z', _origin: 'test', _loaded_at: 'now', ...row }))
    : rows
  const columns = [...new Set(all.flatMap((row) => Object.keys(row)))].join(', ')
  await run(
    `insert into ${table} (${columns}) select ${columns} from jsonb_populate_recordset(null::${table}, $1)`,
    [JSON.stringify(all)],
  )
}

/** Two teams, whose first one the logins see, and a key that `named` knows. */
export async function putTeams(run: Run): Promise<void> {
  await run(
    `insert into intake.teams (team_id, name) overriding system value values (1, 'north'), (2, 'south')`,
  )
  await run(
    `update intake_ops.analytics_key set inner_pad = intake_ops.hmac_pad($1, 54), outer_pad = intake_ops.hmac_pad($1, 92)`,
    [Buffer.from(KEY)],
  )
}

/** The pseudonym or code of a record: a kind for the codes of researchers, none for pseudonyms. */
export const codeOf = (id: string, kind?: string) => {
  const hash = createHmac('sha256', KEY).update(kind === undefined ? `1:${id}` : `${kind}:1:${id}`)
  return hash.digest('hex').slice(0, kind === undefined ? 64 : 32)
}

/** Replaces pseudonyms by the ids that they stand for. */
export function named(text: string, ids: readonly string[]): string {
  const names = new Map(ids.map((id) => [codeOf(id), id]))
  return text.replace(/\b[0-9a-f]{64}\b/g, (code) => names.get(code)?.replaceAll(' ', '~') ?? code)
}

/** With the keys of objects in one order. */
const sorted = (value: unknown): unknown => {
  if (Array.isArray(value)) return value.map(sorted)
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(
    Object.entries(value)
      .map(([key, each]) => [key, sorted(each)] as const)
      .sort(([a], [b]) => (a < b ? -1 : 1)),
  )
}

const shown = (value: unknown): string => {
  if (value === null) return '-'
  if (value === '') return "''"
  const text = typeof value === 'string' ? value : JSON.stringify(sorted(value))
  const isTime = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?[-+]\d\d:\d\d$/.test(text)
  return isTime ? new Date(text).toISOString().replace(/(:00)?\.000Z$/, '') : text.replaceAll(' ', '~')
}

/** The rows of a query as such a table, without its head. */
export async function linesOf(
  run: (text: string) => Promise<readonly { row: string }[]>,
  text: string,
): Promise<string[]> {
  const rows = await run(`select to_json(x)::text as row from (${text}) x`)
  return rows.map(({ row }) =>
    Object.values(JSON.parse(row) as Row)
      .map(shown)
      .join(' '),
  )
}

/** The lines of expected rows; those of JSON are given as lists of cells. */
export const expectedOf = (rows: World['promises'][number]['rows']): string[] =>
  typeof rows === 'string'
    ? wordsOf(rows).map((words) =>
        words.join(' ').replace(/YEAR(-\d+)?/g, (_, more) => String(YEAR + Number(more ?? 0))),
      )
    : rows.map((cells) => cells.map(shown).join(' '))

const YEAR = new Date().getUTCFullYear()

export interface World {
  readonly name: string
  /** Ids for which the views show pseudonyms. */
  readonly ids: readonly string[]
  fill(run: Run): Promise<void>
  /** What a login with a role sees of the first team. */
  readonly promises: readonly {
    readonly promise: string
    readonly role?: 'intake_clinical' | 'intake_researcher' | 'owner'
    readonly query: string
    readonly rows: string | readonly (readonly unknown[])[]
  }[]
}
