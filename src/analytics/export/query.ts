/**
 * The rows of a view or of a query, read in portions through a cursor.
 *
 * Invariant: one snapshot, read-only, with the privileges of the reader only. Memory does not grow with the rows. Errors
 * of the query name its identifiers and positions, never a value.
 */
import { type RawBuilder, sql } from 'kysely'
import pg from 'pg'
import { IntakeError, UsageError } from '../../core/errors.ts'
import type { Session } from '../../warehouse/connect.ts'
import { sqlstateOf, warehouseError } from '../../warehouse/sqlstate.ts'

export interface Query {
  /** A view, or the text of a `select` without a semicolon at its end. */
  readonly from: { readonly schema: string; readonly view: string } | { readonly text: string }
  /** The column by whose day (in UTC) rows are ordered first; null to leave the order to the query. */
  readonly dayColumn: string | null
  /** Adds the row as JSON text, as the last value of each row. */
  readonly asJson: boolean
}

/** How the values of a column are written. `text` is the text of Postgres. */
export type ColumnKind = 'boolean' | 'int32' | 'int64' | 'double' | 'date' | 'timestamp' | 'json' | 'text'

export interface Column {
  readonly name: string
  /** Postgres' name of the type. */
  readonly type: string
  readonly kind: ColumnKind
}

/** The texts of a row's columns, in the order of `Rows.columns`. */
export interface Row {
  readonly values: readonly (string | null)[]
  /** `YYYY-MM-DD`; null where the column is null, and without a day column. */
  readonly day: string | null
  readonly json: string | null
}

export interface Rows {
  readonly columns: readonly Column[]
  readonly portions: AsyncIterable<readonly Row[]>
}

const PORTION = 2_000

const { builtins } = pg.types

const KINDS: ReadonlyMap<number, ColumnKind> = new Map([
  [builtins.BOOL, 'boolean'],
  [builtins.INT2, 'int32'],
  [builtins.INT4, 'int32'],
  [builtins.INT8, 'int64'],
  [builtins.FLOAT4, 'double'],
  [builtins.FLOAT8, 'double'],
  [builtins.NUMERIC, 'double'],
  [builtins.DATE, 'date'],
  [builtins.TIMESTAMPTZ, 'timestamp'],
  [builtins.JSON, 'json'],
  [builtins.JSONB, 'json'],
])

/** Begins the transaction in which rows are read: one snapshot, read-only. Ends with the session, or with `commit`. */
export async function beginSnapshot({ client }: Session): Promise<void> {
  await client.query('begin isolation level repeatable read, read only')
}

/** Opens a cursor in the snapshot; only one can be open. Throws `UsageError` for a query that cannot run. */
export async function openRows({ client, db }: Session, query: Query): Promise<Rows> {
  try {
    const { sql: text } = cursorFor(query).compile(db)
    // The extended protocol runs one statement only.
    await client.query({ text, queryMode: 'extended' } as pg.QueryConfig)
    const fields = (await fetch(client, 0)).fields.slice(0, -2)
    const columns = await describe(client, fields)
    checkNames(columns)
    return { columns, portions: portionsOf(client) }
  } catch (error) {
    throw queryError(error)
  }
}

function cursorFor({ from, dayColumn, asJson }: Query): RawBuilder<unknown> {
  const source = 'view' in from ? sql.table(`${from.schema}.${from.view}`) : sql.raw(`(\n${from.text}\n)`)
  // A timestamptz counts by its day in UTC, the zone of the session.
  const day =
    dayColumn === null ? null : sql`to_char(${sql.ref(`exported.${dayColumn}`)}::date, 'YYYY-MM-DD')`
  return sql`
    declare exported no scroll cursor for
    select exported.*, ${day ?? sql`null`} as day_of_row, ${asJson ? sql`row_to_json(exported)` : sql`null`} as json_of_row
    from ${source} exported ${day === null ? sql`` : sql`order by ${day}`}`
}

async function* portionsOf(client: pg.Client): AsyncGenerator<readonly Row[]> {
  for (;;) {
    const { rows } = await fetch(client, PORTION).catch((error: unknown) => {
      throw queryError(error)
    })
    if (rows.length === 0) break
    yield rows.map((values) => ({ values: values.slice(0, -2), day: values.at(-2)!, json: values.at(-1)! }))
  }
  await client.query('close exported')
}

/** Values as Postgres writes them: no number loses a digit. */
const AS_TEXT = { getTypeParser: () => (text: string) => text }

async function fetch(client: pg.Client, count: number): Promise<pg.QueryArrayResult<(string | null)[]>> {
  return await client.query({
    text: `fetch ${count} from exported`,
    rowMode: 'array',
    types: AS_TEXT as unknown as pg.CustomTypesConfig,
  })
}

async function describe(client: pg.Client, fields: readonly pg.FieldDef[]): Promise<readonly Column[]> {
  const { rows } = await client.query<{ type: string }>(
    `select format_type(type, modifier) as type
     from unnest($1::oid[], $2::int[]) with ordinality as field (type, modifier, place) order by place`,
    [fields.map(({ dataTypeID }) => dataTypeID), fields.map(({ dataTypeModifier }) => dataTypeModifier)],
  )
  return fields.map(({ name, dataTypeID }, place) => ({
    name,
    type: rows[place]!.type,
    kind: KINDS.get(dataTypeID) ?? 'text',
  }))
}

function checkNames(columns: readonly Column[]): void {
  const names = columns.map(({ name }) => name)
  const twice = names.find((name, place) => names.indexOf(name) !== place)
  if (columns.length === 0)
    throw new UsageError('the query has no columns', 'select at least one', undefined, 'query_invalid')
  if (twice !== undefined)
    throw new UsageError(
      `two columns have the name "${twice}"`,
      'give each column its own name with "as"',
      undefined,
      'query_invalid',
    )
}

/** Classes whose messages name identifiers, types and positions of the query only. */
const OF_QUERY = /^(?:42|0A)/

function queryError(error: unknown): unknown {
  const state = sqlstateOf(error)
  if (error instanceof IntakeError || state === undefined) return error
  if (state === READ_ONLY)
    return new UsageError(
      'the query writes',
      'an export only reads: write a select',
      undefined,
      'query_invalid',
    )
  if (/^22/.test(state))
    return new IntakeError(`the query failed on a value (SQLSTATE ${state})`, {
      code: 'query_value',
      verdict: 'stop',
      hint: 'a cast, a division or a date in the query does not fit every row',
    })
  if (!OF_QUERY.test(state)) return warehouseError(error)
  return new UsageError(
    `the query cannot run: ${(error as Error).message}`,
    state === '42501' ? 'the reader has no right to it: see --as' : 'try it in intake-sync psql',
    undefined,
    'query_invalid',
  )
}

const READ_ONLY = '25006'
