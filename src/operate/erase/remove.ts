/**
 * Removes a patient's records from every table except those of exports, in the caller's transaction.
 *
 * Invariant: removes rows and children, payloads and history, list entries, known pages, events, dead letters,
 * refetches, and ids in verifications. Rows are deleted in the order of their keys.
 */
import { type Kysely, sql } from 'kysely'
import type { StreamName } from '../../core/envelope.ts'
import { forgetResponses } from '../../reconcile/verify/store.ts'
import { ALL_STREAMS, FILES, streamNamed } from '../../streams/catalogue.ts'
import type { Warehouse } from '../../warehouse/tables.ts'
import { deletePast, type Found, type Patient, pastContaining } from './find.ts'

/** Counts of removed rows. */
export interface Removed {
  records: number
  history: number
  events: number
  deadLetters: number
  exportRows: number
}

export function nothingRemoved(): Removed {
  return { records: 0, history: 0, events: 0, deadLetters: 0, exportRows: 0 }
}

export async function removeRecords(
  db: Kysely<Warehouse>,
  patient: Patient,
  found: Found,
  removed: Removed,
): Promise<void> {
  const { teamId } = patient
  for (const [name, all] of found) {
    const stream = streamNamed(name)!
    const ids = sql`any(${[...all]}::text[])`
    // `records` first: a load that writes one of these keys then waits before it has written any of its tables.
    removed.records += await affected(
      sql`delete from intake_raw.records where team_id = ${teamId} and stream = ${name} and id = ${ids}`.execute(
        db,
      ),
    )
    await sql`delete from ${sql.table(`intake.${stream.table}`)} where team_id = ${teamId} and id = ${ids}`.execute(
      db,
    )
    for (const { table, parent } of stream.children) {
      await sql`
        delete from ${sql.table(`intake.${table}`)} where team_id = ${teamId} and ${sql.ref(parent)} = ${ids}`.execute(
        db,
      )
    }
    removed.history += await affected(
      sql`delete from intake_raw.record_history where team_id = ${teamId} and stream = ${name} and id = ${ids}`.execute(
        db,
      ),
    )
    for (const table of ['intake_raw.list_entries', 'intake_ops.refetches', 'intake_ops.missed_once']) {
      await sql`
        delete from ${sql.table(table)} where team_id = ${teamId} and stream = ${name} and id = ${ids}`.execute(
        db,
      )
    }
    await sql`
      delete from intake_raw.known_pages
      where team_id = ${teamId} and stream = ${name} and string_to_array(ids, E'\n') && ${[...all]}::text[]`.execute(
      db,
    )
    // A scan that ended early begins again.
    await sql`delete from intake_ops.scans where team_id = ${teamId} and stream = ${name}`.execute(db)
    await removeFromVerifications(db, teamId, name, all)
    removed.deadLetters += await affected(
      sql`
        delete from intake_ops.dead_letters where team_id = ${teamId} and stream = ${name} and record_id = ${ids}`.execute(
        db,
      ),
    )
    if (stream.source === undefined) continue
    removed.events += await affected(
      sql`
        delete from intake_raw.inbox where team_id = ${teamId} and source = ${stream.source} and record_id = ${ids}`.execute(
        db,
      ),
    )
  }
  await sql`delete from intake_ops.former_identities where team_id = ${teamId} and id = ${patient.id}`.execute(
    db,
  )
  removed.history += await removePastStates(db, patient, found)
}

/** Removes superseded states of other records that name one of the removed records, such as a former member. */
async function removePastStates(db: Kysely<Warehouse>, patient: Patient, found: Found): Promise<number> {
  let removed = 0
  for (const stream of ALL_STREAMS) {
    const past = await pastContaining(db, stream, patient, found, true)
    if (past.length === 0) continue
    removed += await deletePast(
      db,
      past.map(({ place }) => place),
    )
  }
  return removed
}

/** Removes the ids from verifications; their counts stay. */
async function removeFromVerifications(
  db: Kysely<Warehouse>,
  teamId: number,
  stream: StreamName,
  all: readonly string[],
): Promise<void> {
  const ids = sql`${[...all]}::text[]`
  const others = (column: string) => sql`array(
    select id from unnest(${sql.ref(column)}) with ordinality as listed (id, place) where id <> all(${ids}) order by place
  )`
  await sql`
    update intake_ops.verifications set
      missing_ids = ${others('missing_ids')}, extra_ids = ${others('extra_ids')},
      different_ids = coalesce((
        select jsonb_agg(listed order by place) from jsonb_array_elements(different_ids) with ordinality as each (listed, place)
        where listed ->> 'id' <> all(${ids})
      ), '[]')
    where team_id = ${teamId} and stream = ${stream} and (
      missing_ids && ${ids} or extra_ids && ${ids} or exists (
        select from jsonb_array_elements(different_ids) as listed where listed ->> 'id' = any(${ids})
      )
    )`.execute(db)
  if (stream !== FILES.reading.rowsOf) return
  await forgetResponses(db, teamId, all)
}

async function affected(result: Promise<{ readonly numAffectedRows?: bigint }>): Promise<number> {
  return Number((await result).numAffectedRows ?? 0n)
}
