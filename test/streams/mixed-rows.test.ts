/** One record with a bit of everything for each stream: its cells and the rows of its children, each in its place. */
import { expect, test } from 'vitest'
import { parseText } from '../../src/core/json.ts'
import { mapRecord } from '../../src/normalize/map.ts'
import { readRecord } from '../../src/normalize/read-record.ts'
import { streamNamed } from '../../src/streams/catalogue.ts'
import { at } from '../support/envelopes.ts'

/** Cells of the root by name, where they are not null; rows by table; and the places of problems. */
function mapped(name: string, record: object) {
  const stream = streamNamed(name)!
  const { root, children, problems, extra } = mapRecord(stream, record as never, [])
  return {
    root: Object.fromEntries(
      stream.columns.flatMap(({ name }, place) => (root[place] === null ? [] : [[name, root[place]]])),
    ),
    ...Object.fromEntries(stream.children.map(({ table }, place) => [table, children[place]])),
    problems: problems.map(({ path, reason }) => `${path}: ${reason}`),
    extra,
  }
}

test('a response: nulls count as positions, and matrix cells take the first text of their question', () => {
  const record = parseText(`{
    "id": "r", "form_name": "Own", "form": {"id": "f", "name": "Embedded"},
    "answers": [
      {"id": "a1", "question": {"id": "q1", "text": "First?"}, "text": "not a question", "answer_text": "yes"},
      null,
      {"id": "a2", "question": "q1", "question_text": "Second?", "answer_text": "2024-02-29", "answer_choices": [
        {"question_choice": "Often", "text": "other"}, {"question_choice": 7, "text": "Seven"}, "", {"label": "L"}
      ]},
      {"question": "q2", "text": "no text of its question", "answer_text": 7, "matrix": [
        null, {"row": 1, "column": "2", "value": true}
      ], "uploads": [{"uid": "u", "name": "n", "size": 3, "url": "https://a.example/b#c"}]}
    ],
    "matrix_answers": [{"question_id": "q1", "row_index": 0, "row_text": "R", "column": {"label": "C"}}],
    "files": [null, {"id": "own", "url": "https://a.example/d?e"}],
    "signatures": [{"signed_at": "2024-01-01", "image": [" "]}, {"image": {"a": [true]}}]
  }`) as object
  expect(mapped('responses', record)).toEqual({
    root: { form_id: 'f', form_name: 'Own' },
    response_answers: [
      ['1', '1', 'a1', 'q1', 'First?', null, 'yes', null, 't', null],
      ['3', '1', 'a2', 'q1', 'Second?', null, 'Often', null, null, null],
      ['3', '2', 'a2', 'q1', 'Second?', '7', 'Seven', null, null, null],
      ['3', '3', 'a2', 'q1', 'Second?', null, '', null, null, null],
      ['3', '4', 'a2', 'q1', 'Second?', null, 'L', null, null, null],
      ['3', '5', 'a2', 'q1', 'Second?', null, '2024-02-29', null, null, '2024-02-29'],
      ['4', '1', null, 'q2', null, null, '7', '7', null, null],
    ],
    response_matrix_cells: [
      ['2', 'q2', '1', null, null, '2', 'true', null],
      ['3', 'q1', '0', 'R', null, 'C', null, 'First?'],
    ],
    response_files: [
      ['1', 'u', 'q2', 'n', null, '3', 'https://a.example/b'],
      ['3', 'own', null, null, null, null, 'https://a.example/d'],
    ],
    response_signatures: [
      ['1', null, null, null, '2024-01-01T00:00:00.000000Z', 'f'],
      ['2', null, null, null, null, 't'],
    ],
    problems: [],
    extra: null,
  })
})

test('answers by question: each key is an answer, and the places of its values go on', () => {
  const answers = { q1: ['a', null], q2: [], q3: { text: 'Q3?', answer_text: 'c' }, q4: [{ id: 'x' }, [1]] }
  expect(mapped('responses', { id: 'r', answers })).toMatchObject({
    response_answers: [
      ['1', '1', null, 'q1', null, null, 'a', null, null, null],
      ['2', '1', null, 'q1', null, null, null, null, null, null],
      ['3', '1', null, 'q2', null, null, null, null, null, null],
      ['4', '1', null, 'q3', 'Q3?', null, 'c', null, null, null],
      ['5', '1', 'x', 'q4', null, null, null, null, null, null],
    ],
    problems: ['answers.q4[1]: not an answer'],
  })
})

