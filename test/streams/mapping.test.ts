/** Mapping is pure, reads every field that the shapes of the API name, and knows a summary from a whole record. */
import { describe, expect, test } from 'vitest'
import type { z } from 'zod'
import { Document, InputField } from '../../src/api/shapes/document.ts'
import { Choice, Form, Question } from '../../src/api/shapes/form.ts'
import { Packet } from '../../src/api/shapes/packet.ts'
import { EmergencyContact, Patient, PatientTag } from '../../src/api/shapes/patient.ts'
import { isLosslessNumber, type JsonObject, parseJson } from '../../src/core/json.ts'
import type { StreamName } from '../../src/core/streams.ts'
import { DECLARED_STREAMS, streamNamed } from '../../src/streams/catalogue.ts'
import { mapRecord } from '../../src/streams/map.ts'
import type { Stream } from '../../src/streams/stream.ts'
import { bodyOf, type Fixture, readFixture } from './fixture.ts'
import { FIXTURES } from './fixtures/all.ts'

const streams = DECLARED_STREAMS.map((stream) => ({ name: stream.name, stream }))

function mapped(stream: Stream, fixture: Fixture, change?: (value: unknown) => unknown) {
  const read = readFixture(stream, fixture, 1, undefined, change)
  if (read.kind === 'dead') throw new Error('set aside')
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
    { order: 9, choices: ['choices'] },
    // The id stands for the uid, and the order is a number.
    ['uid', 'order'],
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
]

test.each(PARTS)('%s: every field of the part is read', (_, name, shape, place, own, others) => {
  const fields = Object.keys(shape.shape)
  const part = { ...Object.fromEntries(fields.map((field) => [field, field])), ...own }
  const { children, problems } = mapRecord(streamNamed(name)!, place(part) as JsonObject, [])
  const cells = children.flat(2)
  expect(problems).toEqual([])
  expect(fields.filter((field) => !others.includes(field) && !cells.includes(field))).toEqual([])
  if ('order' in own || 'page' in own) expect(cells).toContain('9')
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
  ['a document without input fields', 'documents', { id: 'd' }, true],
  ['a document whose input fields are null', 'documents', { id: 'd', input_fields: null }, false],
] as const)('%s (%s) is a summary that has to be fetched: %3$s', (_, name, record, expected) => {
  expect(streamNamed(name)!.isSummary?.(record, 'v2.1')).toBe(expected)
})

test('a document without input fields is whole where version v2.1 is not asked for', () => {
  expect(streamNamed('documents')!.isSummary?.({ id: 'd' }, '')).toBe(false)
})
