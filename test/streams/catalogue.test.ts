/** What the catalogue promises of its streams, without a warehouse: the copy of the contract is this file's own. */
import { describe, expect, test } from 'vitest'
import type { z } from 'zod'
import { DEFAULT_PATHS } from '../../src/api/paths.ts'
import { Choice, InputField, Question } from '../../src/api/resources/forms.ts'
import { EmergencyContact, PatientTag } from '../../src/api/resources/patients.ts'
import {
  AnswerChoice,
  ESignature,
  MatrixCell,
  ResponseAnswer,
  ResponseFile,
} from '../../src/api/resources/responses.ts'
import { mapRecord } from '../../src/normalize/map.ts'
import { withoutPositions } from '../../src/normalize/safe-paths.ts'
import {
  ALL_STREAMS,
  ENDPOINTS,
  FILES,
  PERSONS,
  STREAM_NAMES,
  STREAMS,
  streamNamed,
  streamOfSource,
} from '../../src/streams/catalogue.ts'
import { isIdAlone, isPartial, ownTimeOf, stampsDecide } from '../../src/streams/stream.ts'

const BACKFILLED = [
  ...['patients', 'forms', 'packets', 'documents', 'responses', 'messages', 'exports'],
  ...['webhook_configs', 'webhook_deliveries'],
]

/** Resources may be added to those of the contract. */
const ofContract = (names: readonly string[]) =>
  names.filter((name) => [...BACKFILLED, 'packet_responses'].includes(name))

test('backfills read nine streams, in the order of the contract; packet responses come only from webhooks', () => {
  expect(ofContract(STREAMS.map(({ name }) => name))).toEqual(BACKFILLED)
  expect(ofContract(STREAM_NAMES)).toEqual([...BACKFILLED, 'packet_responses'])
})

test('a stream is found by its name, and by the source of its events', () => {
  expect(STREAM_NAMES.map((name) => streamNamed(name)?.name)).toEqual(STREAM_NAMES)
  expect(streamNamed('patient')).toBeUndefined()
  const sources = ['patient', 'form', 'packet', 'document', 'response', 'message', 'packet_response']
  expect(sources.map((source) => streamOfSource(source)?.name)).toEqual([
    ...['patients', 'forms', 'packets', 'documents', 'responses', 'messages', 'packet_responses'],
  ])
  const withSource = ALL_STREAMS.filter(({ source }) => source !== undefined).map(({ name }) => name)
  expect(ofContract(withSource)).toHaveLength(sources.length)
  expect(streamOfSource('patients')).toBeUndefined()
})

test('only messages have a source that the specification does not list', () => {
  expect(ALL_STREAMS.filter((stream) => stream.sourceIsGuess === true).map(({ name }) => name)).toEqual([
    'messages',
  ])
})

test('persons are patients, and files with rows of persons are exports, whose rows repeat responses', () => {
  expect([PERSONS.name, FILES.name, FILES.reading.rowsOf]).toEqual(['patients', 'exports', 'responses'])
  expect(PERSONS.person).toEqual({
    alias: ['external_id'],
    same: ['email', 'first_name', 'last_name'],
    contacts: ['email', 'phone_number'],
  })
})

test('the tables of files are those of the contract', () => {
  expect(FILES.reading.tables).toEqual([
    { table: 'export_columns', key: ['position'], columns: ['position', 'title', 'question_id'] },
    {
      table: 'export_rows',
      key: ['row_number'],
      columns: [
        ...['row_number', 'client_id', 'first_name', 'last_name', 'email'],
        ...['sent_at', 'completed_at', 'archived'],
      ],
    },
    { table: 'export_cells', key: ['row_number', 'position'], columns: ['row_number', 'position', 'value'] },
  ])
})

test('only responses are read by the day of their submission; their submission settles what it changed', () => {
  const responses = streamNamed('responses')!
  expect(responses.reading).toEqual({ kind: 'windows', parameter: 'submitted_after', field: 'submitted_at' })
  expect(ALL_STREAMS.filter(({ reading }) => reading?.kind === 'windows')).toEqual([responses])
  expect(responses.settledBy).toBe('is_submitted')
})

