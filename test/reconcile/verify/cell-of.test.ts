/** The possible texts of an answer in a cell of an export. */
import { expect, it } from 'vitest'
import { agrees, NOTHING } from '../../../src/reconcile/verify/cell-of.ts'

const column = (type: string, title = 'Q') => ({ title, questionText: 'Q', type })
const answered = (...answers: (string | null)[][]) => ({
  ...NOTHING,
  answers: answers.map((values) => ({ values })),
})

it('an unanswered question is an empty cell, and no other is', () => {
  for (const sheet of [NOTHING, answered([null]), answered([])]) {
    expect(agrees('', column('short_text'), sheet)).toBe(true)
    expect(agrees('x', column('short_text'), sheet)).toBe(false)
  }
})

it('choices and a free text are joined; a repeated question gives the last answer, or all of them', () => {
  expect(
    agrees('Cane, Other, my own', column('multiple_choice'), answered(['Cane', 'Other', 'my own'])),
  ).toBe(true)
  const twice = answered(['a'], ['b'])
  for (const text of ['b', 'a; b', 'a, b']) expect(agrees(text, column('short_text'), twice)).toBe(true)
  expect(agrees('a', column('short_text'), twice)).toBe(false)
  expect(agrees('; b', column('short_text'), answered([null], ['b']))).toBe(true)
})

it('a ticked box is recognized in any wording, and an unticked one is empty', () => {
  const ticked = ['confirmed', 'True', 'yes', 'Checked', '1', ' X ']
  const open = ['', 'False', 'no', 'Unchecked', ' 0', '  ']
  const judged = (words: readonly string[], answer: string | null) =>
    words.map((word) => [word, agrees(word, column('checkbox'), answered([answer]))])
  const all = (words: readonly string[], is: boolean) => words.map((word) => [word, is])
  for (const answer of ['true', 'True', 'YES', 'confirmed', 'checked', '1', 'x'])
    expect([answer, ...judged(ticked, answer), ...judged(open, answer)]).toEqual([
      answer,
      ...all(ticked, true),
      ...all(open, false),
    ])
  for (const answer of ['false', 'no', '0', null])
    expect([answer, ...judged(ticked, answer), ...judged(open, answer)]).toEqual([
      answer,
      ...all(ticked, false),
      ...all(open, true),
    ])
  // No other word says either.
  for (const answer of ['true', 'false'])
    expect(agrees('perhaps', column('checkbox'), answered([answer]))).toBe(false)
})

it('a box that was asked for several times gives the last tick, or all of them, as words or as values', () => {
  const sheet = answered(['true'], ['false'], ['true'])
  const texts = ['confirmed', 'confirmed; ; confirmed', 'confirmed, , confirmed', 'true', 'true; false; true']
  for (const text of texts) expect([text, agrees(text, column('checkbox'), sheet)]).toEqual([text, true])
  for (const text of ['', 'false', 'confirmed; confirmed', 'confirmed; confirmed; confirmed'])
    expect([text, agrees(text, column('checkbox'), sheet)]).toEqual([text, false])
  expect(agrees('', column('checkbox'), answered(['false'], ['false']))).toBe(true)
  expect(agrees('confirmed', column('checkbox'), answered(['false'], ['false']))).toBe(false)
})

it('line endings make no difference', () => {
  expect(agrees('a\r\nb', column('long_text'), answered(['a\nb']))).toBe(true)
})

