/** Mapping is pure, reads every field that the shapes of the API name, and distinguishes a summary from a complete record. */
import { describe, expect, test } from 'vitest'
import type { z } from 'zod'
import { Choice, Document, Form, InputField, Packet, Question } from '../../src/api/resources/forms.ts'
import { Message } from '../../src/api/resources/messages.ts'
import { EmergencyContact, Patient, PatientTag } from '../../src/api/resources/patients.ts'
import {
  AnswerChoice,
  ESignature,
  MatrixCell,
  Response,
  ResponseAnswer,
  ResponseFile,
} from '../../src/api/resources/responses.ts'
import { WebhookConfig, WebhookDelivery } from '../../src/api/resources/webhooks.ts'
import type { StreamName } from '../../src/core/envelope.ts'
import { isLosslessNumber, type JsonObject, parseJson } from '../../src/core/json.ts'
import { mapRecord } from '../../src/normalize/map.ts'
import { withoutPositions } from '../../src/normalize/safe-paths.ts'
import { ALL_STREAMS, streamNamed } from '../../src/streams/catalogue.ts'
import type { Stream } from '../../src/streams/stream.ts'
import { bodyOf, type Fixture, readFixture } from './fixture.ts'
import { FIXTURES } from './fixtures/all.ts'

const streams = ALL_STREAMS.map((stream) => ({ name: stream.name, stream }))

function mapped(stream: Stream, fixture: Fixture, change?: (value: unknown) => unknown) {
  const read = readFixture(stream, fixture, 1, undefined, change)
  if (read.kind === 'dead') throw new Error('a dead letter')
  const content = read.envelope.content!
  return { hash: content.hash, ...mapRecord(stream, content.payload, content.problems) }
}

function frozen(value: unknown): unknown {
  if (typeof value === 'object' && value !== null) Object.values(Object.freeze(value)).forEach(frozen)
  return value
}

/** The same content with the keys of each object the other way round. */
function reversed(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(reversed)
  if (typeof value !== 'object' || value === null || isLosslessNumber(value)) return value
  return Object.fromEntries(
    Object.entries(value)
      .reverse()
      .map(([key, item]) => [key, reversed(item)]),
  )
}

