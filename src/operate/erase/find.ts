/**
 * Finds the keys of all records of one patient.
 *
 * Invariant: a record belongs to the patient if its current state or any superseded state names the patient. A record
 * whose children name one of those (a packet response, its responses) belongs to the patient too. Reads only.
 */
import { type Kysely, type RawBuilder, sql } from 'kysely'
import type { StreamName } from '../../core/envelope.ts'
import { isObject, parseText } from '../../core/json.ts'
import { ALL_STREAMS, PERSONS } from '../../streams/catalogue.ts'
import type { Stream } from '../../streams/stream.ts'
import { namingColumns, STREAMS_OF_PERSONS, type Subject, subjectsNamedIn } from '../../streams/subjects.ts'
import type { Warehouse } from '../../warehouse/tables.ts'

export interface Patient {
  readonly teamId: number
  readonly id: string
}

/** Record ids by stream. The patient's own id comes first, even if no record is stored under it. */
export type Found = ReadonlyMap<StreamName, readonly string[]>

export async function findRecords(db: Kysely<Warehouse>, patient: Patient): Promise<Found> {
  const found = new Map<StreamName, readonly string[]>([[PERSONS.name, [patient.id]]])
  for (const stream of ALL_STREAMS) add(stream, await idsOf(db, recordsNaming(stream, patient)))
  const theirs = new Map([...found].filter(([name]) => STREAMS_OF_PERSONS.has(name)))
  if (theirs.size > 0) {
    for (const stream of ALL_STREAMS) {
      add(stream, await idsOf(db, recordsContaining(stream, patient, theirs)))
      add(stream, await deletedContaining(db, stream, patient, theirs))
    }
  }
  return found

  function add({ name }: Stream, ids: readonly string[]): void {
    if (ids.length > 0) found.set(name, [...new Set([...(found.get(name) ?? []), ...ids])])
  }
}

export function subjectsIn(found: Found): readonly Subject[] {
  return [...found].flatMap(([stream, ids]) => ids.map((id) => ({ stream, id })))
}

/** Whether any row of the warehouse is stored under the patient's id or names it. */
export async function isKnown(db: Kysely<Warehouse>, patient: Patient, found: Found): Promise<boolean> {
  if (found.size > 1) return true
  const { teamId, id } = patient
  const { name, source } = PERSONS
  const own = sql`team_id = ${teamId} and stream = ${name}`
  const { rows } = await sql<{ known: boolean }>`
    select exists (select from intake_raw.records where ${own} and id = ${id})
      or exists (select from intake_raw.record_history where ${own} and id = ${id})
      or exists (select from intake.export_rows where team_id = ${teamId} and client_id = ${id})
      or exists (select from intake_ops.dead_letters where ${own} and record_id = ${id})
      or exists (select from intake_ops.refetches where ${own} and id = ${id})
      or exists (select from intake_raw.inbox where team_id = ${teamId} and source = ${source ?? null} and record_id = ${id})
      as known`.execute(db)
  return rows[0]?.known === true
}

/** The place of a row of `record_history`, which may be partitioned. */
export interface Place {
  readonly part: string
  readonly ctid: string
}

export interface PastState {
  /** Stays the same until the transaction ends if `lock` was set. */
  readonly place: Place
  readonly id: string
  readonly isDeleted: boolean
}

/** The place of the row with this alias. */
export function placeOf(row: string): RawBuilder<Place> {
  return sql`jsonb_build_object('part', ${sql.ref(`${row}.tableoid`)}::text, 'ctid', ${sql.ref(`${row}.ctid`)}::text)`
}

/** Deletes states at places that are locked. */
export async function deletePast(db: Kysely<Warehouse>, places: readonly Place[]): Promise<number> {
  const tids = sql`${places.map(({ ctid }) => ctid)}::tid[]`
  const { numAffectedRows } = await sql`
    delete from intake_raw.record_history where ctid = any(${tids}) and (tableoid, ctid) in (
      select * from unnest(${places.map(({ part }) => part)}::oid[], ${tids})
    )`.execute(db)
  return Number(numAffectedRows ?? 0n)
}

