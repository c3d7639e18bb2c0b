/** Where a field has several names, the first one with a value counts, whichever others there are. */
import { expect, test } from 'vitest'
import type { JsonObject } from '../../src/core/json.ts'
import { mapRecord } from '../../src/normalize/map.ts'
import { streamNamed } from '../../src/streams/catalogue.ts'

/** The only cell of `column` in `table`. */
function cellOf(name: string, table: string, column: string, record: object) {
  const stream = streamNamed(name)!
  const { root, children } = mapRecord(stream, { id: 'x', ...record } as JsonObject, [])
  if (table === stream.table) return root[stream.columns.findIndex((each) => each.name === column)]
  const at = stream.children.findIndex((child) => child.table === table)
  const [row, ...others] = children[at]!
  expect(others).toEqual([])
  return row![stream.children[at]!.columns.indexOf(column)]
}

const question = (fields: object) => ({ questions: [fields] })
const choice = (fields: object) => question({ choices: [fields] })
const answer = (fields: object) => ({ answers: [fields] })
const chosen = (fields: object) => answer({ answer_choices: [fields] })
const cell = (fields: object) => ({ matrix_cells: [fields] })

test.each<[string, string, string, (fields: object) => object, string[]]>([
  ['patients', 'patients', 'provider', (fields) => fields, ['provider', 'provider_id']],
  ['messages', 'messages', 'patient_id', (fields) => fields, ['patient_id', 'patient']],
  [
    'messages',
    'messages',
    'target_phone_number',
    (fields) => fields,
    ['target_phone_number', 'target_phone', 'phone_number'],
  ],
  ['messages', 'messages', 'status', (fields) => fields, ['status', 'delivery_status']],
  ['messages', 'messages', 'status', (status) => ({ status }), ['status', 'name', 'value']],
  ['forms', 'form_questions', 'question_id', question, ['id', 'uid']],
  ['forms', 'form_questions', 'sort_order', question, ['order', 'sort_order']],
  ['forms', 'form_questions', 'block_id', question, ['block', 'block_id']],
  ['forms', 'question_choices', 'choice_id', choice, ['id', 'uid']],
  ['forms', 'question_choices', 'text', choice, ['text_value', 'text', 'label', 'name']],
  [
    'documents',
    'document_input_fields',
    'field_id',
    (fields) => ({ input_fields: [fields] }),
    ['id', 'uid', 'field_id'],
  ],
  [
    'documents',
    'document_input_fields',
    'field_type',
    (fields) => ({ input_fields: [fields] }),
    ['field_type', 'type'],
  ],
  ['responses', 'response_answers', 'answer_id', answer, ['id', 'uid']],
  ['responses', 'response_answers', 'choice_id', chosen, ['question_choice_id', 'choice_id', 'id', 'uid']],
  ['responses', 'response_answers', 'value_text', chosen, ['text_value', 'text', 'label', 'name']],
  [
    'responses',
    'response_answers',
    'question_text',
    (fields) => answer({ question: fields }),
    ['text', 'question_text'],
  ],
  [
    'responses',
    'response_answers',
    'question_text',
    (fields) => ({ answers: { q: fields } }),
    ['question_text', 'text'],
  ],
  ['responses', 'response_matrix_cells', 'value_text', cell, ['answer_text', 'value', 'text']],
  ['responses', 'response_matrix_cells', 'row_id', (row) => cell({ row }), ['id', 'uid', 'index']],
  [
    'responses',
    'response_matrix_cells',
    'column_text',
    (column) => cell({ column }),
    ['text', 'text_value', 'label', 'name'],
  ],
  ['responses', 'response_matrix_cells', 'row_id', cell, ['row_id', 'row_index']],
  ['responses', 'response_files', 'file_id', (fields) => ({ files: [fields] }), ['id', 'uid']],
  ['responses', 'response_files', 'size_bytes', (fields) => ({ files: [fields] }), ['size', 'size_bytes']],
  ['responses', 'response_signatures', 'signature_id', (fields) => ({ signatures: [fields] }), ['id', 'uid']],
  ['webhook_deliveries', 'webhook_deliveries', 'event_id', (fields) => fields, ['event_id', 'event']],
  [
    'webhook_deliveries',
    'webhook_deliveries',
    'webhook_config_id',
    (fields) => fields,
    ['webhook_config_id', 'webhook_config'],
  ],
])('of %s, %s.%s is read under each of its names, in order', (stream, table, column, place, names) => {
  for (const [at, name] of names.entries()) {
    const fields = names.map((each, nth): [string, unknown] => [each, nth < at ? null : String(nth + 1)])
    // Backwards: the order of the fields does not matter.
    for (const entries of [fields, fields.toReversed()])
      expect([name, cellOf(stream, table, column, place(Object.fromEntries(entries)))]).toEqual([
        name,
        String(at + 1),
      ])
    expect(cellOf(stream, table, column, place({ [name]: String(at + 1) }))).toBe(String(at + 1))
  }
})

