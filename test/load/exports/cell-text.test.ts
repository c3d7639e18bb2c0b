/** Cells as text that Postgres can store, and whether the bytes of a file can be stored as they are. */
import { describe, expect, test } from 'vitest'
import { decodedCell, visibleCell, watchUtf8 } from '../../../src/load/exports/cell-text.ts'

const cellOf = (hex: string) => Buffer.from(hex.replaceAll(' ', ''), 'hex').toString('latin1')

test('a cell is decoded as UTF-8', () => {
  const texts = ['', 'plain \u007f', 'Zoë', 'a\u0080', '\u07ff\u0800\uffff', '\u{10000}😀']
  for (const text of texts) expect(decodedCell(Buffer.from(text).toString('latin1'))).toBe(text)
})

describe('a cell that may contain what cannot be stored', () => {
  test.each(['', 'plain', 'Zoë \u0080\u07ff\u0800\ud7ff\ue000\uffff', '\u{10000}\u{10ffff}'])(
    'is unchanged if it contains nothing of it: %j',
    (text) => {
      for (const fromJson of [true, false])
        expect(visibleCell(Buffer.from(text).toString('latin1'), fromJson)).toEqual({ text, changed: false })
    },
  )

  test.each([
    ['41 00 c3a9', 'A\\u0000é'],
    ['96', '\\x96'],
    ['c3a9 96 c3a9', 'é\\x96é'],
    // Characters at the ends of what two, three and four bytes can say.
    ['ff c280 dfbf e0a080 efbfbf f0908080 f48fbfbf 41', '\\xff\u0080\u07ff\u0800\uffff\u{10000}\u{10ffff}A'],
    // Cut off, or with another byte inside.
    ['41 c3', 'A\\xc3'],
    ['e0a0', '\\xe0\\xa0'],
    ['f09f98', '\\xf0\\x9f\\x98'],
    ['c3 41', '\\xc3A'],
    ['e0a0 41', '\\xe0\\xa0A'],
    ['f09f98 41', '\\xf0\\x9f\\x98A'],
    // Longer than need be, or beyond Unicode.
    ['c0a080', '\\xc0\\xa0\\x80'],
    ['f4908080', '\\xf4\\x90\\x80\\x80'],
  ])('shows each byte of it: %s', (hex, text) => {
    for (const fromJson of [true, false])
      expect(visibleCell(cellOf(hex), fromJson)).toEqual({ text, changed: true })
  })

  test.each([
    ['eda080', '\\ud800', '\\xed\\xa0\\x80'],
    ['41 edbfbf 42', 'A\\udfffB', 'A\\xed\\xbf\\xbfB'],
    ['edad99 eda181', '\\udb59\\ud841', '\\xed\\xad\\x99\\xed\\xa1\\x81'],
    ['c3 eda080 80', '\\xc3\\ud800\\x80', '\\xc3\\xed\\xa0\\x80\\x80'],
  ])('shows a lone surrogate of a JSON string as its escape: %s', (hex, json, other) => {
    expect(visibleCell(cellOf(hex), true)).toEqual({ text: json, changed: true })
    expect(visibleCell(cellOf(hex), false)).toEqual({ text: other, changed: true })
  })

  test.each([
    ['eda0', '\\xed\\xa0'],
    ['ed', '\\xed'],
    ['eda041', '\\xed\\xa0A'],
    ['eda0c0', '\\xed\\xa0\\xc0'],
    ['ed4180', '\\xedA\\x80'],
    ['edc080', '\\xed\\xc0\\x80'],
    ['faa080', '\\xfa\\xa0\\x80'],
  ])('takes nothing else for a surrogate: %s', (hex, text) => {
    expect(visibleCell(cellOf(hex), true)).toEqual({ text, changed: true })
  })
})

describe('the bytes of a file', () => {
  /** Whether all can be stored, after each piece and at the end. */
  function seen(...pieces: readonly string[]): readonly boolean[] {
    const watch = watchUtf8()
    const found = pieces.map((hex) => {
      watch.see(Buffer.from(hex.replaceAll(' ', ''), 'hex'))
      return watch.allStorable
    })
    watch.end()
    return [...found, watch.allStorable]
  }

  test('can be stored if they are UTF-8, wherever they are cut', () => {
    const bytes = Buffer.from('aé\u07ff\u0800\uffff\u{10000}😀\u{10ffff}z\u007f')
    for (let first = 0; first <= bytes.length; first++) {
      for (let second = first; second <= bytes.length; second++) {
        const pieces = [bytes.subarray(0, first), bytes.subarray(first, second), bytes.subarray(second)]
        expect(seen(...pieces.map((piece) => piece.toString('hex')))).toEqual([true, true, true, true])
      }
    }
    const single = Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0'))
    expect(seen(...single)).not.toContain(false)
  })

  test.each([
    ['a NUL', ['41', '4100', '42'], [true, false, false, false]],
    ['a NUL after a cut character', ['c3', 'a900'], [true, false, false]],
    ['a byte that is none of UTF-8', ['41ff41', '42'], [false, false, false]],
    ['a byte without the first of its character', ['80', '41'], [false, false, false]],
    ['a character that does not go on', ['e0a0', '41'], [true, false, false]],
    ['the first byte of another one', ['f09f98', 'c3a9'], [true, false, false]],
    ['more bytes than a character has', ['c3a9', '80'], [true, false, false]],
    ['a character that is cut off at the end', ['41', 'f09f98'], [true, true, false]],
    ['one that begins at the end', ['c3'], [true, false]],
    ['a lone surrogate', ['eda080'], [false, false]],
  ])('cannot be stored from the piece on with %s', (_, pieces, expected) => {
    expect(seen(...pieces)).toEqual(expected)
  })
})
