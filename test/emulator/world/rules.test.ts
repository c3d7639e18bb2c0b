/** What happens to responses and packets, in a world without a service: every rule holds for staff and activity alike. */
import { beforeEach, describe, expect, it } from 'vitest'
import { ServiceClock, Timeline } from '../../../src/emulator/clock.ts'
import { changeSomething } from '../../../src/emulator/world/clinic-changes.ts'
import { openResponse, setUpPacket } from '../../../src/emulator/world/clinic-responses.ts'
import { type Staff, staffOf } from '../../../src/emulator/world/clinic-staff.ts'
import { Draw, keyOf } from '../../../src/emulator/world/draw.ts'
import type { Answer, Form } from '../../../src/emulator/world/records.ts'
import type { QuestionPlan } from '../../../src/emulator/world/seeded/form-library.ts'
import { placeQuestions } from '../../../src/emulator/world/seeded/make-form.ts'
import { World } from '../../../src/emulator/world/world.ts'

const NOBODY = { patients: [], forms: [], surveys: [] }
const SIZES = { patients: 20, forms: 6, packets: 4, documents: 4, responses: 40 }

let world: World
let staff: Staff

beforeEach(() => {
  let micros = Date.parse('2026-03-01T00:00:00Z') * 1000
  const clock = { now: () => (micros += 1), sleep: () => new Promise<void>(() => {}) }
  const service = new ServiceClock(clock, 1)
  world = new World(['rules'], SIZES, NOBODY, service, new Timeline(service, clock))
  staff = staffOf(world)
})

const nothing = { packet: null, document: null, message: null, packet_response: null }
const patient = () => world.patients.at(0)!.id
const requested = (form: Form) => openResponse(world, { ...nothing, patient: patient(), form: form.id }).id
const packetOf = (members: number) => {
  const packet = world.packets.slice(0, 4).find(({ forms }) => forms.length >= members)!
  return {
    packet,
    set: setUpPacket(world, { patient: patient(), document: null, message: null, packet: packet.id }),
  }
}
const members = (id: string) =>
  world.packetResponses.get(id)!.responses.map((one) => world.responses.get(one)!)

function formOf(...questions: QuestionPlan[]): Form {
  const { key, forms } = world
  const times = { created_at: world.now(), updated_at: world.now() }
  return forms.create((id, index) => ({
    ...{ id, name: 'New', text: '', enabled: true, ...times },
    questions: placeQuestions({ questions }, key, index),
  }))
}

describe('a packet', () => {
  it('has a member for each of its forms that exists', () => {
    const { packet } = packetOf(3)
    world.forms.remove(packet.forms[1]!)
    const { set } = packetOf(3)
    expect(members(set.id).map(({ form }) => form)).toEqual(packet.forms.filter((_, at) => at !== 1))
  })

  it('is stamped by each step, and keeps the answers that were given before it is submitted', () => {
    const { set } = packetOf(3)
    const stamps = [set.updated_at]
    const next = staff.advancePacket(set.id)
    stamps.push(next.updated_at)
    const given = members(set.id)[0]!
    expect(given.answers.length).toBeGreaterThan(0)
    expect(given.updated_at > given.created_at).toBe(true)
    const done = staff.submitPacket(set.id)
    stamps.push(done.updated_at, staff.archivePacket(set.id).updated_at)
    expect(new Set(stamps).size).toBe(4)
    expect(stamps).toEqual(stamps.toSorted())
    expect(done.updated_at).toBe(done.submitted_at)
    const after = members(set.id)
    expect(after[0]!.answers).toEqual(given.answers)
    for (const one of after) {
      expect(one.answers.length).toBeGreaterThan(0)
      expect([one.submitted_at, one.updated_at]).toEqual([done.submitted_at, done.submitted_at])
    }
    expect(world.packetResponses.get(set.id)).toMatchObject({ is_archived: true, is_submitted: true })
  })

  it('keeps what a member was answered by itself', () => {
    const { set } = packetOf(3)
    const { answers } = staff.answer(set.responses[1]!)
    staff.advancePacket(set.id)
    staff.advancePacket(set.id)
    staff.submitPacket(set.id)
    expect(members(set.id)[1]!.answers).toEqual(answers)
  })

  it('that skips a member after it was answered leaves it without answers, which nobody gives it later', () => {
    const { set } = packetOf(3)
    staff.advancePacket(set.id)
    staff.submitPacket(set.id, [1])
    const [skipped, answered] = members(set.id)
    expect(skipped).toMatchObject({ is_skipped: true, is_submitted: true, answers: [], files: [] })
    expect(answered).toMatchObject({ is_skipped: false })
    expect(answered!.answers.length).toBeGreaterThan(0)
    expect(() => staff.answer(skipped!.id)).toThrow('it was skipped')
    expect(world.responses.get(skipped!.id)).toEqual(skipped)
  })

  it.each([[[0]], [[4]], [[1.5]], [[1, 9]]])('has no member at %j to skip, and stays open', (skip) => {
    const { set } = packetOf(3)
    expect(set.responses).toHaveLength(3)
    expect(() => staff.submitPacket(set.id, skip)).toThrow(RangeError)
    expect(world.packetResponses.get(set.id)).toEqual(set)
  })
})

