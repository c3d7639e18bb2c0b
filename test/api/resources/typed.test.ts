/** A record matches its shape, whatever was received; what does not is named, never shown. */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { z } from 'zod'
import { typed } from '../../../src/api/resources/typed.ts'
import { parseText } from '../../../src/core/json.ts'
import * as library from '../../../src/index.ts'

describe('a field of another type is left out and named', () => {
  test('at the top level, in an object and in a list', () => {
    const given = {
      id: 1,
      first_name: 5,
      email: null,
      emergency_contact: { city: ['Ulm'], state: 'BW', note: 1 },
      patient_tags: [{ name: 'a' }, 'VIP', { name: 3, color: '#fff' }, 7, { name: 'b' }],
      custom_fields: 'x',
      more: { deep: [1] },
    }
    expect(typed(library.Patient, given)).toEqual({
      record: {
        id: 1,
        email: null,
        emergency_contact: { state: 'BW', note: 1 },
        patient_tags: [{ name: 'a' }, { color: '#fff' }, { name: 'b' }],
        more: { deep: [1] },
      },
      problems: expect.arrayContaining([
        { path: 'first_name', expected: 'string' },
        { path: 'emergency_contact.city', expected: 'string' },
        { path: 'patient_tags.1', expected: 'object' },
        { path: 'patient_tags.2.name', expected: 'string' },
        { path: 'patient_tags.3', expected: 'object' },
        { path: 'custom_fields', expected: 'object' },
      ]),
    })
    expect(typed(library.Patient, given)!.problems).toHaveLength(6)
  })

  test('within the alternative that is of the kind of the value', () => {
    const given = {
      id: 'r',
      form: { id: 'f', name: 7 },
      answers: [
        { question: { id: 'q', text: 1 }, answer_choices: [{ question_choice: true }, 'Cane', null] },
      ],
    }
    const read = typed(library.Response, given)!
    expect(read.record).toEqual({
      id: 'r',
      form: { id: 'f' },
      answers: [{ question: { id: 'q' }, answer_choices: [{}, 'Cane'] }],
    })
    expect(read.problems.map(({ path }) => path).sort()).toEqual([
      'answers.0.answer_choices.0.question_choice',
      'answers.0.answer_choices.2',
      'answers.0.question.text',
      'form.name',
    ])
  })

  test('and other values are neither copied nor changed', () => {
    const given = Object.freeze({ id: 'p', first_name: 'Ann', more: Object.freeze({ first_name: 5 }) })
    expect(typed(library.Patient, given)).toEqual({ record: given, problems: [] })
  })
})

test('a number is one of JavaScript; an id beyond its integers is the text of its digits', () => {
  const given = parseText('{"id":9007199254740993,"total_rows":1e3,"error_count":-0,"more":1.50}')
  expect(typed(library.PatientUpload, given)).toEqual({
    record: { id: '9007199254740993', total_rows: 1000, error_count: -0, more: 1.5 },
    problems: [],
  })
})

test('a value that is not a record is rejected, and so is one without a required field', () => {
  for (const value of [null, undefined, 'x', 7, [], [{ id: 1 }]]) {
    expect(typed(library.Patient, value)).toBeNull()
  }
  const config = { id: 'w', target_url: 'https://us.example/' }
  for (const secret of [{}, { signature_secret: null }, { signature_secret: 5 }, { signature_secret: '' }]) {
    expect(typed(library.CreatedWebhookConfig, { ...config, ...secret })).toBeNull()
  }
})

test('a record nested a hundred thousand deep is read', () => {
  const depth = 100_000
  for (const more of [
    `${'['.repeat(depth)}${']'.repeat(depth)}`,
    `${'{"a":'.repeat(depth)}1${'}'.repeat(depth)}`,
  ])
    expect(typed(library.Patient, parseText(`{"id":1,"more":${more}}`))?.problems).toEqual([])
})

const SHAPES: Readonly<Record<string, z.ZodObject>> = {
  Patient: library.Patient,
  Message: library.Message,
  Form: library.Form,
  Packet: library.Packet,
  Document: library.Document,
  Response: library.Response,
  Export: library.Export,
  WebhookConfig: library.WebhookConfig,
  WebhookDelivery: library.WebhookDelivery,
  PatientUpload: library.PatientUpload,
}

