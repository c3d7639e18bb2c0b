/**
 * The statements that load a stream, built from its declaration: the only place that builds loading SQL from names.
 *
 * Invariants:
 * - A record wins in `intake_raw.records` by the total order of law 2 or not at all, and the tables of `intake` are
 *   written only for records that won.
 * - Locks are taken, and rows written, in the order of keys. The merge compares rows that are already locked, so that it
 *   replaces the state that it compared. Only a key that another session inserts meanwhile is not locked: a conflict.
 * - The current state is looked up by key, one record at a time: no plan depends on the size or the statistics of a
 *   table. `offset 0` prevents the planner from joining the whole table instead.
 * - No statement needs a place of a row (`ctid`) or another system column: tables may be partitioned (sql/partitions.sql).
 */
import { type RawBuilder, sql } from 'kysely'
import { type Stream, stampsDecide } from '../../streams/stream.ts'
import { assignments, refs, type Target, target, text } from './sql.ts'

export interface LoadStatements {
  /** Creates the session's staging tables where they are missing. */
  readonly createStaging: string
  /** Empties them. They are shared by all merges of a session, and a commit comes only after the last merge. */
  readonly emptyStaging: string
  /** `copy … from stdin`, straight and to staging, for records, root and children. */
  readonly copy: { readonly straight: TableStatements; readonly staged: TableStatements }
  /** Locks the current state of each staged record until the transaction ends. */
  readonly lockCurrent: string
  /**
   * Move staged records into `intake_raw.records`. Each returns `team_id, id, tombstone, lost, conflict` of the records
   * that lost or whose order cannot be decided here: a loser with other content, a key that another session inserted
   * meanwhile, and of those that won against other content
   * - pages: where an event was loaded after $1 (text of a timestamptz, the warehouse's clock, before the page was requested
   *   for), or where the current state was updated later;
   * - answers to a fetch by id: where an event was loaded after $1;
   * - events: where the versions tie or the current state was updated later, and where the current state is an answer of
   *   the service from about the same time, or one that showed the record gone. The time of an answer is a lower bound,
   *   up to a second early.
   */
  readonly merge: { readonly pages: string; readonly answers: string; readonly events: string }
  /** Removes losers from root staging, and from each child's; $1 their teams, $2 their ids. */
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
  'updated_at',
  'deleted',
  'hash',
  'origin',
  'payload',
  'as_it_came',
  'problems',
]
const ROOT_META = ['_version', '_deleted_at', '_origin', '_hash', '_extra', '_problems']

const built = new WeakMap<Stream, LoadStatements>()

export function statementsOf(stream: Stream): LoadStatements {
  const known = built.get(stream)
  if (known !== undefined) return known
  const statements = buildStatements(stream)
  built.set(stream, statements)
  return statements
}

function buildStatements(stream: Stream): LoadStatements {
  const records = target('intake_raw', 'records', 'id', RECORD_COLUMNS)
  const root = target('intake', stream.table, 'id', rootColumns(stream))
  const children = stream.children.map((child) =>
    target('intake', child.table, child.parent, ['team_id', child.parent, ...child.columns]),
  )
  const tables = [records, root, ...children]
  const byStamps = stampsDecide(stream)
  const copies = (place: 'table' | 'stage'): TableStatements => ({
    records: copy(records, place),
    root: copy(root, place),
    children: children.map((child) => copy(child, place)),
  })
  return {
    createStaging: tables.map(createStage).join(';\n'),
    emptyStaging: tables.map(emptyStage).join(';\n'),
    copy: { straight: copies('table'), staged: copies('stage') },
    lockCurrent: lockCurrent(records),
    merge: {
      pages: merge(records, byStamps, sql`${loadedSince(root)} or ${UPDATED_LATER}`),
      answers: merge(records, byStamps, loadedSince(root)),
      events: merge(records, byStamps, sql`${AT_ONE_TIME} or ${UPDATED_LATER}`),
    },
    dropLosers: [root, ...children].map(dropLosers),
    mergeTables: [mergeRoot(root, byStamps), ...children.map((child) => replaceChildren(child, root))].join(
      ';\n',
    ),
  }
}

/** Columns of a root table that a load writes, in the order of its lines; `_loaded_at` has a default. */
function rootColumns(stream: Stream): readonly string[] {
  return ['team_id', 'id', ...stream.columns.map((column) => column.name), ...ROOT_META]
}

function createStage({ table, stage }: Target): string {
  return text(
    sql`create temporary table if not exists ${stage} (like ${table} including defaults) on commit delete rows`,
  )
}

function copy(target: Target, place: 'table' | 'stage'): string {
  return text(sql`copy ${target[place]} (${refs(target.columns)}) from stdin`)
}

function emptyStage({ stage }: Target): string {
  return text(sql`delete from ${stage}`)
}

/** `supersedes` of core/envelope, of the record `side` above `current`. */
function supersedes(side: string, byStamps: boolean): RawBuilder<unknown> {
  const order = (of: string, names: readonly string[]) =>
    sql.join(names.map((name) => sql.ref(`${of}.${name}`)))
  const greater = (...names: string[]) => sql`(${order(side, names)}) > (${order('current', names)})`
  const general = greater('version', 'deleted', 'observed_at', 'hash')
  if (!byStamps) return general
  const deleted = sql.ref(`${side}.deleted`)
  const updatedAt = sql.ref(`${side}.updated_at`)
  return sql`
        case when not ${deleted} and not current.deleted and ${updatedAt} is not null and current.updated_at is not null
          then ${greater('updated_at', 'observed_at', 'hash')} else ${general} end`
}