it('a message of staff goes to the address of its patient, or to an invented one', () => {
  const to = (fields: object) => {
    world.patients.update(patient(), (old) => ({ ...old, ...fields }))
    return staff.send({ patient: patient(), form: world.forms.at(0)!.id }).target_email
  }
  const own = 'own@example.com'
  expect([to({ email: own }), to({ email: '' }), to({ email: null })]).toEqual([
    ...[own, 'someone@example.com', 'someone@example.com'],
  ])
})

describe('a response', () => {
  it('is stamped when it is saved, submitted and archived', () => {
    const id = requested(world.forms.at(0)!)
    const stamps = [world.responses.get(id)!.updated_at, staff.answer(id).updated_at]
    stamps.push(staff.submit(id).updated_at, staff.archive(id).updated_at)
    expect(new Set(stamps).size).toBe(4)
    expect(stamps).toEqual(stamps.toSorted())
  })

  it('has answers with ids of their own, whoever answers', () => {
    const form = world.forms.at(0)!
    const all = [1, 2, 3].flatMap(() => staff.answer(requested(form)).answers.map(({ id }) => id))
    expect(new Set(all).size).toBe(all.length)
  })

  it('is signed by its patient', () => {
    const form = formOf({ type: 'signature', text: 'Signed' })
    const { first_name, last_name } = world.patients.at(0)!
    expect(staff.answer(requested(form)).e_signatures).toMatchObject([
      { signer_name: `${first_name} ${last_name}` },
    ])
  })

  const said = ({ answer_text, answer_choices }: Answer) => [
    answer_text,
    ...(answer_choices ?? []).map(({ question_choice }) => question_choice.text_value),
  ]

  it('has the given choices, by text or id, also of a question in a block', () => {
    const choices = ['Yes', 'No']
    const form = formOf(
      { type: 'single_choice', text: 'One', choices },
      { type: 'single_choice', text: 'None', choices },
      {
        type: 'repeated_block',
        text: 'Block',
        members: [{ type: 'multiple_choice', text: 'Each', choices }],
      },
      { type: 'short_text', text: 'Text' },
    )
    const [one, none, , each, text] = form.questions
    const { answers } = staff.answer(requested(form), {
      ...{ [one!.id]: one!.choices[1]!.id, [none!.id]: null, [each!.id]: ['Yes', 'No'], [text!.id]: null },
    })
    expect(answers.map(said)).toEqual([[null, 'No'], [null], [null, 'Yes'], [null, 'No'], [null]])
    const lists = staff.answer(requested(form), { [each!.id]: [['Yes', 'No'], []] })
    expect(lists.answers.map(said)).toEqual([[null, 'Yes', 'No'], [null]])
    expect(() => staff.answer(requested(form), { [one!.id]: 'Perhaps' })).toThrow('no such choice')
    expect(() => staff.answer(requested(form), { [text!.id]: {} })).toThrow('requires a text')
  })

  it('has the given cells and files; a column alone is the answer of its row', () => {
    const form = formOf(
      { type: 'matrix', text: 'M', rows: ['r1', 'r2'], columns: ['Mild', 'Strong'] },
      { type: 'file', text: 'F' },
      { type: 'signature', text: 'S' },
    )
    const [matrix, file, signed] = form.questions.map(({ id }) => id)
    const given = { [matrix!]: { r1: 'Strong', r2: { Mild: 'x' } }, [file!]: {} }
    const { matrix_cells, files } = staff.answer(requested(form), given)
    expect(matrix_cells.map(({ row, column, answer_text }) => [row.text, column.text, answer_text])).toEqual([
      ['r1', 'Strong', 'Strong'],
      ['r2', 'Mild', 'x'],
    ])
    expect(files).toMatchObject([{ name: 'file', content_type: 'application/octet-stream', size: 0 }])
    const { e_signatures } = staff.answer(requested(form), { [signed!]: null })
    expect(e_signatures).toMatchObject([{ signer_name: '' }])
    for (const value of ['x', ['x'], null])
      for (const id of [matrix!, file!])
        expect(() => staff.answer(requested(form), { [id]: value })).toThrow(
          `question ${id} requires an object`,
        )
    expect(() => staff.answer(requested(form), { [matrix!]: { r1: 'Weak' } })).toThrow('no such column')
    expect(() => staff.answer(requested(form), { [matrix!]: { r9: 'Mild' } })).toThrow('no such row')
  })
})

it('activity stamps what it changes, and deletes no member of a packet', () => {
  let before = world.now()
  const late: string[] = []
  world.subscribe(({ source, type, row }) => {
    if (type !== 'deleted' && row.updated_at < before) late.push(`${source} ${type}`)
  })
  for (let nth = 0; nth < 1000; nth += 1) {
    before = world.now()
    changeSomething(world, new Draw(keyOf('rules'), nth))
  }
  expect(new Set(late)).toEqual(new Set())
  const { packetResponses, responses } = world
  const gone = packetResponses
    .slice(0, 1000)
    .flatMap((one) => one.responses.filter((id) => !responses.get(id)))
  expect(gone).toEqual([])
  expect(responses.size).toBeLessThan(responses.end)
})