/** Fields by what they are expected to be; `or` stands for several. */
type Fields = Readonly<Record<string, string>>

const REFERENCE = 'string or number or object'
const REFERENCES = (...names: string[]): Fields => Object.fromEntries(names.map((name) => [name, REFERENCE]))
const texts = (...names: string[]): Fields => Object.fromEntries(names.map((name) => [name, 'string']))
const IDS: Fields = { id: 'string or number', uid: 'string or number' }
const LISTED = ['matrix_cells', 'matrix_answers', 'matrix', 'files', 'uploads', 'attachments', 'signatures']
const PARTS: Fields = Object.fromEntries(
  [...LISTED, 'e_signatures', 'esignatures'].map((name) => [name, 'array']),
)
const ADDRESS = ['address', 'address2', 'city', 'state', 'zipcode']
const STAMPS = ['created_at', 'updated_at']

/** The fields of each shape, and of each part of one; a part is put where it belongs. */
const FIELDS: readonly (readonly [string, z.ZodObject, (part: object) => object, Fields])[] = [
  [
    'a patient',
    library.Patient,
    (part) => part,
    {
      ...IDS,
      ...texts('external_id', 'first_name', 'last_name', 'email', 'phone_number', 'date_birth'),
      ...texts('sex_at_birth', 'provider', ...ADDRESS, ...STAMPS),
      ...{ emergency_contact: 'object', patient_tags: 'array', custom_fields: 'object' },
    },
  ],
  [
    'an emergency contact',
    library.Patient,
    (part) => ({ emergency_contact: part }),
    texts('first_name', 'last_name', 'phone_number', 'relationship', ...ADDRESS),
  ],
  ['a tag', library.Patient, (part) => ({ patient_tags: [part] }), texts('name', 'color')],
  [
    'an upload',
    library.PatientUpload,
    (part) => part,
    {
      ...IDS,
      ...texts('status'),
      ...{ total_rows: 'number', processed_rows: 'number', success_count: 'number', error_count: 'number' },
      errors: 'array',
    },
  ],
  [
    'an error of an upload',
    library.PatientUpload,
    (part) => ({ errors: [part] }),
    { row: 'number or string', detail: 'string' },
  ],
  [
    'a message',
    library.Message,
    (part) => part,
    {
      ...IDS,
      ...REFERENCES('patient', 'form', 'packet', 'document'),
      ...{ patient_id: IDS.id!, form_id: IDS.id!, packet_id: IDS.id!, document_id: IDS.id! },
      ...texts('message_type', 'preferred_delivery_method', 'target_email', 'target_phone_number'),
      ...texts('target_phone', 'phone_number', 'scheduled_at', 'content', 'sent_at', ...STAMPS),
      ...{ status: 'string or object', delivery_status: 'string or object', scheduled: 'object' },
    },
  ],
  ['a status', library.Message, (part) => ({ status: part }), texts('status', 'name')],
  [
    'the scheduled part of a message',
    library.Message,
    (part) => ({ scheduled: part }),
    { ...IDS, status: 'string or object', scheduled_at: 'string' },
  ],
  ['a reference', library.Message, (part) => ({ patient: part }), { ...IDS, name: 'string' }],
  [
    'a form',
    library.Form,
    (part) => part,
    { ...IDS, ...texts('name', 'text', ...STAMPS), enabled: 'boolean', questions: 'array' },
  ],
  [
    'a question',
    library.Form,
    (part) => ({ questions: [part] }),
    {
      ...IDS,
      ...texts('text', 'help_text', 'link_id'),
      ...{ question_type: 'string or object', order: IDS.id!, page: IDS.id!, choices: 'array' },
    },
  ],
  [
    'a type of a question',
    library.Form,
    (part) => ({ questions: [{ question_type: part }] }),
    texts('question_type', 'question_subtype'),
  ],
  [
    'a choice',
    library.Form,
    (part) => ({ questions: [{ choices: [part] }] }),
    { ...IDS, ...texts('text_value', 'text', 'code') },
  ],
  [
    'a packet',
    library.Packet,
    (part) => part,
    { ...IDS, ...texts('name', 'text', ...STAMPS), forms: 'array' },
  ],
  ['a form of a packet', library.Packet, (part) => ({ forms: [part] }), { ...IDS, enabled: 'boolean' }],
  [
    'a document',
    library.Document,
    (part) => part,
    { ...IDS, ...texts('name', 'text', ...STAMPS), input_fields: 'array or object' },
  ],
  [
    'an input field',
    library.Document,
    (part) => ({ input_fields: [part] }),
    { ...IDS, ...texts('name', 'label', 'field_type'), required: 'boolean', page: IDS.id! },
  ],
  [
    'a response',
    library.Response,
    (part) => part,
    {
      ...IDS,
      ...{ form_id: IDS.id!, packet_id: IDS.id!, document_id: IDS.id!, patient_id: IDS.id! },
      ...REFERENCES('form', 'packet', 'document', 'patient'),
      ...texts('form_name', 'submitted_at', ...STAMPS),
      ...{
        is_submitted: 'boolean',
        is_skipped: 'boolean',
        is_archived: 'boolean',
        answers: 'array or object',
      },
      ...PARTS,
    },
  ],
  [
    'an answer',
    library.Response,
    (part) => ({ answers: [part] }),
    {
      ...IDS,
      ...{ question: REFERENCE, question_id: IDS.id!, answer_choices: 'array' },
      ...{ answer_text: 'string or number or boolean' },
      ...PARTS,
    },
  ],
  [
    'a question that was answered',
    library.Response,
    (part) => ({ answers: [{ question: part }] }),
    { ...IDS, text: 'string' },
  ],
  [
    'a choice that was made',
    library.Response,
    (part) => ({ answers: [{ answer_choices: [part] }] }),
    { ...IDS, ...texts('text_value', 'text'), question_choice: REFERENCE },
  ],
  [
    'a choice below a choice',
    library.Response,
    (part) => ({ answers: [{ answer_choices: [{ question_choice: part }] }] }),
    { ...IDS, ...texts('text_value', 'text') },
  ],
  ...LISTED.slice(0, 3).map(
    (name) =>
      [
        `a cell of ${name}`,
        library.Response,
        (part: object) => ({ [name]: [part] }),
        { ...IDS, ...REFERENCES('question', 'row', 'column'), answer_text: 'string' },
      ] as const,
  ),
  [
    'a row of a matrix',
    library.Response,
    (part) => ({ matrix: [{ row: part }] }),
    { ...IDS, text: 'string' },
  ],
  ...LISTED.slice(3, 6).map(
    (name) =>
      [
        `a file of ${name}`,
        library.Response,
        (part: object) => ({ [name]: [part] }),
        {
          ...IDS,
          ...texts('name', 'content_type', 'url'),
          ...{ question: REFERENCE, size: 'number or string' },
        },
      ] as const,
  ),
  ...['signatures', 'e_signatures', 'esignatures'].map(
    (name) =>
      [
        `a signature of ${name}`,
        library.Response,
        (part: object) => ({ [name]: [part] }),
        { ...IDS, ...texts('signed_at', 'signer_name', 'image'), question: REFERENCE },
      ] as const,
  ),
  [
    'an export',
    library.Export,
    (part) => part,
    { ...IDS, ...texts('name', 'form_name', 'created_at'), form: REFERENCE, form_id: IDS.id! },
  ],
  [
    'a webhook configuration',
    library.WebhookConfig,
    (part) => part,
    {
      ...IDS,
      ...texts('target_url', ...STAMPS),
      ...{ event_types: 'array', sources: 'array', is_active: 'boolean' },
    },
  ],
  [
    'an event record',
    library.WebhookDelivery,
    (part) => part,
    {
      ...IDS,
      ...texts('event_type', 'source', 'status', 'error', 'created_at', 'next_retry_at'),
      ...{ event_id: IDS.id!, webhook_config: REFERENCE, webhook_config_id: IDS.id! },
      ...{ response_status_code: 'number', attempts: 'number' },
    },
  ],
]

