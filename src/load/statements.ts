/**
 * The statements that load a stream, built from its declaration: the one place where loading SQL is made of names.
 *
 * Invariant: a record wins in `intake_raw.records` by the total order of law 2 or not at all, and the tables of
 * `intake` are written only for those that won. Rows are written in the order of their keys, so that two writers
 * wait for each other and never deadlock.
 */
import {
  DummyDriver,
  Kysely,
  PostgresAdapter,
  PostgresIntrospector,
  PostgresQueryCompiler,
  type RawBuilder,
  sql,
} from 'kysely'
import type { Stream } from '../streams/stream.ts'

export interface LoadStatements {
  /** Creates the session's staging tables where they are missing. */
  readonly createStaging: string
  /** `copy … from stdin`, straight and to staging, for records, root and children. */
  readonly copy: { readonly straight: TableStatements; readonly staged: TableStatements }
  /**
   * Moves staged records that were read from the service into `intake_raw.records`; returns `id, tombstone, lost,
   * contested` of those that lost, and of those that won against another content which an event, or another reader,
   * brought after they were asked for. $1 is a moment before that, in the clock of the warehouse; null where only the
   * service's is known.
   */
  readonly mergeReads: string
  /**
   * The same of events: told are those that lost, those that won against another content of their own version, those
   * that won against what the service answered about then, and those that brought back what an answer had shown to be
   * gone: the moment of an answer is known by a lower bound, up to a second early, and the event may be of before it.
   */
  readonly mergeEvents: string
  /** Removes from root staging, and from each child's, what lost; takes the ids as $1. */
  readonly dropLosers: readonly string[]
  /** Moves root and children staging into the tables; several statements in one text, without parameters. */
  readonly mergeTables: string
}

export interface TableStatements {
  readonly records: string
  readonly root: string
  readonly children: readonly string[]
}

const RECORD_COLUMNS = [
  'team_id',
  'stream',
  'id',
  'version',
  'observed_at',
  'deleted',
  'hash',
  'origin',
  'payload',
  'as_it_came',
  'problems',
]
const ROOT_META = ['_version', '_deleted_at', '_origin', '_hash', '_extra', '_problems']

const compiler = new Kysely<unknown>({
  dialect: {
    createAdapter: () => new PostgresAdapter(),
    createDriver: () => new DummyDriver(),
    createIntrospector: (db) => new PostgresIntrospector(db),
    createQueryCompiler: () => new PostgresQueryCompiler(),
  },
})

const built = new WeakMap<Stream, LoadStatements>()

export function statementsOf(stream: Stream): LoadStatements {
  const known = built.get(stream)
  if (known !== undefined) return known
  const statements = buildStatements(stream)
  built.set(stream, statements)
  return statements
}

interface Target {
  readonly table: RawBuilder<unknown>
  readonly stage: RawBuilder<unknown>
  readonly columns: readonly string[]
  readonly parent: string
}

function buildStatements(stream: Stream): LoadStatements {
  const records = target('intake_raw', 'records', 'id', RECORD_COLUMNS)
  const root = target('intake', stream.table, 'id', rootColumns(stream))
  const children = stream.children.map((child) =>
    target('intake', child.table, child.parent, ['team_id', child.parent, ...child.columns]),
  )
  const tables = [records, root, ...children]
  const copies = (place: 'table' | 'stage'): TableStatements => ({
    records: copy(records, place),
    root: copy(root, place),
    children: children.map((child) => copy(child, place)),
  })
  return {
    createStaging: tables.map(createStage).join(';\n'),
    copy: { straight: copies('table'), staged: copies('stage') },
    mergeReads: merge(
      records,
      sql`
      join ${root.table} row on (row.team_id, row.id) = (came.team_id, came.id)
      where (held.origin not like 'run:%' or came.origin not like 'run:%') and held.version < came.version
        and row._loaded_at > coalesce($1::timestamptz, came.observed_at - interval '5 seconds')`,
    ),
    mergeEvents: merge(
      records,
      sql`
      where (held.version = came.version or (held.origin not like 'event:%' or held.origin like '% refetch')
        and (held.deleted or came.observed_at < held.observed_at + interval '2 seconds'))`,
    ),
    dropLosers: [root, ...children].map(dropLosers),
    mergeTables: [mergeRoot(root), ...children.map((child) => replaceChildren(child, root))].join(';\n'),
  }
}

