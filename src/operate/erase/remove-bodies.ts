/**
 * Removes events and dead letters whose bodies contain the patient's id.
 *
 * Invariant: a body is removed if it is about the patient, or names the patient in a field that names a record's patient.
 * A body that cannot be parsed is removed if the id is a word in it. An id of at least `UNMISTAKABLE` characters may be
 * anywhere in the body, except in a pending event, which may contain data of another patient that is not loaded yet.
 */
import { type Kysely, sql } from 'kysely'
import { INBOX, type StreamOrInbox } from '../../core/envelope.ts'
import { subjectsOfBody } from '../../load/erased-dead-letters.ts'
import { PERSONS, streamNamed } from '../../streams/catalogue.ts'
import type { Stream } from '../../streams/stream.ts'
import type { Warehouse } from '../../warehouse/tables.ts'
import type { Patient } from './find.ts'
import type { Removed } from './remove.ts'

/** Characters of an id that does not occur by chance: half a UUID. */
const UNMISTAKABLE = 16

/** Bodies that one query reads. */
const PORTION = 500

export async function removeBodies(db: Kysely<Warehouse>, patient: Patient, removed: Removed): Promise<void> {
  removed.events += await removeEvents(db, patient)
  removed.deadLetters += await removeDeadLetters(db, patient)
}

async function removeEvents(db: Kysely<Warehouse>, patient: Patient): Promise<number> {
  const { teamId, id } = patient
  const containsId = sql`team_id = ${teamId} and position(convert_to(${id}, 'UTF8') in body) > 0`
  let removed = 0
  if (id.length >= UNMISTAKABLE) {
    const { numAffectedRows } = await sql`
      delete from intake_raw.inbox where ${containsId} and status <> 'pending'`.execute(db)
    removed += Number(numAffectedRows ?? 0n)
  }
  for (let after = '0'; ; ) {
    const { rows } = await sql<{ seq: string; body: Buffer }>`
      select seq, body from intake_raw.inbox where ${containsId} and seq > ${after} order by seq limit ${PORTION}`.execute(
      db,
    )
    const theirs = rows.filter(({ body }) => isOfPatient(undefined, body, patient)).map(({ seq }) => seq)
    await sql`delete from intake_raw.inbox where team_id = ${teamId} and seq = any(${theirs}::bigint[])`.execute(
      db,
    )
    removed += theirs.length
    if (rows.length < PORTION) return removed
    after = rows.at(-1)!.seq
  }
}

async function removeDeadLetters(db: Kysely<Warehouse>, patient: Patient): Promise<number> {
  const { teamId, id } = patient
  const { rows } = await sql<{ id: string; stream: StreamOrInbox; body: Buffer }>`
    select dead.id, dead.stream, stored.body
    from intake_ops.dead_letters dead join intake_raw.set_aside stored on stored.dead_letter_id = dead.id
    where dead.team_id = ${teamId} and position(convert_to(${id}, 'UTF8') in stored.body) > 0`.execute(db)
  const theirs = rows.filter(({ stream, body }) => {
    if (id.length >= UNMISTAKABLE) return true
    return isOfPatient(stream === INBOX ? undefined : streamNamed(stream), body, patient)
  })
  const ids = theirs.map((row) => row.id)
  await sql`delete from intake_ops.dead_letters where id = any(${ids}::bigint[])`.execute(db)
  return ids.length
}

function isOfPatient(stream: Stream | undefined, body: Buffer, { id }: Patient): boolean {
  const { own, others } = subjectsOfBody(stream, body)
  const all = own === null ? others : [own, ...others]
  return all.some((subject) => subject.stream === PERSONS.name && subject.id === id)
}