test.each(FIELDS)('the fields of %s are of their types, null, or left out', (_, shape, place, fields) => {
  /** Of another type, whatever is expected. */
  const wrong = (expected: string) => (expected.includes('boolean') ? {} : true)
  const right: Readonly<Record<string, unknown>> = {
    ...{ string: 'x', number: 7, boolean: false, array: [], object: {} },
  }
  const given = Object.fromEntries(Object.entries(fields).map(([name, expected]) => [name, wrong(expected)]))
  const read = typed(shape, place(given))!
  expect(read.record).toEqual(place({}))
  const found = read.problems.map(({ path, expected }) => [path.split('.').at(-1), expected])
  expect(Object.fromEntries(found)).toEqual(fields)
  expect(found).toHaveLength(Object.keys(fields).length)
  const isId = (name: string) => name === 'id' || name === 'uid'
  for (const [name, expected] of Object.entries(fields)) {
    const values = expected.split(' or ').map((each) => right[each])
    for (const value of isId(name) ? values : [null, ...values]) {
      const record = place({ [name]: value })
      expect(typed(shape, record), name).toEqual({ record, problems: [] })
    }
  }
})

test.each(FIELDS)('fields of %s that nobody described stay, whatever is next to them', (_, shape, place) => {
  const given = { ...place({ id: 7, name: 'x', unheard_of: { deep: [1] }, 'x-y': null }) }
  expect(typed(shape, given)).toEqual({ record: given, problems: [] })
})