describe.each(streams)('$name', ({ name, stream }) => {
  const fixtures = FIXTURES[name]!.filter((fixture) => !('dead' in fixture.expected))

  test('the same record gives the same rows, and is not touched', () => {
    for (const fixture of fixtures) {
      const { value } = parseJson(bodyOf(fixture))
      const once = mapRecord(stream, frozen(value) as JsonObject, [])
      expect(mapRecord(stream, value as JsonObject, []), fixture.name).toEqual(once)
      expect(value, fixture.name).toEqual(parseJson(bodyOf(fixture)).value)
    }
  })

  test('the order in which keys come changes neither hash nor rows', () => {
    for (const fixture of fixtures.filter((each) => each.ordered !== true)) {
      const { problems, drift, ...rows } = mapped(stream, fixture)
      const { problems: sameProblems, drift: sameDrift, ...sameRows } = mapped(stream, fixture, reversed)
      const sorted = (cells: typeof rows) =>
        cells.children.map((child) => child.map((row) => row.join('\t')).sort())
      expect({ ...sameRows, children: sorted(sameRows) }, fixture.name).toEqual({
        ...rows,
        children: sorted(rows),
      })
      expect(new Set(sameProblems.map((each) => each.path))).toEqual(
        new Set(problems.map((each) => each.path)),
      )
      expect(new Set(sameDrift)).toEqual(new Set(drift))
    }
  })

  test('no reason of a problem holds a value', () => {
    const reasons = new Set(
      fixtures.flatMap((fixture) => mapped(stream, fixture).problems.map((each) => each.reason)),
    )
    for (const reason of reasons) expect(reason).toMatch(/^[a-zA-Z0-9 ,;'()]+$/)
  })
})

const SHAPES: readonly (readonly [StreamName, z.ZodObject])[] = [
  ['patients', Patient],
  ['forms', Form],
  ['packets', Packet],
  ['documents', Document],
  ['responses', Response],
  ['messages', Message],
  ['webhook_configs', WebhookConfig],
  ['webhook_deliveries', WebhookDelivery],
]

test.each(SHAPES)('%s: every field of the shape is read', (name, shape) => {
  const stream = streamNamed(name)!
  const record = Object.fromEntries(Object.keys(shape.shape).map((field) => [field, 'x']))
  expect(mapRecord(stream, record, []).extra).toBeNull()
  const read = new Set([
    'id',
    'uid',
    ...stream.columns.flatMap((column) => column.from),
    ...stream.otherFields,
  ])
  expect(Object.keys(shape.shape).filter((field) => !read.has(field))).toEqual([])
})

/** A part of an answer under each name that its kind may have. */
const NESTED = Object.fromEntries([
  ...['matrix_cells', 'matrix_answers', 'matrix'].map((name) => [name, [{ value: name }]]),
  ...['files', 'uploads', 'attachments', 'e_signatures', 'esignatures', 'signatures'].map((name) => [
    name,
    [{ id: name }],
  ]),
])

/** A part whose every field is marked with its own name, and the cells it leaves in the child table. */
const PARTS: readonly (readonly [
  string,
  StreamName,
  z.ZodObject,
  (part: object) => object,
  object,
  string[],
])[] = [
  ['emergency contact', 'patients', EmergencyContact, (part) => ({ emergency_contact: part }), {}, []],
  ['tag', 'patients', PatientTag, (part) => ({ patient_tags: [part] }), {}, []],
  [
    'question',
    'forms',
    Question,
    (part) => ({ questions: [part] }),
    { order: 9, page: 9, choices: ['choices'] },
    // The id stands for the uid; the order and the page are numbers.
    ['uid', 'order', 'page'],
  ],
  [
    'choice',
    'forms',
    Choice.options[1],
    (part) => ({ questions: [{ choices: [part] }] }),
    {},
    ['uid', 'text'],
  ],
  [
    'input field',
    'documents',
    InputField,
    (part) => ({ input_fields: [part] }),
    { required: true, page: 9 },
    ['uid', 'required', 'page'],
  ],
  [
    'answer',
    'responses',
    ResponseAnswer,
    (part) => ({ answers: [part] }),
    { answer_choices: ['answer_choices'], ...NESTED },
    // The id stands for the uid, and the question for its id.
    ['uid', 'question_id'],
  ],
  [
    'choice that was made',
    'responses',
    AnswerChoice.options[1],
    (part) => ({ answers: [{ answer_choices: [part] }] }),
    { question_choice: { text: 'question_choice' } },
    // The object around a choice is not the choice.
    ['id', 'uid', 'text_value', 'text'],
  ],
  [
    'matrix cell',
    'responses',
    MatrixCell,
    (part) => ({ matrix_cells: [part] }),
    {},
    // Cells have no column for an id.
    ['id', 'uid'],
  ],
  ['file', 'responses', ResponseFile, (part) => ({ files: [part] }), { size: '9' }, ['uid', 'size']],
  [
    'e-signature',
    'responses',
    ESignature,
    (part) => ({ e_signatures: [part] }),
    { signed_at: '2025-01-01T00:00:00.000000Z' },
    ['uid', 'signed_at', 'image'],
  ],
]

test.each(PARTS)('%s: every field of the part is read', (_, name, shape, place, own, others) => {
  const fields = Object.keys(shape.shape)
  const part = { ...Object.fromEntries(fields.map((field) => [field, field])), ...own }
  const { children, problems } = mapRecord(streamNamed(name)!, place(part) as JsonObject, [])
  const cells = children.flat(2)
  expect(problems).toEqual([])
  expect(fields.filter((field) => !others.includes(field) && !cells.includes(field))).toEqual([])
  if ('order' in own || 'page' in own || 'size' in own) expect(cells).toContain('9')
  if ('required' in own) expect(cells).toContain('t')
})

test.each([
  ['a form without questions', 'forms', { id: 'f', name: 'Intake' }, true],
  ['a form whose questions are null', 'forms', { id: 'f', questions: null }, false],
  ['a form without any question', 'forms', { id: 'f', questions: [] }, false],
  ['a form with pages', 'forms', { id: 'f', pages: [] }, false],
  ['a packet without forms', 'packets', { id: 'p', name: 'New' }, true],
  ['a packet whose forms are null', 'packets', { id: 'p', forms: null }, false],
  ['a patient', 'patients', { id: 'p' }, undefined],
  ['a response without answers', 'responses', { id: 'r', files: [] }, true],
  ['a response whose answers are null', 'responses', { id: 'r', answers: null }, false],
  ['a response without any answer', 'responses', { id: 'r', answers: [] }, false],
  ['a response with answers by question', 'responses', { id: 'r', answers: {} }, false],
  ['a message without its content', 'messages', { id: 'm', status: 'sent' }, true],
  ['a message whose content is empty', 'messages', { id: 'm', content: '' }, false],
  ['a webhook configuration', 'webhook_configs', { id: 'w' }, undefined],
  ['a webhook event record', 'webhook_deliveries', { id: 'e' }, undefined],
  ['a packet response without any content', 'packet_responses', { id: 'p', updated_at: 'x' }, true],
  ['a packet response', 'packet_responses', { id: 'p', is_submitted: null }, false],
  ['a document without input fields', 'documents', { id: 'd' }, true],
  ['a document whose input fields are null', 'documents', { id: 'd', input_fields: null }, false],
] as const)('%s (%s) is a summary that has to be fetched: %3$s', (_, name, record, expected) => {
  expect(streamNamed(name)!.isSummary?.(record, 'v2.1')).toBe(expected)
})

test('a document without input fields is complete if version v2.1 is not requested', () => {
  expect(streamNamed('documents')!.isSummary?.({ id: 'd' }, '')).toBe(false)
})

test.each([
  ['answers[3].answer_choices[0].question_choice.id', 'answers[].answer_choices[].question_choice.id'],
  ['answers[0].answer_text.Ann Other', 'answers[].answer_text.*'],
  ['answers[0].matrix[1].row.id', 'answers[].matrix[].row.id'],
  ['matrix_cells[0].row.Ann', 'matrix_cells[].row.*'],
  ['files[2].Ann', 'files[].*'],
  ['files', 'files'],
  ['answers.Ann', 'answers.*'],
  ['answers.Ann[1].question', 'answers.*[].question'],
  ['answers.Ann Other.id.born[7].files[1].size', 'answers.*[].files[].size'],
  ['answers.Ann.answer_text.Bob', 'answers.*'],
  [`answers.${'Ann.id'.repeat(10_000)}!`, 'answers.*'],
  ['last_name.Ann Other[1].of', 'last_name.*'],
  ['created_at.Ann', 'created_at.*'],
  ['questions[3].choices[0].text_value', 'questions[].choices[].text_value'],
  ['questions[3].text.Ann.id', 'questions[].text.*'],
  ['scheduled.status.Ann', 'scheduled.status.*'],
  ['unheard_of.Ann[0]', 'unheard_of.*'],
  ['questions[3].na[3]me', 'questions[].*'],
  ['status.value', 'status.value'],
  ['delivery_status.name', 'delivery_status.name'],
  ['input_fields[2].type', 'input_fields[].type'],
  ['input_fields.Ann.type', 'input_fields.*.type'],
  ['input_fields.Ann.type.', 'input_fields.*'],
  ['custom_fields.', 'custom_fields.*'],
  ['custom_fields.Ann\nOther.', 'custom_fields.*'],
])('a path is counted without positions and without what is data: %s', (path, counted) => {
  expect(withoutPositions(path)).toBe(counted)
  expect(withoutPositions(counted)).toBe(counted)
})

test('custom fields with a name too long for a key are whole in their problems, in the order of their names', () => {
  const [a, b] = [`a${'x'.repeat(1_500)}`, `b${'é'.repeat(750)}`]
  const fits = 'é'.repeat(750)
  const { children, problems } = mapRecord(
    streamNamed('patients')!,
    { id: 'p', custom_fields: { [b]: 1, [fits]: 'kept', [a]: 'x' } },
    [],
  )
  expect(children[2]).toEqual([[fits, 'kept']])
  expect(problems).toEqual(
    [{ [a]: 'x' }, { [b]: 1 }].map((original) => ({
      path: 'custom_fields',
      reason: 'a name too long for a key',
      original,
    })),
  )
})
