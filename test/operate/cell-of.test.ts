/** What a cell of an export may say of an answer. */
import { expect, it } from 'vitest'
import { agrees, NOTHING } from '../../src/reconcile/verify/deep/cell-of.ts'

const column = (type: string, title = 'Q') => ({ title, questionText: 'Q', type })
const answered = (...answers: (string | null)[][]) => ({
  ...NOTHING,
  answers: answers.map((values) => ({ values })),
})

it('an answer of nothing is an empty cell, and no other', () => {
  for (const sheet of [NOTHING, answered([null]), answered([])]) {
    expect(agrees('', column('short_text'), sheet)).toBe(true)
    expect(agrees('x', column('short_text'), sheet)).toBe(false)
  }
})

it('choices and a free text are joined; a repeated question is the last answer, or all of them', () => {
  expect(
    agrees('Cane, Other, my own', column('multiple_choice'), answered(['Cane', 'Other', 'my own'])),
  ).toBe(true)
  const twice = answered(['a'], ['b'])
  for (const text of ['b', 'a; b', 'a, b']) expect(agrees(text, column('short_text'), twice)).toBe(true)
  expect(agrees('a', column('short_text'), twice)).toBe(false)
  expect(agrees('; b', column('short_text'), answered([null], ['b']))).toBe(true)
})

it('a tick is a tick in any words, and no tick is none', () => {
  for (const word of ['confirmed', 'True', 'yes']) {
    expect(agrees(word, column('checkbox'), answered(['true']))).toBe(true)
    expect(agrees(word, column('checkbox'), answered(['false']))).toBe(false)
  }
  for (const word of ['', 'False', 'no'])
    expect(agrees(word, column('checkbox'), answered(['false']))).toBe(true)
})

it('the kind of line ends makes no difference', () => {
  expect(agrees('a\r\nb', column('long_text'), answered(['a\nb']))).toBe(true)
})

it('a cell of a table is found by its title, or all of them stand in lines; without texts nothing is said', () => {
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

it('files are their names, signatures those who signed', () => {
  expect(agrees('a.png, b.png', column('file'), { ...NOTHING, files: ['a.png', 'b.png'] })).toBe(true)
  expect(agrees('Ann', column('signature'), { ...NOTHING, signers: ['Ann'] })).toBe(true)
  expect(agrees('', column('signature'), { ...NOTHING, signers: ['Ann'] })).toBe(false)
})