/** Columns of a root table that a load writes, in the order of its lines; `_loaded_at` has a default. */
function rootColumns(stream: Stream): readonly string[] {
  return ['team_id', 'id', ...stream.columns.map((column) => column.name), ...ROOT_META]
}

function target(schema: string, table: string, parent: string, columns: readonly string[]): Target {
  return {
    table: sql.table(`${schema}.${table}`),
    stage: sql.table(`pg_temp.stage_${table}`),
    columns,
    parent,
  }
}

function createStage({ table, stage }: Target): string {
  return text(
    sql`create temporary table if not exists ${stage} (like ${table} including defaults) on commit delete rows`,
  )
}

function copy(target: Target, place: 'table' | 'stage'): string {
  return text(sql`copy ${target[place]} (${refs(target.columns)}) from stdin`)
}

/**
 * `doubt` joins and filters what is held, `held`, beside what came, `came`. It looks at the table as it was before the
 * merge, as every part of a statement does.
 */
function merge(target: Target, doubt: RawBuilder<unknown>): string {
  const { table, stage } = target
  return text(sql`
    with doubtful as materialized (
      select came.id, came.deleted as tombstone from ${stage} came
      join ${table} held on (held.team_id, held.stream, held.id) = (came.team_id, came.stream, came.id)
      ${doubt} and (held.hash <> came.hash or held.deleted <> came.deleted)
    ),
    accepted as (${accepted(target)})
    ${losers(target)}
    union all
    select id, tombstone, false as lost, true as contested from doubtful where id in (select id from accepted)`)
}

function accepted({ table, stage, columns }: Target): RawBuilder<unknown> {
  return sql`
    insert into ${table} as held (${refs(columns)})
    select ${refs(columns)} from ${stage} order by team_id, stream, id
    on conflict (team_id, stream, id) do update set ${assignments(columns.slice(3))}
    where (excluded.version, excluded.deleted, excluded.observed_at, excluded.hash)
        > (held.version, held.deleted, held.observed_at, held.hash)
    returning id`
}

function losers({ table, stage }: Target): RawBuilder<unknown> {
  return sql`
    select came.id, came.deleted as tombstone, true as lost, coalesce((
        select held.hash <> came.hash or held.deleted <> came.deleted from ${table} held
        where held.team_id = came.team_id and held.stream = came.stream and held.id = came.id
      ), true) as contested
    from ${stage} came
    where came.id not in (select id from accepted)`
}

function dropLosers({ stage, parent }: Target): string {
  return text(sql`delete from ${stage} where ${sql.ref(parent)} = any ($1::text[])`)
}

function mergeRoot({ table, stage, columns }: Target): string {
  return text(sql`
    insert into ${table} (${refs(columns)})
    select ${refs(columns)} from ${stage} order by team_id, id
    on conflict (team_id, id) do update set ${assignments(columns.slice(2))}, _loaded_at = now()`)
}

function replaceChildren({ table, stage, columns, parent }: Target, root: Target): string {
  return text(sql`
    delete from ${table}
    where team_id = (select min(team_id) from ${root.stage})
      and ${sql.ref(parent)} = any (array(select id from ${root.stage}));
    insert into ${table} (${refs(columns)}) select ${refs(columns)} from ${stage}`)
}

function refs(columns: readonly string[]): RawBuilder<unknown> {
  return sql.join(columns.map((column) => sql.ref(column)))
}

function assignments(columns: readonly string[]): RawBuilder<unknown> {
  return sql.join(columns.map((column) => sql`${sql.ref(column)} = excluded.${sql.ref(column)}`))
}

function text(statement: RawBuilder<unknown>): string {
  return statement.compile(compiler).sql
}
