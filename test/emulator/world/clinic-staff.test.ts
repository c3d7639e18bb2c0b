/** Answers that staff write by hand, to several responses at the same moment, and what refuses them. */
import { beforeEach, expect, it } from 'vitest'
import { ServiceClock, stamp, Timeline } from '../../../src/emulator/clock.ts'
import { openResponse } from '../../../src/emulator/world/clinic-responses.ts'
import { type Staff, staffOf } from '../../../src/emulator/world/clinic-staff.ts'
import type { Form } from '../../../src/emulator/world/records.ts'
import { placeQuestions } from '../../../src/emulator/world/seeded/make-form.ts'
import { World } from '../../../src/emulator/world/world.ts'
import { stillAt } from '../still-clock.ts'

const NOON = Date.parse('2026-03-01T12:00:00Z') * 1000
const QUESTIONS = [
  { type: 'short_text', text: 'Text' },
  { type: 'checkbox', text: 'Ticks', choices: ['Yes', 'No', 'Perhaps', ''] },
  { type: 'matrix', text: 'Table', rows: ['r1', 'r2'], columns: ['c1', 'c2'] },
  { type: 'matrix', text: 'Other table', rows: ['r1', 'r3'], columns: ['c1', 'c3'] },
  { type: 'file', text: 'File' },
  { type: 'signature', text: 'Signed' },
] as const

let world: World
let service: ServiceClock
let staff: Staff
let form: Form
let questions: string[]

beforeEach(() => {
  const clock = stillAt(NOON)
  service = new ServiceClock(clock, 1)
  const sizes = { patients: 3, forms: 1, packets: 0, documents: 1, responses: 0 }
  const nobody = { patients: [], forms: [], surveys: [] }
  world = new World(['staff'], sizes, nobody, service, new Timeline(service, clock))
  staff = staffOf(world)
  const times = { created_at: world.now(), updated_at: world.now() }
  form = world.forms.create((id, index) => ({
    ...{ id, name: 'New', text: '', enabled: true, ...times },
    questions: placeQuestions({ questions: QUESTIONS }, world.key, index),
  }))
  questions = form.questions.map(({ id }) => id)
})

const open = (of: object = {}) =>
  openResponse(world, {
    ...{ patient: world.patients.at(0)!.id, form: form.id, packet: null, document: null },
    ...{ message: null, packet_response: null, ...of },
  }).id
const given = (...values: unknown[]) =>
  Object.fromEntries(values.flatMap((value, at) => (value === undefined ? [] : [[questions[at]!, value]])))
const cellsIn = (matrix_cells: ReturnType<Staff['answer']>['matrix_cells']) =>
  matrix_cells.map(({ question, row, column, answer_text }) => [
    ...[questions.indexOf(question.id), row.text, column.text, answer_text],
  ])

it('they have different ids in each response, and new ones when they are saved again later', () => {
  const file = { name: 'a.pdf', content_type: 'application/pdf', size: '7' }
  const all = given('x', ['Yes', 'Perhaps'], { r1: 'c1' }, undefined, file, 'Zoë')
  const saved = [open(), open()].map((id) => staff.answer(id, all))
  const ids = saved.flatMap((one) => [one.answers, one.files, one.e_signatures].flat().map(({ id }) => id))
  expect([ids.length, new Set(ids).size]).toEqual([14, 14])
  const [first] = saved
  service.advance(1_000)
  const { answers } = staff.answer(first!.id, given('x', ''))
  expect(answers[1]!.answer_choices).toEqual([{ question_choice: form.questions[1]!.choices[3] }])
  for (const { id } of answers) expect(ids).not.toContain(id)
  expect(
    first!.answers.map(({ question, answer_text, answer_choices }) => [
      ...[question, answer_text, answer_choices!.map(({ question_choice }) => question_choice.text_value)],
    ]),
  ).toEqual([
    [{ id: questions[0], text: 'Text' }, 'x', []],
    [{ id: questions[1], text: 'Ticks' }, null, ['Yes', 'Perhaps']],
    ...[2, 4, 5].map((at) => [{ id: questions[at], text: form.questions[at]!.text }, null, []]),
  ])
  expect(first!.files).toEqual([{ ...file, size: 7, id: expect.any(String), question: { id: questions[4] } }])
  expect(first!.e_signatures).toEqual([
    {
      ...{ id: expect.any(String), question: { id: questions[5] }, signed_at: stamp(NOON) },
      ...{ signer_name: 'Zoë', image: 'inline' },
    },
  ])
})

it('rows and columns of a table are named by text or id; the text of a cell may be a number, a boolean or null', () => {
  const { rows, columns } = form.questions[2]!
  const own = { [rows![0]!.id]: columns![1]!.id, r2: { [columns![0]!.id]: 5, c2: false } }
  const { matrix_cells } = staff.answer(
    open(),
    given(undefined, undefined, own, { r3: { c3: null, c1: '' } }),
  )
  expect(cellsIn(matrix_cells)).toEqual([
    ...[
      [2, 'r1', 'c2', 'c2'],
      [2, 'r2', 'c1', '5'],
      [2, 'r2', 'c2', 'false'],
    ],
    ...[
      [3, 'r3', 'c3', 'c3'],
      [3, 'r3', 'c1', ''],
    ],
  ])
  for (const [at, value, what] of [
    [2, { r3: 'c1' }, 'row'],
    [3, { r1: 'c2' }, 'column'],
    [3, { [rows![0]!.id]: 'c1' }, 'row'],
  ] as const)
    expect(() => staff.answer(open(), { [questions[at]!]: value })).toThrow(
      new RangeError(`question ${questions[at]} has no such ${what}`),
    )
  for (const value of [5, ['c1']])
    expect(() => staff.answer(open(), { [questions[2]!]: { r1: value } })).toThrow(
      `question ${questions[2]} requires an object`,
    )
})

it('what cannot be answered is refused with the reason, and nothing is saved of it', () => {
  const [id, document] = [open(), open({ form: null, document: world.documents.at(0)!.id })]
  for (const [action, reason] of [
    [() => staff.answer('none'), 'no such response'],
    [() => staff.answer(id, { none: 'x', ...given('x') }), 'the form has no question none'],
    [() => staff.answer(id, given('x', ['Yes', 'Maybe'])), `question ${questions[1]} has no such choice`],
    [() => staff.answer(id, given({})), `question ${questions[0]} requires a text`],
    [() => staff.answer(id, given(['x'])), `question ${questions[0]} requires a text`],
    [() => staff.answer(document, {}), 'its form is gone'],
    [() => staff.submit('none'), 'no such response'],
    [() => staff.archive('none'), 'no such response'],
    [() => staff.remove('none'), 'no such response'],
    [() => staff.advancePacket('none'), 'no such packet response'],
    [() => staff.submitPacket('none'), 'no such packet response'],
    [() => staff.archivePacket('none'), 'no such packet response'],
  ] as const)
    expect(action).toThrow(new RangeError(reason))
  expect(world.responses.get(id)).toMatchObject({ answers: [], updated_at: stamp(NOON) })
  world.forms.remove(form.id)
  expect(() => staff.answer(id, {})).toThrow(new RangeError('its form is gone'))
})

it('staff invent different answers each time, and the same sequence in each new world', () => {
  const invented = (of: Staff) => [1, 2, 3].map(() => of.answer(open()).answers.map(({ id }) => id))
  const [one, again] = [invented(staff), invented(staffOf(world))]
  expect(new Set(one.flat()).size).toBe(one.flat().length)
  expect(again).toEqual(one)
})