/** Superseded states of a stream that name a record in `theirs` in a place that only their payload has: a child. */
export async function pastContaining(
  db: Kysely<Warehouse>,
  stream: Stream,
  { teamId }: Patient,
  theirs: Found,
  lock = false,
): Promise<readonly PastState[]> {
  const { root, children } = namingColumns(stream)
  const names = new Set([...root, ...children.flat()].map((column) => column.names))
  const ids = new Set([...names].flatMap((name) => (name === PERSONS.name ? [] : (theirs.get(name) ?? []))))
  if (ids.size === 0) return []
  const { rows } = await sql<PastState & { payload: string }>`
    select ${placeOf('past')} as place, past.id, coalesce(record.deleted, false) as "isDeleted", past.payload::text as payload
    from intake_raw.record_history past left join intake_raw.records record using (team_id, stream, id)
    where past.team_id = ${teamId} and past.stream = ${stream.name}
      and exists (select from unnest(${[...ids]}::text[]) as listed (id) where strpos(past.payload::text, listed.id) > 0)
    order by past.id, past.version ${lock ? sql`for update of past` : sql``}`.execute(db)
  return rows.filter(({ payload }) => {
    const state = parseText(payload)
    return isObject(state) && subjectsNamedIn(stream, state).some((each) => ids.has(each.id))
  })
}

/** A deleted record belongs to the patient if it did before. */
async function deletedContaining(
  db: Kysely<Warehouse>,
  stream: Stream,
  patient: Patient,
  theirs: Found,
): Promise<readonly string[]> {
  const past = await pastContaining(db, stream, patient, theirs)
  return past.filter(({ isDeleted }) => isDeleted).map(({ id }) => id)
}

async function idsOf(db: Kysely<Warehouse>, query: RawBuilder<{ id: string }>): Promise<readonly string[]> {
  return (await query.execute(db)).rows.map(({ id }) => id)
}

/** By the columns of the root table, and by the payloads in the history. */
function recordsNaming(stream: Stream, { teamId, id }: Patient): RawBuilder<{ id: string }> {
  const columns = stream.columns.filter(({ to }) => to === PERSONS.name)
  return columns.reduce((query, column) => {
    const fields = sql.join(column.from.map((field) => sql`payload -> ${sql.lit(field)}`))
    return sql`
    ${query} union
    select id from ${sql.table(`intake.${stream.table}`)}
    where team_id = ${teamId} and ${sql.ref(column.name)} = ${id}
    union
    select id from intake_raw.record_history
    where team_id = ${teamId} and stream = ${stream.name} and ${id} in (
      select coalesce(named #>> '{id}', named #>> '{uid}', named #>> '{}') from unnest(array[${fields}]) as named
    )`
  }, NONE)
}

const NONE = sql<{ id: string }>`select null::text as id where false`

/** By the columns of its tables that name a record in `theirs`, the patient's records by stream. */
function recordsContaining(stream: Stream, { teamId }: Patient, theirs: Found): RawBuilder<{ id: string }> {
  const { root, children } = namingColumns(stream)
  const named = [
    ...root.map(({ at, names }) => ({
      table: stream.table,
      id: 'id',
      column: stream.columns[at]!.name,
      names,
    })),
    ...children.flatMap((columns, place) => {
      const { table, parent, columns: all } = stream.children[place]!
      return columns.map(({ at, names }) => ({ table, id: parent, column: all[at]!, names }))
    }),
  ]
  return named.reduce((query, { table, id, column, names }) => {
    const ids = names === PERSONS.name ? [] : (theirs.get(names) ?? [])
    if (ids.length === 0) return query
    return sql`
    ${query} union
    select ${sql.ref(id)} from ${sql.table(`intake.${table}`)}
    where team_id = ${teamId} and ${sql.ref(column)} = any(${ids}::text[])`
  }, NONE)
}
