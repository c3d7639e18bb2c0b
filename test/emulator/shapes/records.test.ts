/** What each shape makes of a record, without a service: the records themselves stay as they are. */
import { describe, expect, it } from 'vitest'
import { shapeNamed } from '../../../src/emulator/shapes/catalogue.ts'

const ID = '1b4e28ba-2fa1-41d2-883f-0016d3cca427'
const OTHER = '6fa459ea-ee8a-4ca4-894e-db77e160355e'

const question = (id: string, place: object = {}) => ({
  ...{ id, text: 'Q', question_type: { question_type: 'single_choice', question_subtype: 'radio' } },
  choices: [{ id: 'c1', text_value: 'Yes' }],
  ...place,
})
const form = { id: 'f', name: '', text: '', created_at: 'c', updated_at: 'u', questions: [question('q')] }
const packet = { id: 'p', name: 'P', text: '', forms: [{ id: 'f', name: 'F' }] }
const document = { id: 'd', name: 'D', input_fields: [{ id: 'i', name: 'sig', page: 1 }] }
const patient = {
  ...{ id: 'a', first_name: '', last_name: 'L', email: null, address: '', city: 'Ulm' },
  ...{ emergency_contact: null, patient_tags: [], custom_fields: { plan: 'gold', kids: '2', zip: '007' } },
}

const shown = (shape: string, resource: string, record: object, inList = true) => {
  const before = structuredClone(record)
  const changed = shapeNamed(shape, '1').record(record as never, { resource, inList })
  expect(record).toEqual(before)
  return changed
}

describe('a record', () => {
  const { created_at: _created, updated_at: _updated, ...timeless } = form
  const { email: _email, address: _address, emergency_contact: _none, patient_tags: _tags, ...full } = patient
  const { input_fields: _fields, ...bare } = document

  it.each<[string, string, object, object]>([
    ['no-timestamps', 'forms', form, timeless],
    ['null-optionals', 'patients', patient, { ...patient, address: null, patient_tags: null }],
    ['null-optionals', 'forms', { ...form, questions: [] }, { ...form, text: null, questions: [] }],
    ['null-optionals', 'packets', { ...packet, forms: [] }, { ...packet, text: null, forms: [] }],
    [
      'absent-optionals',
      'forms',
      { ...form, text: 'T', questions: [] },
      { ...form, text: 'T', questions: [] },
    ],
    ['absent-optionals', 'packets', { ...packet, forms: [] }, { id: 'p', name: 'P', forms: [] }],
    ['absent-optionals', 'patients', patient, full],
    ['empty-contact', 'patients', patient, { ...patient, emergency_contact: {} }],
    [
      'empty-contact',
      'patients',
      { ...patient, emergency_contact: { a: 'b' } },
      { ...patient, emergency_contact: { a: 'b' } },
    ],
    [
      'question-type-string',
      'forms',
      form,
      { ...form, questions: [{ ...question('q'), question_type: 'single_choice' }] },
    ],
    ['bare-choices', 'forms', form, { ...form, questions: [{ ...question('q'), choices: ['Yes'] }] }],
    ['forms-as-ids', 'packets', packet, { ...packet, forms: ['f'] }],
    [
      'input-fields-object',
      'documents',
      document,
      { ...document, input_fields: { sig: { id: 'i', page: 1 } } },
    ],
    ['input-fields-null', 'documents', document, { ...document, input_fields: null }],
    ['input-fields-null', 'documents', bare, bare],
    ['input-fields-absent', 'documents', document, bare],
  ])('in the shape %s, of %s, is written so', (shape, resource, record, expected) => {
    expect(shown(shape, resource, record)).toEqual(expected)
    expect(shown(shape, resource, record, false)).toEqual(expected)
  })

  it('is a summary in a list, and whole by id, in the shape summary-lists', () => {
    for (const [resource, record, left] of [
      ['forms', form, 'questions'],
      ['packets', packet, 'forms'],
      ['documents', document, 'input_fields'],
    ] as const) {
      expect(shown('summary-lists', resource, record)).not.toHaveProperty(left)
      expect(shown('summary-lists', resource, record, false)).toEqual(record)
    }
  })

  it('has fields that nobody described, also in its questions, those of a packet too', () => {
    const changed = shown('unknown-fields', 'forms', form)
    expect(changed).toMatchObject({ ...form, questions: [{ ...question('q'), is_scored: false }] })
    expect(Object.keys(changed)).toEqual([...Object.keys(form), 'rev', 'audit'])
    const inPacket = shown('unknown-fields', 'packet_responses', { id: 'x', packet: { forms: [form] } })
    expect(inPacket).toMatchObject({ packet: { forms: [{ questions: [{ is_scored: false }] }] } })
  })

  it('has a text that is difficult to store, and the others as they were', () => {
    const { last_name, ...rest } = shown('naughty-text', 'patients', patient)
    expect(last_name).toMatch(/^L\u0000\ud83d/)
    expect(rest).toEqual((({ last_name: _, ...others }) => others)(patient))
    expect(shown('naughty-text', 'webhooks', { id: 'w' })).toEqual({ id: 'w' })
  })

  it('has custom fields of other types, and no digits of them are lost', () => {
    const { custom_fields } = shown('non-string-custom-fields', 'patients', patient)
    expect(custom_fields).toMatchObject({ kids: 2, zip: expect.not.stringMatching(/^7$/) })
    expect(Object.values(custom_fields as object).some((value) => typeof value !== 'string')).toBe(true)
    const fields = {
      a: 'xxxx',
      b: '12.5 kg',
      c: 'xx',
      d: 'xxx',
      e: 'x-y-z-',
      n: '123456',
      m: '1234567',
      z: '0',
    }
    const changed = shown('non-string-custom-fields', 'patients', { custom_fields: fields })
    expect(changed).toEqual({
      custom_fields: {
        a: { value: 'xxxx' },
        b: true,
        c: true,
        d: null,
        e: 'x-y-z-',
        n: 123456,
        m: true,
        z: 0,
      },
    })
    expect(shown('non-string-custom-fields', 'forms', form)).toEqual(form)
  })

  it('has its questions in pages, sections and rows by their numbers', () => {
    const questions = [
      question('q0', { page: 10, section: 1, row: 1 }),
      question('q1', { page: 2, section: 10, row: 1 }),
      question('q2', { page: 2, section: 9, row: 1 }),
      question('q3', { page: 1, section: 1, row: 11 }),
      question('q4', { page: 1, section: 1, row: 3 }),
    ]
    const { pages, ...rest } = shown('nested-questions', 'forms', { ...form, questions })
    const places = (
      pages as {
        number: number
        sections: { number: number; rows: { number: number; questions: { id: string }[] }[] }[]
      }[]
    ).flatMap((page) =>
      page.sections.flatMap((section) =>
        section.rows.flatMap((row) =>
          row.questions.map(({ id }) => [page.number, section.number, row.number, id]),
        ),
      ),
    )
    expect(places).toEqual([
      [1, 1, 3, 'q4'],
      [1, 1, 11, 'q3'],
      [2, 9, 1, 'q2'],
      [2, 10, 1, 'q1'],
      [10, 1, 1, 'q0'],
    ])
    expect(rest).not.toHaveProperty('questions')
  })
})