test('choices of a question are read under the first name that has some', () => {
  const texts = (fields: object) =>
    mapRecord(streamNamed('forms')!, { id: 'f', questions: [fields] }, []).children[1]!.map((row) => row[4])
  const all = { choices: ['a'], question_choices: ['b'], answer_choices: ['c'] }
  expect(texts(all)).toEqual(['a'])
  expect(texts({ ...all, choices: null })).toEqual(['b'])
  expect(texts({ answer_choices: ['c'] })).toEqual(['c'])
})

test('type and subtype of a question are both in its type, if that is an object', () => {
  const cells = (fields: object) =>
    mapRecord(
      streamNamed('forms')!,
      { id: 'f', questions: [{ text: 'Q', ...fields }] },
      [],
    ).children[0]![0]!.slice(2, 4)
  expect(cells({ question_type: { question_type: 'a', question_subtype: 'b' } })).toEqual(['a', 'b'])
  expect(cells({ question_type: 'a', question_subtype: 'b' })).toEqual(['a', 'b'])
  expect(cells({ question_type: {}, question_subtype: 'b' })).toEqual([null, null])
  expect(cells({ question_type: { question_subtype: 'c' }, question_subtype: 'b' })).toEqual([null, 'c'])
})

test('a name of 1,500 bytes is a key, a longer one is not', () => {
  const keys = (key: string) =>
    mapRecord(streamNamed('patients')!, { id: 'p', custom_fields: { [key]: 'x' } }, [])
  for (const key of ['a'.repeat(1500), 'é'.repeat(750)]) expect(keys(key).children[2]).toEqual([[key, 'x']])
  for (const key of ['a'.repeat(1501), `a${'é'.repeat(750)}`]) {
    const { children, problems } = keys(key)
    expect([children[2], problems.map(({ reason }) => reason)]).toEqual([[], ['a name too long for a key']])
  }
  const [one, other] = ['b'.repeat(1501), 'a'.repeat(1501)]
  const problemsOf = (...names: string[]) => {
    const custom_fields = Object.fromEntries(names.map((name) => [name, 'x']))
    return mapRecord(streamNamed('patients')!, { id: 'p', custom_fields }, []).problems
  }
  // The order of keys does not last in the warehouse.
  expect(problemsOf(one, other)).toEqual(problemsOf(other, one))
})

test('a bare choice is its text or its id, before the text next to it', () => {
  const chosenOf = (question_choice: unknown) => {
    const record = { id: 'r', ...chosen({ question_choice, text: 'Next to it' }) } as JsonObject
    return mapRecord(streamNamed('responses')!, record, []).children[0]![0]!.slice(5, 7)
  }
  expect([chosenOf('Never'), chosenOf(7), chosenOf(null)]).toEqual([
    [null, 'Never'],
    ['7', 'Next to it'],
    [null, 'Next to it'],
  ])
})
