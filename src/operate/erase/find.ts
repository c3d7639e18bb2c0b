/**
 * Finds the keys of all records of one patient.
 *
 * Invariant: a record belongs to the patient if its current state or any superseded state names the patient. A packet
 * response also belongs to the patient if it contains one of their responses. Reads only.
 */
import { type Kysely, type RawBuilder, sql } from 'kysely'
import type { StreamName } from '../../core/streams.ts'
import { ALL_STREAMS } from '../../streams/catalogue.ts'
import type { Stream } from '../../streams/stream.ts'
import { namingColumns, type Subject } from '../../streams/subjects.ts'
import type { Warehouse } from '../../warehouse/tables.ts'

export interface Patient {
  readonly teamId: number
  readonly id: string
}

/** Record ids by stream. The patient's own id comes first, even if no record is stored under it. */
export type Found = ReadonlyMap<StreamName, readonly string[]>

export async function findRecords(db: Kysely<Warehouse>, patient: Patient): Promise<Found> {
  const found = new Map<StreamName, readonly string[]>([['patients', [patient.id]]])
  for (const stream of ALL_STREAMS) {
    if (naming(stream, 'patients') === undefined) continue
    const ids = await idsOf(db, recordsNaming(stream, patient))
    if (ids.length > 0) found.set(stream.name, ids)
  }
  const responses = found.get('responses') ?? []
  for (const stream of ALL_STREAMS) {
    const ids = responses.length === 0 ? [] : await idsOf(db, recordsContaining(stream, patient, responses))
    if (ids.length > 0) found.set(stream.name, ids)
  }
  return found
}

/**
 * Returns the client ids by which exports name the patient, the patient's id first. The specification does not define
 * them: other candidates are the external id, and the client id of a row with the same name and e-mail address, unless it
 * is the id of another patient.
 */
export async function findClients(
  db: Kysely<Warehouse>,
  { teamId, id }: Patient,
): Promise<readonly string[]> {
  const { rows } = await sql<{ client: string }>`
    select distinct line.client_id as client
    from intake.patients own join intake.export_rows line using (team_id)
    where own.team_id = ${teamId} and own.id = ${id} and line.client_id <> own.id and (
        line.client_id = own.external_id
        or own.email <> '' and lower(line.email) = lower(own.email)
          and lower(line.first_name) = lower(own.first_name) and lower(line.last_name) = lower(own.last_name)
      )
      and not exists (select from intake.patients other where other.team_id = own.team_id and other.id = line.client_id)
    order by 1`.execute(db)
  return [id, ...rows.map(({ client }) => client)]
}

export function subjectsIn(found: Found): readonly Subject[] {
  return [...found].flatMap(([stream, ids]) => ids.map((id) => ({ stream, id })))
}

/** Whether any row of the warehouse is stored under the patient's id or names it. */
export async function isKnown(db: Kysely<Warehouse>, patient: Patient, found: Found): Promise<boolean> {
  if (found.size > 1) return true
  const { teamId, id } = patient
  const { rows } = await sql<{ known: boolean }>`
    select exists (select from intake_raw.records where team_id = ${teamId} and stream = 'patients' and id = ${id})
      or exists (select from intake_raw.record_history where team_id = ${teamId} and stream = 'patients' and id = ${id})
      or exists (select from intake.export_rows where team_id = ${teamId} and client_id = ${id})
      or exists (select from intake_ops.dead_letters where team_id = ${teamId} and stream = 'patients' and record_id = ${id})
      or exists (select from intake_ops.refetches where team_id = ${teamId} and stream = 'patients' and id = ${id})
      or exists (select from intake_raw.inbox where team_id = ${teamId} and source = 'patient' and record_id = ${id})
      as known`.execute(db)
  return rows[0]?.known === true
}

async function idsOf(db: Kysely<Warehouse>, query: RawBuilder<{ id: string }>): Promise<readonly string[]> {
  return (await query.execute(db)).rows.map(({ id }) => id)
}

function naming({ columns }: Stream, names: StreamName) {
  const at = namingColumns({ columns, children: [] }).root.find((column) => column.names === names)?.at
  return at === undefined ? undefined : columns[at]
}

/** Selects by the root table and by the payloads in the history. */
function recordsNaming(stream: Stream, { teamId, id }: Patient): RawBuilder<{ id: string }> {
  const column = naming(stream, 'patients')!
  const fields = sql.join(column.from.map((field) => sql`payload -> ${sql.lit(field)}`))
  return sql`
    select id from ${sql.table(`intake.${stream.table}`)}
    where team_id = ${teamId} and ${sql.ref(column.name)} = ${id}
    union
    select id from intake_raw.record_history
    where team_id = ${teamId} and stream = ${stream.name} and ${id} in (
      select coalesce(named #>> '{id}', named #>> '{uid}', named #>> '{}') from unnest(array[${fields}]) as named
    )
    order by 1`
}

function recordsContaining(
  stream: Stream,
  { teamId }: Patient,
  responses: readonly string[],
): RawBuilder<{ id: string }> {
  const own = sql<{ id: string }>`select null::text as id where false`
  return namingColumns(stream).children.reduce((query, columns, at) => {
    const column = columns.find(({ names }) => names === 'responses')
    if (column === undefined) return query
    const child = stream.children[at]!
    return sql`
      ${query} union
      select ${sql.ref(child.parent)} from ${sql.table(`intake.${child.table}`)}
      where team_id = ${teamId} and ${sql.ref(child.columns[column.at]!)} = any(${responses}::text[])`
  }, own)
}