test('a document: a field may have another name than its key, and keeps its place', () => {
  const input_fields = { a: { name: 'A', type: 'text', required: 'false' }, b: {}, c: { page: 3, uid: 7 } }
  expect(mapped('documents', { id: 'd', input_fields })).toMatchObject({
    document_input_fields: [
      ['1', null, 'A', null, 'text', 'f', null],
      ['2', null, 'b', null, null, null, null],
      ['3', '7', 'c', null, null, null, '3'],
    ],
    problems: [],
  })
})

test('a message: a status that is empty is none, one in an unknown form is kept whole, and an empty time is none', () => {
  const scheduled = { status: 'queued', scheduled_at: '2024-01-01T10:00:00Z' }
  expect([
    mapped('messages', { status: { name: null }, scheduled }).root,
    mapped('messages', { status: { code: 1 }, delivery_status: 'sent' }).root,
    mapped('messages', { status: { value: 'v', other: 1 }, scheduled_at: '', scheduled }).root,
    mapped('messages', { status: {}, delivery_status: { status: 'd' }, scheduled_at: null, scheduled }).root,
  ]).toEqual([
    { status: 'queued', scheduled_at: '2024-01-01T10:00:00.000000Z' },
    { status: '{"code":1}' },
    { status: 'v' },
    { status: 'd', scheduled_at: '2024-01-01T10:00:00.000000Z' },
  ])
})

test('a form: questions keep their places across pages, sections and rows, nulls included', () => {
  const record = {
    pages: [
      {
        questions: [
          null,
          { id: 'a', question_type: 'text', answer_choices: ['x', null, { text: 'y' }] },
          null,
        ],
      },
      null,
      { sections: [{ rows: [{ questions: [{ id: 'b', order: 2 }] }, { questions: ['c', { uid: 'd' }] }] }] },
    ],
    rows: [{ questions: [{ id: 'e', choices: [{ uid: 'z', points: 1.5, code: 'Z' }] }] }],
  }
  const none = (many: number) => Array.from({ length: many }, () => null)
  expect(mapped('forms', record)).toEqual({
    root: {},
    form_questions: [
      ['2', 'a', 'text', ...none(7)],
      ['4', 'b', ...none(4), '2', ...none(3)],
      ['6', 'd', ...none(8)],
      ['7', 'e', ...none(8)],
    ],
    question_choices: [
      ['2', '1', 'a', null, 'x', null, null],
      ['2', '3', 'a', null, 'y', null, null],
      ['7', '1', 'e', 'z', null, 'Z', '1.5'],
    ],
    problems: ['pages[2].sections[0].rows[1].questions[0]: not an object'],
    extra: null,
  })
})

test('the ids of questions and choices that cannot be read are problems of their own places', () => {
  const record = {
    questions: [
      { id: 'a', text: 'A', choices: [{ id: ['c'], text: 'C' }, { id: 'd' }] },
      { id: { deep: 1 }, text: 'B', question_type: { question_type: 7, question_subtype: ['s'] } },
      { uid: true, text: 'C' },
    ],
  }
  const { form_questions, question_choices, problems } = mapped('forms', record) as Record<string, unknown>
  expect((form_questions as string[][]).map((row) => row.slice(0, 2))).toEqual([
    ...[
      ['1', 'a'],
      ['2', null],
      ['3', null],
    ],
  ])
  expect((question_choices as string[][]).map((row) => row.slice(0, 4))).toEqual([
    ...[
      ['1', '1', 'a', null],
      ['1', '2', 'a', 'd'],
    ],
  ])
  expect(problems).toEqual([
    'questions[1].id: not an id',
    'questions[2].uid: not an id',
    'questions[0].choices[0].id: not an id',
  ])
})

test('secrets of a webhook are removed wherever they are and whatever their names begin or end with; flags stay', () => {
  const reading = { teamId: 1, stream: streamNamed('webhook_configs')!, origin: 'o', observedAt: at(0) }
  const input = {
    ...{ id: 'w', signature_secret: 'a', secret_of_test: 'b', has_secret: true, no_secret: null },
    sources: [{ oldSecrets: ['c'], name: 'n' }, 'response'],
  }
  const read = readRecord(input, { ...reading, invalidUtf8: false })
  expect(read).toMatchObject({
    envelope: {
      content: {
        payload: { id: 'w', has_secret: true, no_secret: null, sources: [{ name: 'n' }, 'response'] },
        text: '{"has_secret":true,"id":"w","no_secret":null,"sources":[{"name":"n"},"response"]}',
      },
    },
  })
})
