/** Which columns a wide view has after each change of its questions: all of them, each with its name, type and text. */
import { expect, test } from 'vitest'
import {
  type AskedQuestion,
  columnsFor,
  nameFor,
  type WideColumn,
} from '../../../src/analytics/wide/wide-columns.ts'

const asked = (
  kind: string,
  question_text: string | null,
  more: Partial<AskedQuestion> = {},
): AskedQuestion => ({
  ...{ question_id: 'q', question_text, question_type: kind, kind, repeats: false, is_asked: true },
  ...more,
})
const answered = (more: Partial<AskedQuestion> = {}) =>
  asked('other', null, { question_type: null, is_asked: false, ...more })

const lineOf = ({ place, column_name, question_id, data_type, is_array, ...of }: WideColumn) =>
  `${place} ${column_name} ${question_id} ${data_type}${is_array ? '[]' : ''} ${of.question_text} (${of.question_type})`

/** The columns after each step; a step without lines adds none and changes none. */
function expectSteps(...steps: readonly (readonly [AskedQuestion[], ...string[]])[]): void {
  let columns: readonly WideColumn[] = []
  let lines: readonly string[] = []
  for (const [at, [questions, ...expected]] of steps.entries()) {
    columns = columnsFor(columns, questions, new Set(['patient_id']))
    if (expected.length > 0) lines = expected
    expect([at, columns.map(lineOf)]).toEqual([at, lines])
  }
}

test('a question whose type changes gets a column of the new type, named after its first one', () => {
  expectSteps(
    [[asked('number', 'Weight')], '1 weight q numeric Weight (number)'],
    [
      [asked('checkbox', 'Heavy?')],
      '1 weight q numeric Heavy? (number)',
      '2 weight_boolean q boolean Heavy? (checkbox)',
    ],
    [
      [asked('number', 'Weights', { repeats: true })],
      '1 weight q numeric Weights (number)',
      '2 weight_boolean q boolean Weights (checkbox)',
      '3 weight_all q numeric[] Weights (number)',
    ],
    // Of a type that has a column, also as an array.
    [[asked('number', 'Weights')]],
    [[asked('checkbox', null)]],
    // No longer asked: as it was last.
    [[answered({ repeats: true, question_text: 'Another' })]],
    [[]],
    [
      [asked('matrix', 'Table')],
      '1 weight q numeric Table (number)',
      '2 weight_boolean q boolean Table (checkbox)',
      '3 weight_all q numeric[] Table (number)',
      '4 weight_jsonb q jsonb Table (matrix)',
    ],
  )
})

test.each([
  ['text', 'text', 'text'],
  ['number', 'number', 'numeric'],
  ['checkbox', 'yes_no', 'boolean'],
  ['date', 'date', 'date'],
])(
  'a question of kind %s that is no longer asked becomes an array once an answer repeats',
  (kind, question_type, type) => {
    const first = `1 what q ${type} What (${question_type})`
    expectSteps(
      [[asked(kind, 'What', { question_type })], first],
      [[answered()]],
      [[answered({ repeats: true })], first, `2 what_all q ${type}[] null (null)`],
      [[answered({ repeats: true })]],
    )
  },
)

test.each([
  ['matrix', 'jsonb'],
  ['signature', 'timestamptz'],
  ['year', 'integer'],
])('a question of kind %s stays one value, however often it is answered', (kind, type) => {
  expectSteps(
    [[asked(kind, 'What', { repeats: true })], `1 what q ${type} What (${kind})`],
    [[answered({ repeats: true })]],
  )
})

test('of two types that a question had, the last one counts when it is no longer asked', () => {
  const both = ['1 what q numeric What (number)', '2 what_boolean q boolean What (checkbox)']
  expectSteps(
    [[asked('number', 'What')], both[0]!],
    [[asked('checkbox', 'What')], ...both],
    [[answered({ repeats: true })], ...both, '3 what_all q boolean[] null (null)'],
  )
})

test('questions that only answers refer to come with what is known of them, and those that ask nothing get no column', () => {
  const known = answered({ question_id: 'a', question_text: 'Known', repeats: true })
  expectSteps(
    [
      [
        asked('none', 'Please read', { question_id: 'n' }),
        asked('text', null, { question_id: 'e' }),
        asked('text', '', { question_id: 'f' }),
        known,
        answered({ question_id: 'b' }),
      ],
      '1 question e text null (text)',
      '2 question_2 f text  (text)',
      '3 known a text[] Known (null)',
      '4 question_3 b text null (null)',
    ],
    // It is asked again, with its text.
    [
      [asked('text', 'Now', { question_id: 'b' })],
      '1 question e text null (text)',
      '2 question_2 f text  (text)',
      '3 known a text[] Known (null)',
      '4 question_3 b text Now (null)',
    ],
  )
})

test('the same text twelve times gives twelve names, none of them taken, each of at most 63 bytes', () => {
  for (const [text, names] of [
    ['Patient ID', (n: number) => `patient_id_${n + 2}`],
    ['Age', (n: number) => (n === 0 ? 'age' : `age_${n + 1}`)],
    ['x'.repeat(70), (n: number) => (n === 0 ? 'x'.repeat(63) : `${'x'.repeat(n < 9 ? 61 : 60)}_${n + 1}`)],
    // Without the underscore at which it is cut.
    [`${'y'.repeat(60)} z`, (n: number) => (n === 0 ? `${'y'.repeat(60)}_z` : `${'y'.repeat(60)}_${n + 1}`)],
  ] as const) {
    const questions = Array.from({ length: 12 }, (_, n) => asked('text', text, { question_id: `q${n}` }))
    const columns = columnsFor([], questions, new Set(['patient_id']))
    expect(columns.map(({ column_name }) => column_name)).toEqual(questions.map((_, n) => names(n)))
  }
})

test('a name has only what needs no quotes, or what stands for nothing', () => {
  const naming = { empty: 'form', prefix: 'n_', taken: new Set(['form']) }
  expect(
    ['7 days', '٣ days', '_x_', '—', ' Ünïcode_Ärger ', 'a.b/c', 'İstanbul'].map((text) =>
      nameFor(text, naming),
    ),
  ).toEqual([...['n_7_days', 'n_٣_days', 'x', 'form_2', 'unicode_arger', 'a_b_c', 'istanbul']])
})
