/**
 * Builds the seed of a world from its sizes and the imports.
 *
 * Invariant: a record of an index is the same each time it is generated; forms, packets and documents, which are few,
 * are cached.
 */
import { stamp } from '../../clock.ts'
import { Draw, IdSpace, keyOf, stableId } from '../draw.ts'
import type { Response } from '../records.ts'
import { makeDocument, makeForm, makePacket } from './make-form.ts'
import { makePatient, makePerson, WORLD_START } from './make-patient.ts'
import { headOf, makeResponse } from './make-response.ts'
import type { Head, Imported, Seed, Sizes, Survey } from './seed.ts'
import { planRound, Visits } from './visits.ts'

/** Number of forms that packets choose their members from. */
const MEMBERS = 50

export function openSeed(path: readonly (string | number)[], sizes: Sizes, imported: Imported): Seed {
  const space = (source: string) => {
    const key = keyOf(...path, source)
    return { key, ids: new IdSpace(key) }
  }
  const [patients, forms, packets, documents] = ['patient', 'form', 'packet', 'document'].map(space)
  const formCount = imported.forms.length + sizes.forms
  const answeredAlready = imported.surveys.length
  const firstMember = sizes.forms > 0 ? imported.forms.length : answeredAlready
  const members = Array.from({ length: Math.min(formCount - firstMember, MEMBERS) }, (_, index) =>
    forms!.ids.idAt(firstMember + index),
  )
  const makePacketAt = kept((index) => makePacket(packets!.ids, packets!.key, index, members))
  const patientCount = imported.patients.length + sizes.patients
  const rows = imported.surveys.reduce((sum, survey) => sum + survey.rows.length, 0)
  const known = Array.from({ length: Math.min(sizes.packets, MEMBERS) }, (_, index) => ({
    index,
    members: makePacketAt(index).forms.length,
  }))
  const plans = planRound({
    forms: formCount - answeredAlready,
    documents: sizes.documents,
    packets: known,
    fullForm: firstMember,
  })
  const visits = new Visits(patientCount === 0 ? [] : plans, sizes.responses)
  return {
    imported,
    visits,
    before: rows,
    key: keyOf(...path, 'visit'),
    sizes: {
      patients: patientCount,
      forms: formCount,
      packets: sizes.packets,
      documents: sizes.documents,
      responses: rows + visits.responses,
    },
    patients: {
      count: patientCount,
      ids: patients!.ids,
      make: (index) => {
        const person = imported.patients[index]
        const made = makePatient(patients!.ids, patients!.key, index)
        if (person === undefined) return made
        return { id: made.id, ...person, created_at: made.created_at, updated_at: made.updated_at }
      },
    },
    forms: {
      count: formCount,
      first: answeredAlready,
      ids: forms!.ids,
      make: kept((index) => {
        const build = imported.forms[index]
        return build === undefined
          ? makeForm(forms!.ids, forms!.key, index, index - imported.forms.length)
          : build(forms!.ids, forms!.key, index)
      }),
    },
    packets: { ids: packets!.ids, make: makePacketAt },
    documents: {
      count: sizes.documents,
      ids: documents!.ids,
      make: kept((index) => makeDocument(documents!.ids, documents!.key, index)),
    },
    responseIds: space('response').ids,
    messageIds: space('message').ids,
    packetResponseIds: space('packet_response').ids,
    exportIds: space('export').ids,
    person: (index) => {
      const { id, ...made } = makePerson(patients!.ids, patients!.key, index)
      return { id, ...(imported.patients[index] ?? made) }
    },
  }
}

/** The filtered fields of a seeded or imported response. */
export function seededHead(seed: Seed, index: number): Head {
  return index < seed.before ? makeImported(seed, index).head : headOf(seed, index - seed.before)
}

/** A seeded or imported response in full. */
export function seededResponse(seed: Seed, index: number): Response {
  return index < seed.before ? makeImported(seed, index).response() : makeResponse(seed, index - seed.before)
}

const KEPT = 2000

/** `make` with a cache of at most `KEPT` results. */
function kept<T>(make: (index: number) => T): (index: number) => T {
  const made = new Map<number, T>()
  return (index) => {
    let found = made.get(index)
    if (found === undefined) {
      found = make(index)
      if (made.size >= KEPT) made.clear()
      made.set(index, found)
    }
    return found
  }
}

/**
 * Generates the responses of imported surveys.
 *
 * Invariant: each row of a survey is one submitted response of its own client, each cell the answer to the question of
 * its column; an empty cell is an unanswered question.
 */
const DAY = 86_400_000_000

interface Row {
  readonly survey: Survey
  readonly at: number
}

function rowOf(seed: Seed, index: number): Row {
  let at = index
  for (const survey of seed.imported.surveys) {
    if (at < survey.rows.length) return { survey, at }
    at -= survey.rows.length
  }
  throw new RangeError('no imported response has this index')
}

/** `index` is less than the number of imported responses. */
function makeImported(seed: Seed, index: number): { head: Head; response: () => Response } {
  const { survey, at } = rowOf(seed, index)
  const draw = new Draw(seed.key, -1_000_000 - index)
  const created = WORLD_START + Math.floor(draw.share() * 300 * DAY)
  const submitted = created + 60_000_000 + Math.floor(draw.share() * DAY)
  const patient = survey.firstPatient + at
  const head = { patient, form: survey.form, packet: null, submitted, skipped: false }
  return { head, response: () => build(seed, index, { survey, at }, head, created, submitted) }
}

function build(
  seed: Seed,
  index: number,
  row: Row,
  head: Head,
  created: number,
  submitted: number,
): Response {
  const form = seed.forms.make(row.survey.form)
  const cells = row.survey.rows[row.at]!
  return {
    id: seed.responseIds.idAt(index),
    patient: seed.patients.ids.idAt(head.patient),
    form: form.id,
    form_name: form.name,
    packet: null,
    document: null,
    message: null,
    packet_response: null,
    created_at: stamp(created),
    updated_at: stamp(submitted),
    submitted_at: stamp(submitted),
    is_submitted: true,
    is_skipped: false,
    is_archived: false,
    answers: form.questions.map(({ id, text }, column) => ({
      id: stableId(seed.key, -1 - index, column),
      question: { id, text },
      answer_text: cells[column] || null,
      answer_choices: [],
    })),
    matrix_cells: [],
    files: [],
    e_signatures: [],
  }
}
