/** Imported records come first, and the invented ones go on after them, whatever there is of either. */
import { describe, expect, it } from 'vitest'
import { readStamp, ServiceClock, Timeline } from '../../../../src/emulator/clock.ts'
import { NO_FIELDS } from '../../../../src/emulator/http/resources/patient-body.ts'
import { makeForm } from '../../../../src/emulator/world/seeded/make-form.ts'
import { seededHead } from '../../../../src/emulator/world/seeded/open-seed.ts'
import type { Imported, Sizes } from '../../../../src/emulator/world/seeded/seed.ts'
import { World } from '../../../../src/emulator/world/world.ts'
import { stillAt } from '../../still-clock.ts'

const people = [1, 2, 3, 4, 5].map((nth) => ({
  ...{
    ...NO_FIELDS,
    external_id: `E${nth}`,
    first_name: `P${nth}`,
    last_name: 'I',
    email: `p${nth}@example.com`,
  },
}))
/** Two surveys, of three and two rows, and two forms that anybody answers. */
const IMPORTED: Imported = {
  patients: people,
  forms: ['Survey A', 'Survey B', 'Own A', 'Own B'].map((name, nth) => (ids, key, at) => ({
    ...makeForm(ids, key, at, nth),
    name,
  })),
  surveys: [
    { form: 0, firstPatient: 0, rows: [['a1', '', 'a3'], ['b1'], ['c1', 'c2']] },
    {
      form: 1,
      firstPatient: 3,
      rows: [
        ['d1', 'd2'],
        ['', 'e2'],
      ],
    },
  ],
}

function worldOf(sizes: Partial<Sizes>, imported: Partial<Imported> = {}): World {
  const clock = stillAt(1_772_323_200_000_000)
  const service = new ServiceClock(clock, 1)
  const all = { patients: 6, forms: 3, packets: 4, documents: 2, responses: 60, ...sizes }
  return new World(['imports'], all, { ...IMPORTED, ...imported }, service, new Timeline(service, clock))
}

describe.each<[string, Partial<Sizes>]>([
  ['people and forms', {}],
  ['no people', { patients: 0 }],
  ['no forms', { forms: 0 }],
  ['no responses', { responses: 0 }],
])('a world with imports, and with %s of its own', (_, sizes) => {
  const world = worldOf(sizes)
  const responses = world.responses.slice(0, 1000)
  const [survey, others] = [responses.slice(0, 5), responses.slice(5)]
  const forms = world.forms.slice(0, 100)
  const patients = world.patients.slice(0, 100)

  it('has them first, and as many of its own as it is to have', () => {
    expect(patients.map(({ first_name }) => first_name).slice(0, 5)).toEqual(['P1', 'P2', 'P3', 'P4', 'P5'])
    expect([patients.length, responses.length]).toEqual([
      5 + (sizes.patients ?? 6),
      5 + (sizes.responses ?? 60),
    ])
    expect(forms.map(({ name }) => name)).toEqual([
      ...['Survey A', 'Survey B', 'Own A', 'Own B'],
      ...['Intake', 'Medication list', 'Mood check'].slice(0, sizes.forms ?? 3),
    ])
  })

  it('has one submitted response for each row of a survey, of its own client, with the texts of its cells', () => {
    const clients = survey.map(({ patient }) => world.patients.get(patient)!.first_name)
    expect(clients).toEqual(['P1', 'P2', 'P3', 'P4', 'P5'])
    expect(survey.map(({ form_name }) => form_name)).toEqual([
      ...['Survey A', 'Survey A', 'Survey A', 'Survey B', 'Survey B'],
    ])
    const texts = survey.map(({ answers }) => answers.slice(0, 3).map(({ answer_text }) => answer_text))
    expect(texts).toEqual([
      ...[
        ['a1', null, 'a3'],
        ['b1', null, null],
        ['c1', 'c2', null],
      ],
      ...[
        ['d1', 'd2', null],
        [null, 'e2', null],
      ],
    ])
    for (const { answers, form } of survey) {
      const { questions } = world.forms.get(form!)!
      expect(answers.map(({ question }) => question)).toEqual(questions.map(({ id, text }) => ({ id, text })))
    }
    const ids = survey.flatMap(({ answers }) => answers.map(({ id }) => id))
    expect(new Set(ids).size).toBe(ids.length)
    for (const { created_at, updated_at, submitted_at, is_submitted } of survey) {
      expect([is_submitted, updated_at]).toEqual([true, submitted_at])
      expect(readStamp(submitted_at!)!).toBeGreaterThanOrEqual(readStamp(created_at)! + 60_000_000)
    }
  })

  it('asks everybody for the other forms, and nobody for those of the surveys', () => {
    const asked = new Set(others.map(({ form_name }) => form_name))
    expect([asked.has('Survey A'), asked.has('Survey B')]).toEqual([false, false])
    if (others.length > 0) expect([asked.has('Own A'), asked.has('Own B')]).toEqual([true, true])
    // Packets are made of invented forms, or of imported ones where there are no others.
    const names = world.packets
      .slice(0, 10)
      .flatMap((packet) => packet.forms.map((id) => world.forms.get(id)!.name))
    const members = sizes.forms === 0 ? ['Own A', 'Own B'] : ['Intake', 'Medication list', 'Mood check']
    expect(new Set(names)).toEqual(new Set(members))
  })

  it('finds each response by what it shows', () => {
    for (const [index, one] of responses.entries()) {
      const head = seededHead(world.seed, index)
      const { patients, forms, packets } = world
      expect({ ...head, patient: patients.ids.idAt(head.patient) }).toEqual({
        ...{ patient: one.patient, skipped: one.is_skipped },
        form: one.form === null ? null : forms.ids.indexOf(one.form),
        packet: one.packet === null ? null : packets.ids.indexOf(one.packet),
        submitted: one.submitted_at === null ? null : readStamp(one.submitted_at),
      })
    }
    for (const { id, external_id, first_name, last_name, email } of patients)
      expect(world.person(id)).toEqual({ id, external_id, first_name, last_name, email })
  })
})

it('without patients, nothing is requested', () => {
  const world = worldOf({ patients: 0 }, { patients: [], surveys: [] })
  expect([world.responses.size, world.messages.size, world.packetResponses.size]).toEqual([0, 0, 0])
})

it.each([1, 2])('each of %i documents and forms is asked for, and no other', (count) => {
  const nothing = { patients: [], forms: [], surveys: [] }
  const world = worldOf({ documents: count, forms: count, responses: 300 }, nothing)
  const responses = world.responses.slice(0, 1000)
  const known = (table: { ids: { idAt(index: number): string } }) =>
    new Set(Array.from({ length: count }, (_, index) => table.ids.idAt(index)))
  const asked = (name: 'document' | 'form') => new Set(responses.flatMap((one) => one[name] ?? []))
  expect([asked('form'), asked('document')]).toEqual([known(world.forms), known(world.documents)])
})
