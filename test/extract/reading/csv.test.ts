/** The text of an export: every cell of it, or the reason why it cannot be read. */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { MalformedFile } from '../../../src/load/exports/file-problems.ts'
import { independently, type Read, readBytes } from './reading.ts'

const read = (text: string, contentType?: string): Read => readBytes(Buffer.from(text), contentType)

describe('the records of a file', () => {
  test.each([
    ['LF', 'a,b\n1,2\n'],
    ['CRLF', 'a,b\r\n1,2\r\n'],
    ['CR', 'a,b\r1,2\r'],
    ['CR CR LF', 'a,b\r\r\n1,2\r\r\n'],
    ['LF, CR and CRLF mixed, with blank lines between', '\n\ra,b\r\n\r\n\n1,2\r\r'],
    ['nothing at all', 'a,b\n1,2'],
  ])('end with %s', (_, text) => {
    expect(read(text)).toEqual([
      ['a', 'b'],
      ['1', '2'],
    ])
  })

  test('keep empty cells, blanks, and quotes, commas and line ends within quotes unchanged', () => {
    expect(read('a,,\n, ,"x,""y""\r\nz\r\n"\n""\n')).toEqual([
      ['a', '', ''],
      ['', ' ', 'x,"y"\r\nz\r\n'],
      [''],
    ])
  })

  test('do not exist in an empty file', () => {
    expect(read('')).toEqual([])
    expect(read('\ufeff\r\n')).toEqual([])
  })

  test.each([
    ['a quoted cell without end', 'a,b\n1,"2\n3\n', 2],
    ['bytes after a closing quote', 'a,b\r\n"1\r\n2"x,3\r\n', 3],
    ['bytes after a closing quote', '"a" ,b\n', 1],
    ['bytes after a closing quote', '"a"\u0000,b\n', 1],
    ['a quote inside a bare cell', 'a,b\r\n1,2\r\n3,4"5"\r\n', 3],
    ['a quote inside a bare cell', 'a,b\n1, "2"\n', 2],
  ])('do not include %s', (what, text, line) => {
    const failure = read(text)
    expect(failure).toBeInstanceOf(MalformedFile)
    expect((failure as MalformedFile).message).toBe(`the file is malformed: ${what}, line ${line}`)
  })
})

describe('files that are not plain text', () => {
  test('a byte order mark is removed at the start, and kept elsewhere', () => {
    expect(read('\ufeff"a",\ufeffb\n')).toEqual([['a', '\ufeffb']])
  })

  test('bytes that are not UTF-8, and NULs, are visible in their cells and affect no other', () => {
    const bytes = Buffer.concat([
      Buffer.from('é,\\x41,a\n'),
      Buffer.from([0x96, 0x2c, 0xed, 0xa0, 0x80, 0x2c, 0x00, 0xc3]),
      Buffer.from(',ü\n'),
    ])
    expect(readBytes(bytes)).toEqual([
      ['é', '\\x41', 'a'],
      ['\\x96', '\\xed\\xa0\\x80', '\\u0000\\xc3', 'ü'],
    ])
  })

  test('a file that is one JSON string is unwrapped', () => {
    const text = '\ufeff"Q, ""1""",é😀\r\n\t\\,/\u0001\n'
    const expected = [
      ['Q, "1"', 'é😀'],
      ['\t\\', '/\u0001'],
    ]
    expect(read(` ${JSON.stringify(text)}\n`, 'application/json')).toEqual(expected)
    const escaped = JSON.stringify(text).replace(/[^\x20-\x7e]/g, (unit) => {
      return `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`
    })
    expect(read(`\ufeff${escaped}`, 'application/json; charset=utf-8')).toEqual(expected)
  })

  test('a JSON string sent as text is recognized by its closing quote after the last record', () => {
    const text = 'Client ID,"Q, ""1"""\r\n7,yes\r\n'
    const expected = [
      ['Client ID', 'Q, "1"'],
      ['7', 'yes'],
    ]
    expect(read(JSON.stringify(text), 'text/plain')).toEqual(expected)
    expect(read(`\ufeff${JSON.stringify(text)}`, 'text/csv')).toEqual(expected)
    expect(read(text, 'text/plain')).toEqual(expected)
    expect(read('"Client ID","Q, ""1"""\n"7","yes"\n', 'text/plain')).toEqual(expected)
  })

  test('escapes of a JSON string that no text can contain are written visibly', () => {
    expect(read('"a\\ud83d,\\ude00b,\\ud83d\\ud83d\\ude00,\\u0000"', 'application/json')).toEqual([
      ['a\\ud83d', '\\ude00b', '\\ud83d😀', '\\u0000'],
    ])
  })

  test('CSV whose first cell is quoted is no JSON string, whatever its content type', () => {
    expect(read('"a","b"\n', 'text/plain')).toEqual([['a', 'b']])
    expect(read('a,"b"\n', 'application/json')).toEqual([['a', 'b']])
  })

  test.each([
    ['a JSON string without end', '"a,b\\n1,2'],
    ['bytes outside the JSON string', '"a,b" x'],
    ['an escape that JSON does not have', '"a,\\xb"'],
  ])('%s is malformed', (what, text) => {
    expect((read(text, 'application/json') as MalformedFile).message).toContain(what)
  })
})

/** Bytes that are likely to combine in unlikely ways. */
const anyBytes = fc
  .array(
    fc.constantFrom(
      ',',
      '"',
      '\r',
      '\n',
      '""',
      '",',
      '"\n',
      'a',
      ' ',
      'é',
      '😀',
      '\ufeff',
      '\0',
      '\\',
      '\\ud83d',
    ),
    { maxLength: 40 },
  )
  .chain((parts) =>
    fc.option(fc.nat(255)).map((byte) => {
      const text = Buffer.from(parts.join(''))
      return byte === null ? text : Buffer.concat([text, Buffer.from([byte]), text])
    }),
  )
/** Which of several faults is found first may differ. */
const plain = (found: Read) => (found instanceof MalformedFile ? 'malformed' : found)

test('the result does not depend on how a file is cut into pieces', () => {
  fc.assert(
    fc.property(anyBytes, fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 1 }), (bytes, sizes) => {
      for (const type of ['text/csv', 'application/json']) {
        const file = type === 'text/csv' ? bytes : Buffer.concat([Buffer.from(' "'), bytes, Buffer.from('"')])
        expect(plain(readBytes(file, type, sizes))).toEqual(plain(readBytes(file, type, [1_000_000])))
      }
    }),
    { numRuns: 2_000 },
  )
})

test('an independent reader finds the same cells, and the same files malformed', () => {
  fc.assert(
    fc.property(anyBytes, (bytes) => {
      // The other reader takes a NUL after a closing quote for the end of the file.
      fc.pre(!bytes.includes(0))
      const text = Buffer.concat([Buffer.from('x'), bytes])
      const found = readBytes(text)
      expect(found instanceof MalformedFile ? null : found).toEqual(independently(text))
    }),
    { numRuns: 3_000 },
  )
})

test('every JSON string is read like JSON.parse reads it', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'grapheme', maxLength: 30 }), (text) => {
      const bare = text.replace(/["\r\n,\ufeff\0]/g, '')
      fc.pre(bare !== '')
      expect(read(JSON.stringify(bare), 'application/json')).toEqual([[bare]])
    }),
  )
})
