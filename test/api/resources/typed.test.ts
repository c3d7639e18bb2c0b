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
  const given = parseText(`{"id":1,"more":${'['.repeat(depth)}${']'.repeat(depth)}}`)
  expect(typed(library.Patient, given)?.problems).toEqual([])
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
