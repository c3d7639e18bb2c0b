/**
 * Expected tables: temporary copies of a stream's tables, filled from the source (verify) or from intake_raw (replay), and
 * compared with the tables themselves.
 *
 * Invariant: an expected table receives the same lines that a load sends to its table.
 */
import { sql } from 'kysely'
import type { Stream } from '../../streams/stream.ts'
import type { Session } from '../../warehouse/connect.ts'

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
