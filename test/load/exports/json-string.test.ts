/** A JSON string that arrives in pieces: the same bytes as JSON.parse finds, or where it is at fault. */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { MalformedFile } from '../../../src/load/exports/file-problems.ts'
import { openJsonString } from '../../../src/load/exports/json-string.ts'

/** The inside of a string, read in pieces of this size. */
function read(text: string, size: number): Buffer {
  const string = openJsonString()
  const bytes = Buffer.from(text)
  const parts: Buffer[] = []
  for (let at = 0; at < bytes.length; at += size) parts.push(string.write(bytes.subarray(at, at + size)))
  string.end()
  return Buffer.concat(parts)
}

/** As `\ud83d` in the middle of text: three bytes that no text has. */
const lone = (unit: number) =>
  Buffer.from([0xe0 | (unit >> 12), 0x80 | ((unit >> 6) & 0x3f), 0x80 | (unit & 0x3f)])

test.each([
  ['', ''],
  ['Zoë 😀 \u07ff\u0800', 'Zoë 😀 \u07ff\u0800'],
  ['\\"\\\\\\/\\b\\f\\n\\r\\t', '"\\/\b\f\n\r\t'],
  ['\\u0041\\u00e9\\u07ff\\u0800\\uFfFf\\u0000', 'Aé\u07ff\u0800\uffff\u0000'],
  ['\\ud83d\\ude00\\ud800\\udc00\\udbff\\udfff', '😀\u{10000}\u{10ffff}'],
])('a string is decoded, in pieces of any size: %s', (inside, expected) => {
  for (const size of [1, 2, 3, 7, 100])
    for (const blanks of ['', ' \t\r\n'])
      expect(read(`${blanks}"${inside}"${blanks}`, size).toString()).toBe(expected)
})

test('an escaped half of a character becomes bytes that are no text, and takes nothing with it', () => {
  const cases: [string, (string | Buffer)[]][] = [
    ['\\ud83d', [lone(0xd83d)]],
    ['\\ude00', [lone(0xde00)]],
    ['a\\ud800b', ['a', lone(0xd800), 'b']],
    ['\\ud83d\\ud83d\\ude00', [lone(0xd83d), '😀']],
    ['\\udbff\\ue000', [lone(0xdbff), '\ue000']],
    ['\\udbff\\udbff', [lone(0xdbff), lone(0xdbff)]],
    ['\\ud83d\\n\\ude00', [lone(0xd83d), '\n', lone(0xde00)]],
    ['\\udc00\\udfff\\ud7ff', [lone(0xdc00), lone(0xdfff), '\ud7ff']],
  ]
  for (const [inside, expected] of cases)
    for (const size of [1, 5, 100])
      expect(read(`"${inside}"`, size), inside).toEqual(
        Buffer.concat(expected.map((each) => Buffer.from(each))),
      )
})

test('every string is read as JSON.parse reads it, whatever is escaped in it', () => {
  const character = fc.string({ unit: 'binary', minLength: 1, maxLength: 1 })
  const written = fc.tuple(character, fc.boolean()).map(([text, escaped]) =>
    escaped
      ? Array.from({ length: text.length }, (_, at) => {
          return `\\u${text.charCodeAt(at).toString(16).padStart(4, '0')}`
        }).join('')
      : JSON.stringify(text).slice(1, -1),
  )
  fc.assert(
    fc.property(fc.array(written, { maxLength: 20 }), fc.integer({ min: 1, max: 9 }), (parts, size) => {
      const text = `"${parts.join('')}"`
      expect(read(text, size).toString()).toBe(JSON.parse(text))
    }),
  )
})

describe('a string is malformed', () => {
  test.each([
    ['', 'a JSON string without end', 1],
    [' ', 'a JSON string without end', 1],
    ['"a', 'a JSON string without end', 1],
    ['"a\\nb\\n', 'a JSON string without end', 3],
    ['"a\\', 'a JSON string without end', 1],
    ['"a\\u00', 'a JSON string without end', 1],
    ['x"a"', 'bytes outside the JSON string', 1],
    ['xa"', 'bytes outside the JSON string', 1],
    ['\\"a"', 'bytes outside the JSON string', 1],
    ['"a"x', 'bytes outside the JSON string', 1],
    ['"a\\n\\r\\t"x', 'bytes outside the JSON string', 2],
    ['"a" "b"', 'bytes outside the JSON string', 1],
    ['"a""', 'bytes outside the JSON string', 1],
    ['"\\x41"', 'an escape that JSON does not have', 1],
    ['"\\n\\U0041"', 'an escape that JSON does not have', 2],
    ['"\\u00g1"', 'an escape that JSON does not have', 1],
    ['"\\ug"', 'an escape that JSON does not have', 1],
    ['"\\u004"', 'an escape that JSON does not have', 1],
    ['"\\u\\n000"', 'an escape that JSON does not have', 1],
  ])('%j: %s, line %i', (text, what, line) => {
    for (const size of [1, 3, 100]) {
      expect(() => read(text, size)).toThrow(MalformedFile)
      expect(() => read(text, size)).toThrow(`the file is malformed: ${what}, line ${line}`)
    }
  })
})
