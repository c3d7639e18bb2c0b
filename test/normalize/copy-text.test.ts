/** The text format of COPY, cell by cell. */
import { expect, test } from 'vitest'
import { copyCell, copyCells } from '../../src/normalize/lines.ts'

test.each([
  ['a null', null, '\\N'],
  ['an empty text, which is not null', '', ''],
  ['plain text', "Ann O'Hara; 1,5 %", "Ann O'Hara; 1,5 %"],
  ['a tab', 'a\tb', 'a\\tb'],
  ['line ends', 'a\nb\r\nc', 'a\\nb\\r\\nc'],
  ['backslashes', 'a\\N\\\\b', 'a\\\\N\\\\\\\\b'],
  ['a tab and nothing else', '\t', '\\t'],
])('%s is written so that COPY reads it back', (_, cell, written) => {
  expect(copyCell(cell)).toBe(written)
})

test('cells are separated by tabs, and a row has no line end', () => {
  expect(copyCells(['a', null, '', 'b\tc'])).toBe('a\t\\N\t\tb\\tc')
  expect(copyCells(['a'])).toBe('a')
  expect(copyCells([])).toBe('')
})