test.each([
  ['rows by title', [{ 'Client ID': '1', Pain: 3 }], true],
  ['titles and rows by title', { headers: ['Client ID'], rows: [{ 'Client ID': '1' }] }, true],
  ['titles and rows by place', { headers: ['Client ID'], rows: [['1', 3]], more: 1 }, true],
  ['rows under `data`', { data: [{ 'Client ID': '1' }] }, true],
  ['rows under `data`, with their number', { data: [{ 'Client ID': '1' }], count: 1 }, true],
  ['rows that are none', { data: ['1'] }, false],
  ['titles that are no text', { headers: [1], rows: [] }, false],
  ['titles without rows', { headers: ['Client ID'] }, false],
  ['another object', { results: [] }, false],
  ['text', 'Client ID', false],
])('the content of an export as JSON may be %s: %3$s', (_, content, expected) => {
  expect(library.ExportContent.safeParse(content).success).toBe(expected)
})

describe('whatever was received', () => {
  const CANARY = 'canary-7f3a'
  /** Keys of all shapes, at any depth, so that objects look like records. */
  const keys = fc.constantFrom(
    ...['id', 'uid', 'name', 'text', 'question', 'question_choice', 'answer_choices', 'answers', 'row'],
    ...['files', 'url', 'size', 'forms', 'questions', 'choices', 'question_type', 'status', 'city'],
  )
  const { value } = fc.letrec<{ value: unknown }>((tie) => ({
    value: fc.oneof(
      { maxDepth: 4, withCrossShrink: true },
      fc.constantFrom<unknown>(null, true, 0, 1.5, '', CANARY),
      fc.array(tie('value'), { maxLength: 4 }),
      fc.dictionary(keys, tie('value'), { maxKeys: 4 }),
    ),
  }))

  test.each(Object.entries(SHAPES))('a %s matches its shape, and no problem shows a value', (_, shape) => {
    const record = fc
      .subarray(Object.keys(shape.shape), { minLength: 1 })
      .chain((names) => fc.tuple(...names.map((name) => fc.tuple(fc.constant(name), value))))
      .map((entries) => ({ unheard_of: CANARY, ...Object.fromEntries(entries) }) as Record<string, unknown>)
    fc.assert(
      fc.property(record, (given) => {
        const before = structuredClone(given)
        const read = typed(shape, given)!
        expect(given).toEqual(before)
        expect(shape.safeParse(read.record).success).toBe(true)
        expect(read.record.unheard_of).toBe(CANARY)
        expect(JSON.stringify(read.problems)).not.toContain(CANARY)
        // A field that is named nowhere is there unchanged.
        const named = new Set(read.problems.map(({ path }) => path.split('.')[0]))
        for (const [name, original] of Object.entries(given)) {
          if (!named.has(name)) expect(read.record[name]).toEqual(original)
        }
      }),
      { numRuns: 300, seed: 20261122 },
    )
  })
})