test('lists have their records under the name of the stream, but for webhooks and their events', () => {
  const other = ALL_STREAMS.flatMap(({ name, listedAs }) =>
    listedAs === undefined ? [] : [[name, listedAs]],
  )
  expect(other).toEqual([
    ['webhook_configs', 'webhooks'],
    ['webhook_deliveries', 'events'],
  ])
})

test('only a stream without any fetch lets the stamps of records decide', () => {
  expect(ALL_STREAMS.filter(stampsDecide).map(({ name }) => name)).toEqual(['packet_responses'])
  expect(stampsDecide(streamNamed('exports')!)).toBe(false)
  const { one } = streamNamed('patients')!
  expect(stampsDecide({ ...streamNamed('packet_responses')!, one })).toBe(false)
})

test('analysts see nothing of what describes the service and not its patients', () => {
  const hidden = ALL_STREAMS.filter(({ analysts }) => analysts === 'nothing').map(({ name }) => name)
  expect(hidden).toEqual(['webhook_configs', 'webhook_deliveries'])
})

test('analysts see each other stream in its views of the contract', () => {
  const views = ALL_STREAMS.flatMap(({ name, analysts }) =>
    analysts === 'nothing' || !('views' in analysts) ? [] : [[name, analysts.views] as const],
  )
  expect(Object.fromEntries(views)).toMatchObject({
    patients: ['patients'],
    forms: ['form_completion'],
    packets: ['packet_progress'],
    documents: [],
    responses: ['responses', 'answers', 'matrix_answers'],
    messages: ['message_outcomes'],
    exports: ['export_answers'],
    packet_responses: ['packet_progress'],
  })
})

describe('a record that says less than the record fetched by id', () => {
  test.each([
    ['an id alone', { id: 'x' }, true],
    ['either form of the id', { uid: 7, id: 'x' }, true],
    ['no field at all', {}, true],
    ['an id and a null', { id: 'x', name: null }, false],
    ['a field without an id', { name: 'x' }, false],
  ])('has %s: %3$s', (_, record, alone) => {
    expect(isIdAlone(record)).toBe(alone)
    // Whatever its stream declares: an id alone must not replace values.
    if (alone) for (const stream of ALL_STREAMS) expect(isPartial(stream, record, 'v2.1')).toBe(true)
  })

  test.each([
    ['patients', { id: 'p', first_name: null }, false],
    ['forms', { id: 'f', name: 'Intake' }, true],
    ['forms', { id: 'f', rows: [] }, false],
    ['messages', { id: 'm', status: 'sent' }, true],
    ['messages', { id: 'm', content: null }, false],
  ] as const)('is, among %s, %j: %s', (name, record, partial) => {
    expect(isPartial(streamNamed(name)!, record, 'v2.1')).toBe(partial)
  })
})

test('the own time of a row is the later of its stamps, or its version where it has none', () => {
  const times = Object.fromEntries(ALL_STREAMS.map((stream) => [stream.name, ownTimeOf(stream)]))
  expect(times).toMatchObject({
    patients: 'greatest(updated_at, created_at, _deleted_at)',
    exports: 'greatest(created_at, _deleted_at)',
    webhook_configs: 'greatest(created_at, _deleted_at)',
    packet_responses: 'greatest(updated_at, created_at, _deleted_at)',
  })
  expect(ownTimeOf({ ...PERSONS, columns: [] })).toBe('_version')
})

test('the typed client requests the same paths', () => {
  const declared = Object.fromEntries(ENDPOINTS.map(({ name, path }) => [name, path]))
  const both = Object.entries(DEFAULT_PATHS).filter(([name]) => name in declared)
  expect(both.length).toBeGreaterThan(10)
  expect(Object.fromEntries(both)).toMatchObject(
    Object.fromEntries(both.map(([name]) => [name, declared[name]])),
  )
})

