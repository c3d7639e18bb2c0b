/**
 * Differences between the expected tables and the warehouse: missing, extra and different records.
 *
 * Invariant: all tables are read in one snapshot, so that a record that a load is writing is seen before or after.
 * `certain` means that no concurrent activity can explain the difference: the stored record of the rows is the expected
 * one, or there is none. `newer` is set only for rows written since the comparison began, by the warehouse's own clock:
 * the service's clock is known to a second, and a stamp may be ahead of it.
 */
import { sql } from 'kysely'
import type { Instant } from '../../core/time.ts'
import type { Session } from '../../warehouse/connect.ts'
import { LOOK_UP_IN_TRANSACTION } from '../../warehouse/connect.ts'
import {
  CIRCUMSTANCES,
  type Comparison,
  clearFound,
  compareTable,
  type ExpectedTables,
  type Scope,
} from '../expected-tables.ts'
import { UNKNOWN } from './expect-raw.ts'
import { UNREAD_FILES } from './expect-source.ts'

export interface Difference {
  readonly id: string
  readonly kind: 'missing' | 'extra' | 'different'
  /** Columns of the root table, and names of the other tables, that differ. */
  readonly fields: readonly string[]
  readonly certain: boolean
  /** The warehouse has a state from after the source was read. */
  readonly newer: boolean
  /** Only parts of the payload outside the tables differ, and `updated_at` is the same. */
  readonly payloadOnly: boolean
  /** Rows of children without a live parent row and without a record, not even a deleted one. */
  readonly isOrphan: boolean
}

export interface SearchScope {
  readonly teamId: number
  readonly tables: ExpectedTables
  /** Start of reading the source, on the warehouse's clock: rows written before are not newer. */
  readonly from: string
  /** Bounds of the time of reading, on the service's clock; stored versions between them are newer. */
  readonly since: Instant
  readonly until: Instant
  /** Log entries after this time are not due in the warehouse; null if all are. */
  readonly loggedUntil: Instant | null
}

export function comparisonsOf({
  teamId,
  tables,
}: Pick<SearchScope, 'teamId' | 'tables'>): readonly Comparison[] {
  const { stream, root, children, files, records } = tables
  const cells = stream.columns.map(({ name }) => sql`stored.${sql.ref(name)}`)
  const team = sql<boolean>`stored.team_id = ${teamId}`
  // A tombstone counts as no row, unless it still has values.
  const live = sql<boolean>`${team} and (stored._deleted_at is null or num_nonnulls(${sql.join(cells)}) > 0)`
  const isRecord = sql<boolean>`${team} and stored.stream = ${stream.name} and not stored.deleted`
  const content = root.columns.filter((name) => name !== 'team_id' && !CIRCUMSTANCES.includes(name))
  return [
    { table: root, columns: content, label: null, stored: live },
    ...[...children, ...files].map((table) => {
      return {
        table,
        columns: table.columns.slice(1),
        label: table.name.replace('intake.', ''),
        stored: team,
      }
    }),
    ...(stream.list === null
      ? []
      : [{ table: records, columns: ['id', 'hash', 'payload'], label: records.name, stored: isRecord }]),
  ]
}

export async function findDifferences(
  session: Session,
  search: SearchScope,
  scope: Scope,
): Promise<readonly Difference[]> {
  const { client, db } = session
  await clearFound(session)
  await client.query('begin isolation level repeatable read')
  try {
    if (scope.kind === 'ids') await client.query(LOOK_UP_IN_TRANSACTION)
    for (const comparison of comparisonsOf(search)) await compareTable(session, comparison, scope)
    if (search.tables.files.length > 0) {
      await sql`
        delete from pg_temp.differing using ${UNREAD_FILES} unread
        where differing.id = unread.id and field = any(${FILE_FIELDS}::text[])`.execute(db)
    }
    await sql`delete from pg_temp.differing where id in (select id from ${UNKNOWN})`.execute(db)
    const found = await classified(session, search)
    await client.query('commit')
    return found
  } catch (error) {
    await client.query('rollback').catch(() => {})
    throw error
  }
}

/** Fields that cannot be compared if the file cannot be read. */
const FILE_FIELDS = ['export_columns', 'export_rows', 'export_cells', '_problems']

async function classified({ db }: Session, scope: SearchScope): Promise<readonly Difference[]> {
  const { teamId, tables, from, since, until, loggedUntil } = scope
  const { stream, root, records } = tables
  const { rows } = await sql<Difference>`
    with found as materialized (
      select id, array_agg(distinct field order by field) as fields from pg_temp.differing group by id
    )
    select found.id,
      case when expected.id is null then 'extra' when stored.id is null then 'missing' else 'different' end as kind,
      case when expected.id is not null and stored.id is not null then found.fields else '{}' end as fields,
      case when expected.id is null then raw.deleted is not false
           else coalesce(raw.hash = expected._hash and not raw.deleted, false) end as certain,
      coalesce(written._loaded_at > ${from}::timestamptz and (${stream.list === null}
          or raw.version > coalesce(expected._version, ${since}) and raw.version <= ${until}), false)
        or coalesce(raw.id is null and expected._version >= ${loggedUntil}, false) as newer,
      coalesce(found.fields <@ ${['_hash', 'intake_raw.records']}::text[] and expected.id is not null
        and not raw.deleted and raw.hash <> expected._hash and stored._hash = raw.hash
        and raw.payload -> 'updated_at' is not distinct from payload.payload -> 'updated_at', false) as "payloadOnly",
      expected.id is null and stored.id is null and raw.id is null as "isOrphan"
    from found
    left join ${sql.table(root.expected)} expected on expected.id = found.id
    left join ${sql.table(records.expected)} payload on payload.id = found.id
    left join ${sql.table(root.name)} stored
      on stored.team_id = ${teamId} and stored.id = found.id and stored._deleted_at is null
    left join ${sql.table(root.name)} written on written.team_id = ${teamId} and written.id = found.id
    left join lateral (
      select raw.id, raw.hash, raw.version, raw.payload, raw.deleted from intake_raw.records raw
      where raw.team_id = ${teamId} and raw.stream = ${stream.name} and raw.id = found.id
    ) raw on true
    order by found.id`.execute(db)
  return rows
}
