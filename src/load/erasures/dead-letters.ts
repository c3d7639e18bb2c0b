/**
 * Dead letters without those that hold what is an erased patient's.
 *
 * Invariant: a letter is kept only when neither its record nor its body tells of somebody who was erased; a body that
 * cannot be read is searched for words that are an erased patient's id.
 */
import type { Kysely } from 'kysely'
import { referenceId } from '../../core/identifiers.ts'
import { isObject, parseJson } from '../../core/json.ts'
import { INBOX, type StreamOrInbox } from '../../core/streams.ts'
import type { DeadLetter } from '../../normalize/dead-letter.ts'
import { streamNamed, streamOfSource } from '../../streams/catalogue.ts'
import type { Stream } from '../../streams/stream.ts'
import { namedIn, type Subject } from '../../streams/subjects.ts'
import type { Warehouse } from '../../warehouse/tables.ts'
import { countSkipped, type Erasures, erasedAmong, openErasures } from './erasures.ts'

/** Within the transaction that sets them aside. */
export async function withoutErasedDeadLetters(
  db: Kysely<Warehouse>,
  place: { readonly teamId: number; readonly stream: StreamOrInbox },
  letters: readonly DeadLetter[],
): Promise<readonly DeadLetter[]> {
  const erasures = letters.length === 0 ? null : await openErasures(db, place.teamId)
  if (erasures === null) return letters
  const kept: DeadLetter[] = []
  for (const letter of letters) {
    if (!(await isErased(db, erasures, subjectsOfLetter(place.stream, letter)))) kept.push(letter)
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

/** All that a letter may be about. */
function subjectsOfLetter(
  name: StreamOrInbox,
  { recordId: id, body }: Pick<DeadLetter, 'recordId' | 'body'>,
): readonly Subject[] {
  const bytes = typeof body === 'string' ? Buffer.from(body) : body
  const stream = name === INBOX ? undefined : streamNamed(name)
  const own = stream === undefined || id === null ? [] : [{ stream: stream.name, id }]
  const told = subjectsOfBody(stream, bytes)
  return [...own, ...(told.own === null ? [] : [told.own]), ...told.others]
}

export interface Told {
  /** What the body is about. */
  readonly own: Subject | null
  /** Whom it names, or may name. */
  readonly others: readonly Subject[]
}

/** Of a record or an event, as bytes; `stream` is that of a record, where it is known. */
export function subjectsOfBody(stream: Stream | undefined, body: Buffer): Told {
  let value: unknown
  try {
    value = parseJson(body).value
  } catch {
    return wordsIn(body)
  }
  if (!isObject(value)) return wordsIn(body)
  const { source, data } = value
  const told = typeof source === 'string' && 'event_type' in value ? streamOfSource(source) : undefined
  if (told !== undefined) return subjectsOf(told, data)
  return stream === undefined ? wordsIn(body) : subjectsOf(stream, value)
}

/** `record` may be its id alone. */
function subjectsOf(stream: Stream, record: unknown): Told {
  const own = referenceId(record)
  return {
    own: own.kind === 'id' ? { stream: stream.name, id: own.id } : null,
    others: isObject(record) ? namedIn(stream, record) : [],
  }
}

/** What may be a patient's id in a body that cannot be read; a word or two says too little to be one. */
function wordsIn(body: Buffer): Told {
  const words = new Set(body.toString('utf8').match(/[\w.:-]{8,100}/g) ?? [])
  return { own: null, others: [...words].map((id) => ({ stream: 'patients', id })) }
}
