/** Text of the service on a terminal, and tables. */
import { expect, it } from 'vitest'
import { printable, shown, table } from '../../src/commands/printable.ts'
import { parseText } from '../../src/core/json.ts'

it.each([
  ['\u0000\u001b[2J\u001f', '\\x00\\x1b[2J\\x1f'],
  ['\u007f\u0080\u009f\u00a0', '\\x7f\\x80\\x9f\u00a0'],
  ['a\u200bb\u200f\u2010', 'a\\u{200b}b\\u{200f}\u2010'],
  ['\u2027\u2028\u202e\u202f', '\u2027\\u{2028}\\u{202e}\u202f'],
  ['\u205f\u2060\u2069\u206a\ufeff', '\u205f\\u{2060}\\u{2069}\u206a\\u{feff}'],
  ['lone \ud800 surrogate', 'lone \ufffd surrogate'],
  ['Zoë ~ 漢字 😀', 'Zoë ~ 漢字 😀'],
])('%j cannot move the cursor or turn the direction of writing', (text, safe) => {
  expect(printable(text)).toBe(safe)
})

it('any value is one line, and what is not there is nothing', () => {
  expect([null, undefined, '', 0, false, 'a\nb', { a: [1, null] }].map((each) => shown(each))).toEqual([
    ...['', '', '', '0', 'false', 'a\\x0ab', '{"a":[1,null]}'],
  ])
})

it('a number that JavaScript would change is shown with its digits, alone and in an object', () => {
  const values = ['12345678901234567890', '{"n":[1.10,-0]}'].map((text) => shown(parseText(text)))
  expect(values).toEqual(['12345678901234567890', '{"n":[1.10,-0]}'])
})

it('a table has numbers at the right, texts at the left, and no blanks at the end of a line', () => {
  const rows = [
    ['name', 'count', 'note'],
    ['😀', 7, ''],
    ['long name', 1234567, 'x'],
  ]
  expect(table(rows)).toBe('name       count    note\n😀                7\nlong name  1234567  x\n')
})
