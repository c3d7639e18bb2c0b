/**
 * Events and dead letters that hold the patient's id in their bytes, wherever it stands there.
 *
 * Invariant: a body goes when it is about the patient or names them where a record names its patient; one that cannot
 * be read, when the id is a word in it. An id that is long enough to be nobody else's word need only be in it, unless it
 * is an event that waits to be loaded: what that tells of somebody else must not be lost.
 */
import { type Kysely, sql } from 'kysely'
import { INBOX, type StreamOrInbox } from '../../core/streams.ts'
import { subjectsOfBody } from '../../load/erasures/dead-letters.ts'
import { streamNamed } from '../../streams/catalogue.ts'
import type { Stream } from '../../streams/stream.ts'
import type { Warehouse } from '../../warehouse/tables.ts'
import type { Patient } from './find.ts'
import type { Removed } from './remove.ts'

/** In characters: as a UUID has, or half of one. */
const UNMISTAKABLE = 16

/** Bodies looked at together. */
const PORTION = 500

export async function removeBodies(db: Kysely<Warehouse>, patient: Patient, removed: Removed): Promise<void> {
  removed.events += await removeEvents(db, patient)
  removed.deadLetters += await removeLetters(db, patient)
}

async function removeEvents(db: Kysely<Warehouse>, patient: Patient): Promise<number> {
  const { teamId, id } = patient
  const holds = sql`team_id = ${teamId} and position(convert_to(${id}, 'UTF8') in body) > 0`
  let removed = 0
  if (id.length >= UNMISTAKABLE) {
    const { numAffectedRows } = await sql`
      delete from intake_raw.inbox where ${holds} and status <> 'pending'`.execute(db)
    removed += Number(numAffectedRows ?? 0n)
  }
  for (let after = '0'; ; ) {
    const { rows } = await sql<{ seq: string; body: Buffer }>`
      select seq, body from intake_raw.inbox where ${holds} and seq > ${after} order by seq limit ${PORTION}`.execute(
      db,
    )
    const theirs = rows.filter(({ body }) => isTheirs(undefined, body, patient)).map(({ seq }) => seq)
    await sql`delete from intake_raw.inbox where team_id = ${teamId} and seq = any(${theirs}::bigint[])`.execute(
      db,
    )
    removed += theirs.length
    if (rows.length < PORTION) return removed
    after = rows.at(-1)!.seq
  }
}

async function removeLetters(db: Kysely<Warehouse>, patient: Patient): Promise<number> {
  const { teamId, id } = patient
  const { rows } = await sql<{ id: string; stream: StreamOrInbox; body: Buffer }>`
    select letter.id, letter.stream, held.body
    from intake_ops.dead_letters letter join intake_raw.set_aside held on held.dead_letter_id = letter.id
    where letter.team_id = ${teamId} and position(convert_to(${id}, 'UTF8') in held.body) > 0`.execute(db)
  const theirs = rows.filter(({ stream, body }) => {
    if (id.length >= UNMISTAKABLE) return true
    return isTheirs(stream === INBOX ? undefined : streamNamed(stream), body, patient)
  })
  const ids = theirs.map((row) => row.id)
  await sql`delete from intake_ops.dead_letters where id = any(${ids}::bigint[])`.execute(db)
  return ids.length
}

function isTheirs(stream: Stream | undefined, body: Buffer, { id }: Patient): boolean {
  const { own, others } = subjectsOfBody(stream, body)
  const all = own === null ? others : [own, ...others]
  return all.some((subject) => subject.stream === 'patients' && subject.id === id)
}
