/**
 * Removes dead letters of erased patients.
 *
 * Invariant: a dead letter is kept only if neither its record nor its body refers to an erased patient; a body that
 * cannot be parsed is searched for words that are the id of one.
 */
import { type Kysely, sql } from 'kysely'
import { INBOX, type StreamOrInbox } from '../core/envelope.ts'
import { referenceId } from '../core/identifiers.ts'
import { isObject, parseBounded } from '../core/json.ts'
import type { DeadLetter } from '../normalize/read-record.ts'
import { PERSONS, streamNamed, streamOfSource } from '../streams/catalogue.ts'
import type { Stream } from '../streams/stream.ts'
import { type Subject, subjectsNamedIn } from '../streams/subjects.ts'
import { warehouseError } from '../warehouse/sqlstate.ts'
import type { Warehouse } from '../warehouse/tables.ts'
import { countSkipped, type Erasures, erasedAmong, openErasures } from './erasures.ts'

/** Within the transaction that stores them. */
export async function withoutErasedDeadLetters(
  db: Kysely<Warehouse>,
  place: { readonly teamId: number; readonly stream: StreamOrInbox },
  deadLetters: readonly DeadLetter[],
): Promise<readonly DeadLetter[]> {
  const erasures = deadLetters.length === 0 ? null : await openErasures(db, place.teamId)
  if (erasures === null) return deadLetters
  const kept: DeadLetter[] = []
  for (const deadLetter of deadLetters) {
    if (!(await isErased(db, erasures, subjectsOf(place.stream, deadLetter)))) kept.push(deadLetter)
  }
  return kept
}

async function isErased(
  db: Kysely<Warehouse>,
  erasures: Erasures,
  subjects: readonly Subject[],
): Promise<boolean> {
  const found = await erasedAmong(db, subjects.map(erasures.hashOf))
  const patient = [...found.values()][0]
  if (patient === undefined) return false
  await countSkipped(db, erasures, [{ hash: patient, patient, times: 1 }])
  return true
}

/** All records that a dead letter may refer to. */
function subjectsOf(
  name: StreamOrInbox,
  { recordId: id, body }: Pick<DeadLetter, 'recordId' | 'body'>,
): readonly Subject[] {
  const bytes = typeof body === 'string' ? Buffer.from(body) : body
  const stream = name === INBOX ? undefined : streamNamed(name)
  const self = stream === undefined || id === null ? [] : [{ stream: stream.name, id }]
  const named = subjectsOfBody(stream, bytes)
  return [...self, ...(named.own === null ? [] : [named.own]), ...named.others]
}

export interface BodySubjects {
  /** The record itself. */
  readonly own: Subject | null
  /** Patients that it names, or may name. */
  readonly others: readonly Subject[]
}

/** The subjects of a record or an event, as bytes; `stream` is that of a record, if known. */
export function subjectsOfBody(stream: Stream | undefined, body: Buffer): BodySubjects {
  let value: unknown
  try {
    value = parseBounded(body).value
  } catch {
    return wordsIn(body)
  }
  if (!isObject(value)) return wordsIn(body)
  const { source, data } = value
  const ofEvent = typeof source === 'string' && 'event_type' in value ? streamOfSource(source) : undefined
  if (ofEvent !== undefined) return subjectsOfRecord(ofEvent, data)
  return stream === undefined ? wordsIn(body) : subjectsOfRecord(stream, value)
}

/** `record` may be its id alone. */
function subjectsOfRecord(stream: Stream, record: unknown): BodySubjects {
  const id = referenceId(record)
  return {
    own: id.kind === 'id' ? { stream: stream.name, id: id.id } : null,
    others: isObject(record) ? subjectsNamedIn(stream, record) : [],
  }
}

/** Possible patient ids in a body that cannot be parsed; shorter words are no ids. */
function wordsIn(body: Buffer): BodySubjects {
  const words = new Set(body.toString('utf8').match(/[\w.:-]{8,100}/g) ?? [])
  return { own: null, others: [...words].map((id) => ({ stream: PERSONS.name, id })) }
}

/** Bodies removed by one statement. */
const PORTION = 1_000

/**
 * Removes the bodies of dead letters that were settled `days` (INTAKE_INBOX_DAYS) ago, which are health data. Returns how
 * many were removed.
 *
 * Invariant: the dead letters themselves stay, with reason, record and status; waiting ones keep their bodies. Waits for no
 * lock: a locked body is left to the next call.
 */
export async function removeSettledBodies(
  db: Kysely<Warehouse>,
  { days, now }: { readonly days: number; readonly now: Date },
): Promise<number> {
  const before = new Date(now.getTime() - days * 86_400_000).toISOString()
  try {
    for (let removed = 0; ; ) {
      const { numAffectedRows } = await sql`
        delete from intake_raw.set_aside where dead_letter_id = any(array(
          select body.dead_letter_id
          from intake_ops.dead_letters dead join intake_raw.set_aside body on body.dead_letter_id = dead.id
          where dead.settled_at < ${before} and dead.status <> 'waiting'
          limit ${PORTION} for update of body skip locked
        ))`.execute(db)
      const count = Number(numAffectedRows ?? 0n)
      removed += count
      if (count < PORTION) return removed
    }
  } catch (error) {
    throw warehouseError(error)
  }
}
