/**
 * Builds the seed of a world from its sizes and the imports.
 *
 * Invariant: a record of an index is the same each time it is generated; forms, packets and documents, which are few,
 * are cached.
 */
import { keyOf } from '../draw.ts'
import { IdSpace } from '../id-space.ts'
import type { Response } from '../records.ts'
import { makeDocument, makeForm, makePacket } from './make-form.ts'
import { makeImported } from './make-imported.ts'
import { makePatient, makePerson } from './make-patient.ts'
import { headOf, makeResponse } from './make-response.ts'
import type { Head, Imported, Seed, Sizes } from './seed.ts'
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
  const members = Array.from({ length: Math.min(formCount - firstMember, MEMBERS) }, (_, at) =>
    forms!.ids.idAt(firstMember + at),
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
