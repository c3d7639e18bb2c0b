/** Each type of cell takes the values that it can hold, and reports any other with its original; nothing is lost. */
import { describe, expect, test } from 'vitest'
import type { Problem } from '../../../src/core/envelope.ts'
import { parseText } from '../../../src/core/json.ts'
import { mapRecord } from '../../../src/normalize/map.ts'
import { type CellType, readCell } from '../../../src/streams/parts/cell.ts'
import { idOrText } from '../../../src/streams/parts/parts.ts'
import { responses } from '../../../src/streams/responses.ts'
import { NOT } from '../reasons.ts'

const REASONS: Readonly<Record<Exclude<CellType, 'text'>, string>> = {
  ...{ boolean: NOT.boolean, time: NOT.time, date: NOT.date, integer: NOT.integer, bigint: NOT.bigint },
  ...{ number: 'not a number', reference: NOT.id, texts: NOT.texts },
}

const read = (type: CellType, json: string) => {
  const problems: Problem[] = []
  return { cell: readCell(type, parseText(json), 'a.path', problems), problems }
}

const READABLE: Readonly<Record<CellType, readonly (readonly [json: string, cell: string])[]>> = {
  text: [
    ['"a b"', 'a b'],
    ['""', ''],
    ['true', 'true'],
    ['1.50', '1.50'],
    ['{"b":1,"a":[null]}', '{"a":[null],"b":1}'],
  ],
  boolean: [
    ['true', 't'],
    ['"true"', 't'],
    ['false', 'f'],
    ['"false"', 'f'],
  ],
  time: [['"2025-01-01T00:00:00.5Z"', '2025-01-01T00:00:00.500000Z']],
  date: [['"2024-02-29"', '2024-02-29']],
  integer: [
    ['0', '0'],
    ['-7', '-7'],
    ['"7"', '7'],
    ['7.0', '7'],
    ['"7.000"', '7'],
    ['2147483647', '2147483647'],
    ['-2147483648', '-2147483648'],
    ['"0000000000000000007"', '7'],
  ],
  bigint: [
    ['9223372036854775807', '9223372036854775807'],
    ['"-9223372036854775808"', '-9223372036854775808'],
  ],
  number: [
    ['0', '0'],
    ['12', '12'],
    ['-12.25', '-12.25'],
    ['1.50', '1.50'],
    ['"12.25"', '12.25'],
    ['1e3', '1e3'],
    ['"1E+3"', '1E+3'],
    ['"12e-123"', '12e-123'],
    ['12345678901234567890.5', '12345678901234567890.5'],
  ],
  reference: [
    ['"p"', 'p'],
    ['7', '7'],
    ['{"id":"p","name":"x"}', 'p'],
    ['{"uid":7}', '7'],
  ],
  texts: [
    ['["a","b"]', '{"a","b"}'],
    ['"a"', '{"a"}'],
    ['["a\\"b","c\\\\d",null,7,{"x":1}]', '{"a\\"b","c\\\\d","7","{\\"x\\":1}"}'],
    ['[]', '{}'],
  ],
}

const UNREADABLE: Readonly<Record<Exclude<CellType, 'text'>, readonly string[]>> = {
  boolean: ['0', '1', '"yes"', '"True"', '[true]'],
  time: ['"soon"', '20250101', '["2025-01-01T00:00:00Z"]', '{"at":"2025-01-01"}', 'true'],
  date: ['"2025-02-29"', '["2025-01-01"]', '20250101'],
  integer: [
    ...['2147483648', '-2147483649', '"12345678901234567890"', '7.5', '"7.05"', '" 7"', '"7 "', '"x7"'],
    ...['"7x"', '"+7"', '1e3', 'true', '[7]', '{"7":7}', '"."', '"7."'],
  ],
  bigint: ['9223372036854775808', '-9223372036854775809', '"1e3"'],
  number: ['"1,5"', '"x1"', '"1x"', '"1e"', '"1e1000"', '".5"', '"5."', '"1e+-3"', '" 1"', 'true', '[1]'],
  reference: ['["p"]', 'true', '{"name":"x"}', '12345678901234567890.5'],
  texts: ['7', '{"a":"b"}', 'true'],
}

describe.each(Object.keys(READABLE) as CellType[])('a cell of type %s', (type) => {
  test.each(READABLE[type])('takes %s as %s', (json, cell) => {
    expect(read(type, json)).toEqual({ cell, problems: [] })
  })

  test.each(['null', ...(type === 'text' ? [] : ['""'])])('takes %s as no value', (json) => {
    expect(read(type, json)).toEqual({ cell: null, problems: [] })
    expect(readCell(type, undefined, 'a.path', [])).toBeNull()
  })

  if (type !== 'text')
    test.each(UNREADABLE[type])('reports %s with its place and its original', (json) => {
      const problem = { path: 'a.path', reason: REASONS[type], original: parseText(json) }
      expect(read(type, json)).toEqual({ cell: null, problems: [problem] })
    })
})

test.each(['{}', '{"id":null}', '{"uid":null,"name":"x"}', '{"id":"","name":"x"}', '{"id":null,"uid":null}'])(
  'an object without the value of an id names nothing: %s',
  (json) => {
    expect(read('reference', json)).toEqual({ cell: null, problems: [] })
  },
)

