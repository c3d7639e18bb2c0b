/** The text of an exported file, in whatever pieces it arrives. */
import { expect, test } from 'vitest'
import { FIRST_PIECE, isSentAsJsonString, openExportText } from '../../../src/load/exports/export-text.ts'

const CSV = 'Client ID,Name\r\n1,"Zo\u00eb, \u{1f600}"\n2,\n'
const RECORDS = [
  ['Client ID', 'Name'],
  ['1', 'Zo\u00eb, \u{1f600}'],
  ['2', ''],
]

test.each([
  ['as it is', false, CSV],
  ['with a mark of its encoding', false, `\ufeff${CSV}`],
  ['as a JSON string', true, JSON.stringify(CSV)],
  ['as a JSON string with the mark before it', true, `\ufeff${JSON.stringify(CSV)}`],
  ['as a JSON string with the mark in it', true, JSON.stringify(`\ufeff${CSV}`)],
])(
  'a file sent %s has the same records, wherever it is cut after its first bytes',
  (_, isJsonString, sent) => {
    const bytes = Buffer.from(sent)
    for (const size of [1, 2, 3, bytes.length]) {
      const records: string[][] = []
      const text = openExportText({ isJsonString }, (cells) =>
        records.push(cells.map((cell) => Buffer.from(cell, 'latin1').toString('utf8'))),
      )
      text.write(bytes.subarray(0, FIRST_PIECE))
      for (let at = FIRST_PIECE; at < bytes.length; at += size) text.write(bytes.subarray(at, at + size))
      text.end()
      expect(records).toEqual(RECORDS)
    }
  },
)

test.each([
  ['application/json', '"a,b"', true],
  ['application/json', ' \t\r\n"a', true],
  ['application/json', '\ufeff "a', true],
  ['Application/JSON; charset=utf-8', '"a', true],
  [' application/json', '"a', true],
  ['application/json', 'a,"b"', false],
  ['application/json', '  ', false],
  ['application/json', '', false],
  ['application/json', '[1]', false],
  ['application/jsonl', '"a', false],
  ['text/plain; application/json', '"a', false],
  ['text/csv', '"a', false],
  [undefined, '"a', false],
  // Of another type, if the first title has no quote at its end.
  ['text/csv', '"Client ID,First Name', true],
  [undefined, '\ufeff"Client ID,First Name', true],
  ['text/csv', '"Client ID","First Name', false],
  ['text/csv', 'Client ID,First Name', false],
  ['text/csv', ' "Client ID,First Name', false],
])('of type %s, a file that begins with %j is a JSON string: %s', (type, first, expected) => {
  expect(isSentAsJsonString(type, Buffer.from(first))).toBe(expected)
})

test('a file is known to be storable, or not, before a record with such bytes is read', () => {
  const storable = (isJsonString: boolean, ...pieces: readonly string[]) => {
    const found: boolean[] = []
    const text = openExportText({ isJsonString }, () => found.push(text.allStorable))
    for (const piece of pieces) text.write(Buffer.from(piece, 'latin1'))
    text.end()
    return found
  }
  expect(storable(false, 'Client ID,Name\n1,a\n', '2,\xff\n3,b\n')).toEqual([true, true, false, false])
  expect(storable(false, 'Client ID,Name\n1,a\n', '2,\xc3')).toEqual([true, true, false])
  expect(storable(true, '"Client ID,Name\\n1,a\\n', '2,\\ud83d\\n"')).toEqual([true, true, false])
  expect(storable(true, '"Client ID,Name\\n1,a\\n', '2,\\u0000\\n"')).toEqual([true, true, false])
})

test.each([
  ['a quoted cell without end', 'a\n\n"b', 3],
  ['a quoted cell without end', '\n\r\n\r\r"b', 5],
  ['a quote inside a bare cell', 'a\n"1\n2",3\n4"', 4],
  ['a quote inside a bare cell', 'a\n"1\r2\r\n3",4"', 4],
  ['a quote inside a bare cell', 'a\r\n"1,2",3"', 2],
  ['bytes after a closing quote', 'a\n"1\r2"3', 3],
  ['bytes after a closing quote', '"1\n\n2""3"4', 3],
])('%s is in the line in which it is in the file: %j', (what, text, line) => {
  for (const size of [FIRST_PIECE, 100]) {
    const read = () => {
      const records = openExportText({ isJsonString: false }, () => {})
      for (let at = 0; at < text.length; at += size) records.write(Buffer.from(text.slice(at, at + size)))
      records.end()
    }
    expect(read).toThrow(`the file is malformed: ${what}, line ${line}`)
    expect(read).toThrow(expect.objectContaining({ code: 'malformed_file', verdict: 'dead_letter' }))
  }
})

test('the size of a record is that of all its cells, with what separates them', () => {
  const MIB = 1024 * 1024
  const records: number[] = []
  const text = openExportText({ isJsonString: false }, (cells) => records.push(cells.length))
  // Quoted: such cells are read as a whole, not byte by byte.
  const cell = Buffer.from(`"${'x'.repeat(MIB - 1)}",`)
  text.write(Buffer.from('0123456789abcdef\n'))
  for (let part = 0; part < 64; part++) text.write(cell)
  text.write(Buffer.from('\n'))
  for (let part = 0; part < 64; part++) text.write(cell)
  expect(records).toEqual([1, 65])
  expect(() => text.write(Buffer.from('y'))).toThrow('a record of more than 64 MiB')
})