it('the parts of a question that was answered several times are in its first answer, and there once', () => {
  const [first, second] = ['q1', 'q2'].map((id) => ({ question: { id }, answer_text: null }))
  const file = (id: string, name: string) => ({ id: name, question: { id }, name })
  const response = {
    ...{ id: 'r', answers: [first, second, first, { question: null }] },
    ...{ matrix_cells: [], files: [file('q1', 'a'), file('q2', 'b'), file('q1', 'c')], e_signatures: [] },
  }
  const names = [
    { id: 'a', name: 'a' },
    { id: 'c', name: 'c' },
  ]
  expect(shown('nested-parts', 'responses', response)).toEqual({
    id: 'r',
    answers: [
      { ...first, files: names },
      { ...second, files: [{ id: 'b', name: 'b' }] },
      first,
      { question: null },
    ],
  })
})

describe('an id', () => {
  const record = {
    ...{
      id: ID,
      patient: OTHER,
      form_id: OTHER,
      block: OTHER,
      row: OTHER,
      column: 'Dose',
      webhook_config: OTHER,
    },
    ...{ text: OTHER, event_id: OTHER, responses: [OTHER], custom_fields: { id: ID, form: OTHER } },
    answers: { [ID]: { id: OTHER }, q: { question_id: ID } },
    parts: [{ id: ID }, null],
  }
  const numbers = { [ID]: 0x1b4e28ba2fa1, [OTHER]: 0x6fa459eaee8a }

  it('is a number wherever it names a record, and nowhere else, in the shape numeric-ids', () => {
    const [own, other] = [numbers[ID], numbers[OTHER]]
    expect(shown('numeric-ids', 'responses', record)).toEqual({
      ...record,
      ...{ id: own, patient: other, form_id: other, block: other, row: other, webhook_config: other },
      responses: [other],
      answers: { [String(own)]: { id: other }, q: { question_id: own } },
      parts: [{ id: own }, null],
    })
  })

  it('is named uid at every depth, and is the same, in the shape uid-ids', () => {
    const { id: _, ...rest } = record
    expect(shown('uid-ids', 'responses', record)).toEqual({
      ...rest,
      uid: ID,
      answers: { [ID]: { uid: OTHER }, q: { question_id: ID } },
      parts: [{ uid: ID }, null],
    })
  })

  it('is written alike where answers are null, whatever else the shape changes', () => {
    const response = { id: ID, answers: [], files: [{ id: OTHER }] }
    expect(shown('null-optionals+uid-ids', 'responses', response)).toEqual({
      ...{ uid: ID, answers: null, files: [{ uid: OTHER }] },
    })
  })

  it('in a path is the number of one record, or of none', () => {
    const ids = { withPrefix: (hex: string) => `id ${hex}` }
    const [numeric, huge] = [shapeNamed('numeric-ids', '1'), shapeNamed('huge-ids', '1')]
    expect(numeric.id(String(numbers[ID]), ids)).toBe('id 1b4e28ba2fa1')
    expect(numeric.id('7', ids)).toBe('id 000000000007')
    expect(['x', '', '12345678901234567', ID].map((text) => numeric.id(text, ids))).toEqual(
      Array(4).fill(undefined),
    )
    const written = huge.idText(ID)
    expect(huge.id(written, ids)).toBe('id 1b4e28ba2fa141d')
    // Sixteen digits that do not begin as such a number does.
    expect([String(0x2b4e28ba2fa141d2n), '7', 'x'].map((text) => huge.id(text, ids))).toEqual(
      Array(3).fill(undefined),
    )
  })
})
