/** The typed cells of a text: at most one of them, and only if the whole text is a number, a boolean or a date. */
import { describe, expect, test } from 'vitest'
import { booleanOf, dateOf, numberOf, typedCells } from '../../../src/streams/parts/response-answers.ts'

describe('a number', () => {
  test.each([
    ...['0', '7', '-7', '+7', '007', '1.5', '.5', '-.5', '+.25', '10.00', '1e3', '1E3', '1e+3', '1.5e-30'],
    ...['9'.repeat(9_990), '1e9998', '12.25E-12'],
  ])('is stored with the digits that were written: %s', (text) => {
    expect(typedCells(text)).toEqual([text, null, null])
    expect(numberOf(text)).toBe(text)
  })

  test.each([
    ...['', '.', '5.', '-', '1e', '1e+', 'e5', '1.2.3', '1 2', ' 1', '1 ', '1,5', '0x1f', 'x1', '1x', '--1'],
    ...['1e10000', '9'.repeat(10_001), 'NaN', 'Infinity', '１'],
  ])('is not %j', (text) => {
    expect(numberOf(text)).toBeNull()
    expect(typedCells(text)).toEqual([null, null, null])
  })
})

test.each([
  ...['true', 'True', 'TRUE', 'tRUE', 'yes', 'Yes', 'YES', 'yES'].map((text) => [text, 't'] as const),
  ...['false', 'False', 'FALSE', 'fALSE', 'no', 'No', 'NO', 'nO'].map((text) => [text, 'f'] as const),
])('%s is the boolean %s', (text, cell) => {
  expect(booleanOf(text)).toBe(cell)
  expect(typedCells(text)).toEqual([null, cell, null])
})

test.each(['yesno', 'truey', 'notes', 'false.', 'no ', ' no', 'y', 'n', 't', 'not', 'tru', 'on', 'xtrue'])(
  '%j is no boolean',
  (text) => {
    expect(booleanOf(text)).toBeNull()
    expect(typedCells(text)).toEqual([null, null, null])
  },
)

test('a day that exists is a date, and neither its time nor its number is', () => {
  expect(typedCells('2024-02-29')).toEqual([null, null, '2024-02-29'])
  for (const text of ['2023-02-29', '2024-02-29T00:00', '2024-2-29', '20240229x', ' 2024-02-2']) {
    expect(dateOf(text)).toBeNull()
  }
  expect(typedCells('20240229')).toEqual(['20240229', null, null])
})

test('nothing is read from nothing', () => {
  expect(typedCells(null)).toEqual([null, null, null])
  expect(typedCells('')).toEqual([null, null, null])
})