test('the paths have the names by which the configuration replaces them', () => {
  const names = ENDPOINTS.map(({ name }) => name)
  expect(names).toEqual(
    expect.arrayContaining([
      ...['patients', 'patient', 'forms', 'form', 'packets', 'packet', 'documents', 'document'],
      ...['responses', 'response', 'messages', 'message', 'exports', 'webhookConfigs', 'webhookConfig'],
      'webhookDeliveries',
    ]),
  )
  expect(new Set(names).size).toBe(names.length)
  const withoutOne = STREAMS.filter(({ one }) => one === null).map(({ name }) => name)
  expect(ofContract(withoutOne)).toEqual(['exports', 'webhook_deliveries'])
})

test('the records that another record names by id are those of the contract', () => {
  const named = ALL_STREAMS.flatMap(({ columns, children }) => [
    ...columns.flatMap(({ name, to }) => (to === undefined ? [] : [`${name} ${to}`])),
    ...children.flatMap(({ table, references = {} }) =>
      Object.entries(references).map(([column, to]) => `${table}.${column} ${to}`),
    ),
  ])
  expect([...new Set(named)]).toEqual(
    expect.arrayContaining([
      ...['patient_id patients', 'form_id forms', 'packet_id packets', 'document_id documents'],
      ...['webhook_config_id webhook_configs', 'packet_forms.form_id forms'],
      'packet_response_members.response_id responses',
    ]),
  )
})

test('only of the emergency contact of patients is it explained what changed in it', () => {
  const objects = ALL_STREAMS.flatMap((stream) => (stream.objects ?? []).map((field) => [stream.name, field]))
  expect(objects.filter(([name]) => ofContract([name!]).length > 0)).toEqual([
    ['patients', 'emergency_contact'],
  ])
})

test('only documents and responses may have an object for a list, whose order has to be kept', () => {
  const records = { documents: 'input_fields', responses: 'answers' }
  for (const { name, isOrdered } of ALL_STREAMS.filter(({ name }) => ofContract([name]).length > 0)) {
    const field = (records as Record<string, string>)[name]
    if (field === undefined) expect(isOrdered, name).toBeUndefined()
    else {
      expect(isOrdered!({ [field]: {} }), name).toBe(true)
      for (const value of [[], null, 'x']) expect(isOrdered!({ [field]: value }), name).toBe(false)
      expect(isOrdered!({}), name).toBe(false)
    }
  }
})

test.each(ALL_STREAMS.filter(({ name }) => ofContract([name]).length > 0).map(({ name }) => name))(
  '%s: the times of the service are known fields',
  (name) => {
    const record = { id: 'x', created_at: '2026-01-02T03:04:05Z', updated_at: '2026-01-02T03:04:05Z' }
    const { extra, drift } = mapRecord(streamNamed(name)!, record, [])
    // A log entry never changes.
    const unknown = name === 'webhook_deliveries' ? ['updated_at'] : []
    expect([Object.keys(JSON.parse(extra ?? '{}')), drift.map(({ path }) => path)]).toEqual([
      unknown,
      unknown,
    ])
  },
)

test('every reference names a stream, and a path by id takes an id', () => {
  const named = ALL_STREAMS.flatMap(({ columns, children }) => [
    ...columns.flatMap(({ to }) => to ?? []),
    ...children.flatMap(({ references = {} }) => Object.values(references)),
  ])
  expect(named.filter((name) => !STREAM_NAMES.includes(name))).toEqual([])
  for (const { one, list } of ALL_STREAMS) {
    if (one !== null) expect(one.path).toContain('{id}')
    if (list !== null) expect(list.path).not.toContain('{id}')
  }
})

const PARTS: readonly (readonly [string, z.ZodObject])[] = [
  ['emergency_contact', EmergencyContact],
  ['patient_tags[]', PatientTag],
  ['questions[]', Question],
  ['questions[].choices[]', Choice.options[1]],
  ['input_fields[]', InputField],
  ['answers[]', ResponseAnswer],
  ['answers[].answer_choices[]', AnswerChoice.options[1]],
  ['matrix_cells[]', MatrixCell],
  ['files[]', ResponseFile],
  ['e_signatures[]', ESignature],
]