it('a cell of a matrix is found by its title, or all cells are lines of one text; without texts nothing is decided', () => {
  const cells = [
    { row: 'Aspirin', column: 'Dose', value: '81 mg' },
    { row: 'Aspirin', column: 'Times', value: 'daily' },
  ]
  const sheet = { ...NOTHING, cells }
  expect(agrees('81 mg', column('matrix', 'Q - Aspirin - Dose'), sheet)).toBe(true)
  expect(agrees('daily', column('matrix', 'Q - Aspirin - Dose'), sheet)).toBe(false)
  expect(agrees('', column('matrix', 'Q - Ibuprofen - Dose'), sheet)).toBe(true)
  expect(agrees('Aspirin / Dose: 81 mg\r\nAspirin / Times: daily', column('matrix'), sheet)).toBe(true)
  const untold = { ...NOTHING, cells: [{ row: null, column: 'Dose', value: '81 mg' }] }
  expect(agrees('81 mg', column('matrix', 'Q - Aspirin - Dose'), untold)).toBe(null)
})

it('files are their names, signatures the names of the signers', () => {
  expect(agrees('a.png, b.png', column('file'), { ...NOTHING, files: ['a.png', 'b.png'] })).toBe(true)
  expect(agrees('Ann', column('signature'), { ...NOTHING, signers: ['Ann'] })).toBe(true)
  expect(agrees('', column('signature'), { ...NOTHING, signers: ['Ann'] })).toBe(false)
})

const cells = (...all: readonly (readonly [string | null, string | null, string | null])[]) => ({
  ...NOTHING,
  cells: all.map(([row, column, value]) => ({ row, column, value })),
})
const twice = cells(['A', 'D', '1'], ['A', 'D', '2'])

it.each([
  [
    'a box that nobody was asked for is an open one',
    'checkbox',
    'Q',
    NOTHING,
    { '': true, False: true, yes: false },
  ],
  [
    'a choice without a text is left out',
    'multiple_choice',
    'Q',
    answered(['a', null, 'b']),
    { 'a, b': true, 'a, , b': false },
  ],
  [
    'line ends of any system are equal',
    'long_text',
    'Q',
    answered(['a\nb\nc']),
    { 'a\rb\r\nc': true, 'a b c': false },
  ],
  [
    'an answer is compared with its blanks and capitals',
    'short_text',
    'Q',
    answered(['a']),
    { a: true, ' a': false, A: false },
  ],
  [
    'a table without a text of a column is not compared',
    'matrix',
    'Q',
    cells(['A', null, '1']),
    { '1': null, '': null },
  ],
  [
    'one cell without texts makes the others unknown',
    'matrix',
    'Q - A - D',
    cells(['A', 'D', '1'], [null, 'D', '2']),
    { '1': null },
  ],
  [
    'a cell of a table that is there twice is the last, or both',
    'matrix',
    'Q - A - D',
    twice,
    { '2': true, '1; 2': true, '1, 2': true, '1': false },
  ],
  ['a table has the last value of a cell', 'matrix', 'Q', twice, { 'A / D: 2': true, 'A / D: 1': false }],
  [
    'a cell that was emptied is in no line',
    'matrix',
    'Q',
    cells(['A', 'D', '1'], ['A', 'E', '3'], ['A', 'D', null]),
    { 'A / E: 3': true, 'A / D: 1\nA / E: 3': false },
  ],
  [
    'a table of empty cells is empty',
    'matrix',
    'Q',
    cells(['A', 'D', ''], ['A', 'E', null]),
    { '': true, 'A / D: ': false },
  ],
  [
    'a file without a name has an empty place',
    'file',
    'Q',
    { ...NOTHING, files: ['a.png', null] },
    { 'a.png; ': true, '': true, 'a.png': false },
  ],
  [
    'files that have no name are an empty cell',
    'file',
    'Q',
    { ...NOTHING, files: [null, null] },
    { '': true, '; ': false },
  ],
  [
    'of several signers the last, or all',
    'signature',
    'Q',
    { ...NOTHING, signers: ['Ann', 'Bo'] },
    { Bo: true, 'Ann; Bo': true, Ann: false },
  ],
])('%s', (_, type, title, sheet, texts) => {
  const judged = Object.keys(texts).map((text) => [text, agrees(text, column(type, title), sheet)])
  expect(Object.fromEntries(judged)).toEqual(texts)
})