test.each([
  ['"3"', [null, '3']],
  ['"1b4e28ba-2fa1-11d2-883f-0016d3cca427"', ['1b4e28ba-2fa1-11d2-883f-0016d3cca427', null]],
  ['"1B4E28BA2FA111D2883F0016D3CCA427"', ['1B4E28BA2FA111D2883F0016D3CCA427', null]],
  ['"1b4e28ba-2fa1-11d2-883f-0016d3cca42"', [null, '1b4e28ba-2fa1-11d2-883f-0016d3cca42']],
  ['"x1b4e28ba-2fa1-11d2-883f-0016d3cca427"', [null, 'x1b4e28ba-2fa1-11d2-883f-0016d3cca427']],
  ['"1b4e28ba-2fa1-11d2-883f-0016d3cca4270"', [null, '1b4e28ba-2fa1-11d2-883f-0016d3cca4270']],
  ['3', ['3', null]],
  ['1.50', ['1.50', null]],
  ['12345678901234567890', ['12345678901234567890', null]],
  ['true', [null, 'true']],
  ['false', [null, 'false']],
] as const)('a bare %s is the id or the label %j, exactly as received', (json, cells) => {
  const problems: Problem[] = []
  expect(idOrText(parseText(json), 'row', problems)).toEqual(cells)
  expect(problems).toEqual([])
})

test('a list in the place of an id or a label is reported', () => {
  const problems: Problem[] = []
  expect(idOrText(['a'], 'row', problems)).toEqual([null, null])
  expect(problems).toEqual([{ path: 'row', reason: NOT.id, original: ['a'] }])
})

test.each([
  ['a question', { question: ['q'] }, 'question', NOT.id],
  ['a question that is an object', { question: { id: ['q'] } }, 'question.id', NOT.id],
  ['the id of a question', { question_id: ['q'] }, 'question_id', NOT.id],
  [
    'a choice in an object',
    { answer_choices: [{ question_choice: { id: ['c'] } }] },
    'answer_choices[0].question_choice.id',
    NOT.id,
  ],
  [
    'a choice in a list',
    { answer_choices: [{ question_choice: ['c'] }] },
    'answer_choices[0].question_choice',
    NOT.id,
  ],
  ['the id of a choice', { answer_choices: [{ id: ['c'] }] }, 'answer_choices[0].id', NOT.id],
  ['a choice of nothing known', { answer_choices: [{ x: 1 }] }, 'answer_choices[0]', NOT.choice],
])('of an answer, %s that cannot be read is one problem, with its place', (_, answer, place, reason) => {
  const { problems } = mapRecord(responses, { id: 'r', answers: [answer] }, [])
  expect(problems.map((each) => [each.path, each.reason])).toEqual([[`answers[0].${place}`, reason]])
})

test.each([
  ['"AAAA"', 't'],
  ['" "', 'f'],
  ['""', 'f'],
  ['true', 't'],
  ['false', 'f'],
  ['0', 't'],
  ['1.50', 't'],
  ['null', 'f'],
  ['{}', 'f'],
  ['[]', 'f'],
  ['{"a":"","b":null}', 'f'],
  ['{"a":"","b":["x"]}', 't'],
  ['[" ",[{"c":7}]]', 't'],
])('a signature has an image if its image is %s: %s', (json, cell) => {
  for (const field of ['image', 'url', 'data']) {
    const { children } = mapRecord(
      responses,
      { id: 'r', signatures: [{ signer_name: 'A', [field]: parseText(json) }] },
      [],
    )
    expect(children[3]!.map((row) => row.at(-1))).toEqual([cell])
  }
})

describe('a cell of a matrix', () => {
  const cellsOf = (cell: object, answers: readonly object[] = []) => {
    const { children, problems } = mapRecord(responses, { id: 'r', answers, matrix_cells: [cell] }, [])
    return { row: children[1]![0]!, problems: problems.map(({ path }) => path) }
  }

  test('has its row and column in fields of their own where they are no objects, or null', () => {
    const cell = { row: null, row_id: 'r', row_text: 'R', column_index: 3, column_text: 'C', value: 'v' }
    const found = cellsOf(cell)
    expect(found).toEqual({ row: ['1', null, 'r', 'R', '3', 'C', 'v', null], problems: [] })
  })

  test('reports a row or column that cannot be read in its place', () => {
    const { problems } = cellsOf({ row_id: ['r'], column_index: { a: 1 }, value: 'v' })
    expect(problems).toEqual(['matrix_cells[0].row_id', 'matrix_cells[0].column_index'])
  })

  test('without a question has no text of an answer whose question has no id either', () => {
    const answers = [{ question_text: 'How?', answer_text: 'x' }]
    expect(cellsOf({ row: 'a', value: 'v' }, answers).row.at(-1)).toBeNull()
    const named = [{ question_id: 'q', question_text: 'How?' }]
    expect(cellsOf({ question_id: 'q', value: 'v' }, named).row.at(-1)).toBe('How?')
  })
})