describe('a path in logs and problems names every field of the specification', () => {
  /** Their content is never at fault: any value of it is stored as received. */
  const never = ['image']

  test.each(PARTS)('in %s', (place, shape) => {
    const paths = Object.keys(shape.shape)
      .filter((field) => !never.includes(field))
      .map((field) => `${place}.${field}`)
    expect(paths.map(withoutPositions)).toEqual(paths)
  })

  test.each([
    'scheduled.scheduled_at',
    'scheduled.status',
    'pages[].sections[].rows[].questions[].help_text',
    'questions[].question_type.question_subtype',
    'questions[].question_choices[].text_value',
    'questions[].sort_order',
    'forms[].form.id',
    'forms[].form_id',
    'input_fields.*.required',
    'custom_fields.*',
    'answers[].question_choice.label',
  ])('%s', (path) => {
    expect(withoutPositions(path)).toBe(path)
  })
})

/** Names below the fields of a record, by the stream that declares them. */
test.each([
  ['patients', 'first_name last_name email phone_number relationship external_id'],
  ['patients', 'address address2 city state zipcode color'],
  ['forms', 'pages sections rows questions question_type question_subtype help_text order sort_order'],
  ['forms', 'choices question_choices link_id page block code points'],
  ['packets', 'forms form form_id'],
  ['documents', 'field_id field_type required page'],
  ['messages', 'scheduled_at'],
])('a path in logs and problems shows the fixed names of %s: %s', (_, names) => {
  const paths = names.split(' ').map((name) => `x[].${name}`)
  expect(paths.map(withoutPositions)).toEqual(paths)
})

test('a path into answers shows their fixed names, and no key', () => {
  const names = [
    ...['matrix_cells', 'matrix_answers', 'matrix', 'files', 'uploads', 'attachments'],
    ...['e_signatures', 'esignatures', 'signatures', 'id', 'uid', 'index', 'text', 'text_value', 'label'],
    ...['name', 'value', 'question', 'question_id', 'question_text', 'answer_text', 'answer_choices'],
    ...['question_choice', 'question_choice_id', 'choice_id', 'row', 'row_id', 'row_index', 'row_text'],
    ...['column', 'column_id', 'column_index', 'column_text', 'content_type', 'size', 'size_bytes', 'url'],
    ...['signer_name', 'signed_at'],
  ]
  for (const name of names) {
    expect(withoutPositions(`answers[3].${name}`)).toBe(`answers[].${name}`)
    expect(withoutPositions(`answers.q 1.${name}`)).toBe(`answers.*.${name}`)
    expect(withoutPositions(`answers[3].${name}_`)).toBe('answers[].*')
    expect(withoutPositions(`answers[3].${name}[1].Ann`)).toBe(`answers[].${name}[].*`)
  }
  // A key may be of any text; of a very long one, nothing below it is shown.
  expect(withoutPositions('answers.a\nb.id')).toBe('answers.*.id')
  expect(withoutPositions('answers[1].a\nb')).toBe('answers[].*')
  expect(withoutPositions(`answers.${'k'.repeat(989)}.id`)).toBe('answers.*.id')
  expect(withoutPositions(`answers.${'k'.repeat(990)}.id`)).toBe('answers.*')
  expect(withoutPositions(`files[1].${'k'.repeat(1_000)}`)).toBe('files[].*')
  for (const list of ['matrix_cells', 'matrix_answers', 'files', 'uploads', 'signatures'])
    expect(withoutPositions(`${list}[3].Ann`)).toBe(`${list}[].*`)
})

test.each([
  ['custom_fields.Ann.name', 'custom_fields.*'],
  ['custom_fields.email', 'custom_fields.*'],
  ['input_fields.Ann Other.page', 'input_fields.*.page'],
  ['input_fields.Ann.Other', 'input_fields.*'],
  ['input_fields.a.b\nc.required', 'input_fields.*.required'],
  ['patient_tags[12].Ann', 'patient_tags[].*'],
  ['emergency_contact.first_name.Ann', 'emergency_contact.first_name.*'],
  ['x.name[1][22].Ann.name', 'x.name[][].*'],
])('a path leaves out names that may be data: %s', (path, safe) => {
  expect(withoutPositions(path)).toBe(safe)
})
