/**
 * Expected tables: temporary copies of a stream's tables, filled from the source (verify) or from intake_raw (replay), and
 * compared with the tables themselves.
 *
 * Invariant: an expected table receives the same lines that a load sends to its table.
 */
import { type RawBuilder, sql } from 'kysely'
import type { Stream } from '../streams/stream.ts'
import type { Session } from '../warehouse/connect.ts'

export interface ExpectedTable {
  /** The table itself, with its schema. */
  readonly name: string
  /** The temporary table. */
  readonly expected: string
  /** Column that holds the record's id. */
  readonly parent: string
  /** Columns that distinguish the rows of one record. */
  readonly key: readonly string[]
  /** Columns in the order of the lines. */
  readonly columns: readonly string[]
}

export interface ExpectedTables {
  readonly stream: Stream
  readonly root: ExpectedTable
  /** Those of the stream's declaration, in its order. */
  readonly children: readonly ExpectedTable[]
  /** Tables of an export's file; empty for other streams. */
  readonly files: readonly ExpectedTable[]
  readonly records: ExpectedTable
}

const META = ['_version', '_deleted_at', '_origin', '_hash', '_extra', '_problems'] as const

/** Meta columns of the root with the origin and time of a state, not its content. */
export const CIRCUMSTANCES: readonly string[] = ['_version', '_origin']

const RECORD = [
  ...['version', 'observed_at', 'updated_at', 'deleted'],
  ...['hash', 'origin', 'payload', 'as_it_came', 'problems'],
]

/** Describes the tables of a stream; the keys of the children are those of the warehouse. */
export async function describeTables({ db }: Session, stream: Stream): Promise<ExpectedTables> {
  const { rows } = await sql<{ name: string; key: string[] }>`
    select own.name, array_agg(attname::text order by place) as key
    from unnest(${stream.children.map(({ table }) => `intake.${table}`)}::text[]) as own (name)
    join pg_index on indrelid = own.name::regclass and indisprimary
    cross join unnest(indkey) with ordinality as part (attnum, place)
    join pg_attribute on attrelid = indrelid and pg_attribute.attnum = part.attnum
    group by 1`.execute(db)
  const keys = new Map(rows.map(({ name, key }) => [name, key]))
  return {
    stream,
    root: described(
      'intake',
      stream.table,
      'id',
      [],
      ['id', ...stream.columns.map(({ name }) => name), ...META],
    ),
    children: stream.children.map(({ table, parent, columns }) => {
      const key = keys.get(`intake.${table}`)!.filter((name) => name !== 'team_id' && name !== parent)
      return described('intake', table, parent, key, [parent, ...columns])
    }),
    files:
      stream.reading?.kind === 'files'
        ? stream.reading.tables.map(({ table, key, columns }) =>
            described('intake', table, 'export_id', key, ['export_id', ...columns]),
          )
        : [],
    records: described('intake_raw', 'records', 'id', [], ['stream', 'id', ...RECORD]),
  }
}

function described(
  schema: string,
  table: string,
  parent: string,
  key: readonly string[],
  columns: readonly string[],
): ExpectedTable {
  const expected = `pg_temp.expected_${table}`
  return { name: `${schema}.${table}`, expected, parent, key, columns: ['team_id', ...columns] }
}

/** Creates the temporary tables where they are missing, and empties those that a commit has not emptied. */
export async function createExpected(
  { db }: Session,
  tables: readonly ExpectedTable[],
  commit: 'delete' | 'preserve',
): Promise<void> {
  for (const { name, expected } of tables) {
    await sql`
      create temporary table if not exists ${sql.table(expected)} (
        like ${sql.table(name)} including defaults, _since timestamptz not null default now()
      ) on commit ${sql.raw(commit)} rows`.execute(db)
    if (commit === 'preserve') await sql`truncate ${sql.table(expected)}`.execute(db)
  }
}

/** `copy … from stdin` into an expected table. */
export function copyInto({ db }: Session, { expected, columns }: ExpectedTable): string {
  return sql`copy ${sql.table(expected)} (${sql.join(columns.map((name) => sql.ref(name)))}) from stdin`.compile(
    db,
  ).sql
}

/** The part of a team's stream that is compared. */
export type Scope =
  | { readonly kind: 'all' }
  /** Ids above `after`, up to `to`; null for no bound. */
  | { readonly kind: 'range'; readonly after: string | null; readonly to: string | null }
  | { readonly kind: 'ids'; readonly ids: readonly string[] }

/**
 * How the table `differing` is filled. It has a record exactly if a row of one side is not, with equal cells, on the
 * other: it covers missing and extra rows, children without a parent and parents without a record.
 */
export interface Comparison {
  readonly table: ExpectedTable
  /** Columns that must be equal. */
  readonly columns: readonly string[]
  /** Recorded as `field` of rows that differ; null for the names of the columns. */
  readonly label: string | null
  /** Condition on the rows of the table itself, whose alias is `stored`. */
  readonly stored: RawBuilder<boolean>
}

const FOUND = sql.table('pg_temp.differing')

/** Creates or empties `differing`. */
export async function clearFound({ db }: Session): Promise<void> {
  await sql`create temporary table if not exists ${FOUND} (id text not null, field text not null)`.execute(db)
  await sql`truncate ${FOUND}`.execute(db)
}

/** Adds the differences of one table to `differing`. */
export async function compareTable({ db }: Session, comparison: Comparison, scope: Scope): Promise<void> {
  const { table, columns, label, stored } = comparison
  const { parent, key } = table
  const cells = (side: string) => sql.join(columns.map((name) => sql.ref(`${side}.${name}`)))
  const same = [parent, ...key].map((name) => sql`stored.${sql.ref(name)} = expected.${sql.ref(name)}`)
  const fields = columns.map(
    (name) =>
      sql`case when ${sql.ref(`expected.${name}`)} is distinct from ${sql.ref(`stored.${name}`)} then ${sql.lit(name)} end`,
  )
  const differs =
    label === null
      ? sql`unnest(array_remove(array[${sql.join(fields)}], null))`
      : sql`${sql.lit(label)}::text`
  await sql`
    insert into ${FOUND} (id, field)
    select coalesce(expected.${sql.ref(parent)}, stored.${sql.ref(parent)}), ${differs}
    from (select * from ${sql.table(table.expected)} own where ${within('own', parent, scope)}) expected
    full join (select * from ${sql.table(table.name)} stored where ${stored} and ${within('stored', parent, scope)}) stored
      on ${sql.join(same, sql` and `)}
    where row(${cells('expected')}) is distinct from row(${cells('stored')})`.execute(db)
}

function within(side: string, parent: string, scope: Scope): RawBuilder<unknown> {
  const id = sql.ref(`${side}.${parent}`)
  if (scope.kind === 'all') return sql`true`
  if (scope.kind === 'ids') return sql`${id} = any(${scope.ids}::text[])`
  const bounds = [
    ...(scope.after === null ? [] : [sql`${id} > ${scope.after}`]),
    ...(scope.to === null ? [] : [sql`${id} <= ${scope.to}`]),
  ]
  return bounds.length === 0 ? sql`true` : sql.join(bounds, sql` and `)
}

/** True for rows of the team. */
export function ofTeam(teamId: number): RawBuilder<boolean> {
  return sql<boolean>`stored.team_id = ${teamId}`
}