// Conditions of the merge: `incoming` is the staged record, `current` the stored one, locked.

/** A record that was updated and deleted at one moment is gone since. */
const UPDATED_LATER = sql`
      current.updated_at > incoming.updated_at
      or current.deleted and not incoming.deleted and current.updated_at = incoming.updated_at`

const AT_ONE_TIME = sql`
      current.version = incoming.version
      or (current.origin not like 'event:%' or current.origin like '% refetch')
        and (current.deleted or incoming.observed_at < current.observed_at + interval '2 seconds')`

/** What an event brought after $1, under an earlier version: the incoming state may be of before it. */
function loadedSince(root: Target): RawBuilder<unknown> {
  return sql`
      (current.origin not like 'run:%' or incoming.origin not like 'run:%') and current.version < incoming.version
        and (select row._loaded_at from ${root.table} row where (row.team_id, row.id) = (incoming.team_id, incoming.id))
          > $1::timestamptz`
}

function lockCurrent({ table, stage }: Target): string {
  return text(sql`
    select count(*) from (
      select from (select team_id, stream, id from ${stage} order by team_id, stream, id) incoming
      cross join lateral (
        select from ${table} current
        where (current.team_id, current.stream, current.id) = (incoming.team_id, incoming.stream, incoming.id)
        for no key update
      ) locked
    ) current`)
}

/** The default of `change_seq`. */
const NEXT_CHANGE = sql`(pg_current_xact_id()::text::bigint << 20) | nextval('intake_raw.change_ordinal')`

/**
 * A statement after `lockCurrent`, whose snapshot shows what the locks were waited for. A row that was replaced in place of
 * being inserted has another number of its change than the one that was given to it.
 */
function merge(
  { table, stage, columns }: Target,
  byStamps: boolean,
  winnerConflicts: RawBuilder<unknown>,
): string {
  const incoming = sql.join(columns.map((name) => sql.ref(`incoming.${name}`)))
  return text(sql`
    with judged as materialized (
      select incoming.team_id, incoming.id, incoming.deleted as tombstone, current.version is null as is_new,
        current.version is null or ${supersedes('incoming', byStamps)} as wins,
        current.hash <> incoming.hash or current.deleted <> incoming.deleted as differs,
        ${winnerConflicts} as winner_conflicts, ${NEXT_CHANGE} as change_seq
      from ${stage} incoming
      left join lateral (
        select version, observed_at, updated_at, deleted, hash, origin from ${table} current
        where (current.team_id, current.stream, current.id) = (incoming.team_id, incoming.stream, incoming.id)
        offset 0
      ) current on true
    ),
    written as (
      insert into ${table} as current (${refs(columns)}, change_seq)
      select ${incoming}, judged.change_seq from ${stage} incoming join judged using (team_id, id) where judged.wins
      order by incoming.team_id, incoming.stream, incoming.id
      on conflict (team_id, stream, id) do update set ${assignments(columns.slice(3), byStamps ? ['current', 'version'] : null)},
        change_seq = default, changed_at = default
      where ${supersedes('excluded', byStamps)}
      returning team_id, id, change_seq
    ),
    outcome as (
      select team_id, id, judged.tombstone, written.id is null as lost,
        case
          when judged.is_new then written.change_seq is distinct from judged.change_seq
          when written.id is null then judged.differs
          else judged.differs and coalesce(judged.winner_conflicts, false)
        end as conflict
      from judged left join written using (team_id, id)
    )
    select team_id, id, tombstone, lost, conflict from outcome where lost or conflict`)
}

function dropLosers({ stage, parent }: Target): string {
  return text(sql`
    delete from ${stage} staged using unnest($1::smallint[], $2::text[]) as loser (team_id, id)
    where (staged.team_id, staged.${sql.ref(parent)}) = (loser.team_id, loser.id)`)
}

function mergeRoot({ table, stage, columns }: Target, byStamps: boolean): string {
  return text(sql`
    insert into ${table} as current (${refs(columns)})
    select ${refs(columns)} from ${stage} order by team_id, id
    on conflict (team_id, id) do update set ${assignments(columns.slice(2), byStamps ? ['current', '_version'] : null)}, _loaded_at = now()`)
}

/**
 * The keys come from arrays: the planner expects few elements in them, and so looks them up. Both arrays have the order in
 * which a temporary table is read.
 */
function replaceChildren({ table, stage, columns, parent }: Target, root: Target): string {
  const key = (column: string) => sql`array(select ${sql.ref(column)} from ${root.stage})`
  return text(sql`
    delete from ${table} child using unnest(${key('team_id')}, ${key('id')}) as incoming (team_id, id)
    where (child.team_id, child.${sql.ref(parent)}) = (incoming.team_id, incoming.id);
    insert into ${table} (${refs(columns)}) select ${refs(columns)} from ${stage}`)
}
