/** Reading JSON loses nothing: no digit, no byte, no key. */
import fc from 'fast-check'
import { describe, expect, test, vi } from 'vitest'
import { canonicalText } from '../../src/core/canonical.ts'
import {
  isLosslessNumber,
  isObject,
  isTooComplex,
  parseBounded,
  parseJson,
  parseText,
  TooComplex,
} from '../../src/core/json.ts'
import { numberText } from './naughty.ts'

const json = (...parts: (string | number[])[]) =>
  Buffer.concat(parts.map((part) => (typeof part === 'string' ? Buffer.from(part) : Buffer.from(part))))

describe('a number prints as it was written', () => {
  test.each([
    '0',
    '-0',
    '-0.0',
    '1',
    '-1',
    '1.0',
    '1.10',
    '0.1',
    '100',
    '1e0',
    '1E400',
    '1e-7',
    '0.000001',
    '0.0000001',
    '-0.00000012345',
    '0.00000001',
    '123456789012345',
    '1234567890123456',
    '9007199254740993',
    '0.1234567890123456',
    '1.7976931348623157e309',
    '5e-324',
    '123456789.123456',
    '999999999999999',
    '1e21',
    '1000000000000000000000',
    `${'7'.repeat(400)}.${'3'.repeat(400)}`,
  ])('%s', (text) => {
    for (const place of [text, `[${text}]`, `{"a":${text}}`, `[0,${text},0]`, `{"a":[${text}]}`]) {
      expect(canonicalText(parseText(place))).toBe(place)
    }
    expect(canonicalText(parseText(`[ ${text} , ${text}\n]`))).toBe(`[${text},${text}]`)
  })

  test('for any number', () => {
    fc.assert(
      fc.property(numberText, (text) => {
        const { n } = parseText(`{"n":${text}}`) as { n: unknown }
        return (isLosslessNumber(n) ? n.value : JSON.stringify(n)) === text
      }),
      { numRuns: 2000 },
    )
  })
})

test('a number that JavaScript carries exactly is a number, any other is marked', () => {
  expect(parseText('[1,1.5,9007199254740991]')).toEqual([1, 1.5, Number.MAX_SAFE_INTEGER])
  const [inexact] = parseText('[9007199254740993]') as [unknown]
  expect(isLosslessNumber(inexact)).toBe(true)
  expect(isObject(inexact)).toBe(false)
})

test.each([
  ['an object', {}, true],
  ['a list', [], false],
  ['a null', null, false],
  ['a text', 'a', false],
  ['a number', 1, false],
  ['a boolean', true, false],
  ['nothing', undefined, false],
])('%s is a JSON object: %3$s', (_, value, expected) => {
  expect(isObject(value)).toBe(expected)
})

test.each(['é', '߿', 'ࠀ', '日', '\uffee', '\u{10000}', '😀', '\u{10fffd}'])(
  'a character of several bytes stays as it is next to bytes that are not UTF-8: %s',
  (character) => {
    const { value, invalidUtf8 } = parseJson(json('"', [0xff], `${character}`, [0xff], `${character}"`))
    expect(value).toBe(`\udcff${character}\udcff${character}`)
    expect(invalidUtf8).toBe(true)
  },
)

test('a record that claims to be a number is not one', () => {
  const value = parseText('{"isLosslessNumber":true,"value":"1]","n":1.10}')
  expect(isLosslessNumber(value)).toBe(false)
  expect(canonicalText(value)).toBe('{"isLosslessNumber":true,"n":1.10,"value":"1]"}')
})

test('a text that looks like a number stays text', () => {
  expect(parseText('{"a":"x, 1.10 ,","b":1.10,"c":"[1e400]"}')).toMatchObject({
    a: 'x, 1.10 ,',
    c: '[1e400]',
  })
})

// With a number that needs the slower parser, and without: both must agree.
describe.each([
  ['the fast parser', '1'],
  ['the lossless parser', '1.10'],
])('%s', (_, number) => {
  test('keeps the last of equal keys', () => {
    expect(canonicalText(parseText(`{"n":${number},"a":1,"a":"x","a":{"b":2}}`))).toBe(
      `{"a":{"b":2},"n":${number}}`,
    )
  })

  test('keeps keys with a meaning in JavaScript, and changes no prototype', () => {
    const text = `{"__proto__":{"admin":true},"constructor":null,"n":${number},"toString":"x"}`
    const value = parseText(text)
    expect(canonicalText(value)).toBe(text)
    expect(Object.getPrototypeOf(value)).toBe(Object.prototype)
    expect((value as { admin?: boolean }).admin).toBeUndefined()
  })

  test.each([
    '',
    ' ',
    '{',
    '[',
    '"',
    '[1,]',
    '[,1]',
    '{"a":1,}',
    "{'a':1}",
    '{a:1}',
    '{"a" 1}',
    '{"a":1}{"b":2}',
    '[1] x',
    'NaN',
    '[NaN]',
    '[Infinity]',
    '[01]',
    '[.5]',
    '[5.]',
    '[+1]',
    '[1e]',
    '[1e+]',
    '[0x1]',
    '[-]',
    '[- 1]',
    '["\t"]',
    '["\n"]',
    '["\\x"]',
    '["\\u12"]',
    '[tru]',
    'undefined',
    '\u00a0[]',
    '<html></html>',
    '/**/[]',
    '[1 2]',
    '{"a":}',
    '[1.10',
  ])('rejects %j as a SyntaxError', (text) => {
    expect(() => parseText(text)).toThrow(SyntaxError)
    expect(() => parseText(`[${number},${text}`)).toThrow(SyntaxError)
  })

  test('survives any depth: it reads it, or throws a SyntaxError', () => {
    for (const depth of [500, 5_000, 200_000]) {
      for (const [open, close] of [
        ['[', ']'],
        ['{"a":', '}'],
      ] as const) {
        const text = `${open.repeat(depth)}[${number}]${close.repeat(depth)}`
        try {
          expect(parseText(text)).toBeTypeOf('object')
        } catch (error) {
          expect(error).toBeInstanceOf(SyntaxError)
        }
      }
    }
    expect(() => parseText('['.repeat(200_000))).toThrow(SyntaxError)
  })
})

test('a body with a number that the fast parser would change is rejected when it is nested too deeply', () => {
  const deep = `${'['.repeat(200_000)}1.10${']'.repeat(200_000)}`
  expect(() => parseText(deep)).toThrow(/^nested too deeply to read$/)
})

describe('bytes', () => {
  test('a byte order mark is no part of a body', () => {
    expect(parseJson(json([0xef, 0xbb, 0xbf], '{"a":"\ufeff"}'))).toEqual({
      value: { a: '\ufeff' },
      invalidUtf8: false,
    })
  })

  test('a view into a larger buffer is read on its own', () => {
    const whole = Buffer.from('xx{"a":1}yy')
    expect(parseJson(whole.subarray(2, 9)).value).toEqual({ a: 1 })
    expect(parseJson(new Uint8Array(whole).subarray(2, 9)).value).toEqual({ a: 1 })
  })

  test.each<[string, number[], string]>([
    ['Windows-1252', [0x96], '\udc96'],
    ['a sequence cut short', [0xe2, 0x82], '\udce2\udc82'],
    ['a sequence written too long', [0xc0, 0xaf], '\udcc0\udcaf'],
    ['half a character as bytes', [0xed, 0xa0, 0xbd], '\udced\udca0\udcbd'],
    ['beyond Unicode', [0xf4, 0x90, 0x80, 0x80], '\udcf4\udc90\udc80\udc80'],
    ['a stray byte between characters', [0xc3, 0xa9, 0xff, 0xc3, 0xa9], 'é\udcffé'],
  ])('%s is kept byte by byte, and reported', (_, bytes, expected) => {
    expect(parseJson(json('{"a":"', bytes, '"}'))).toEqual({ value: { a: expected }, invalidUtf8: true })
  })

  test('any bytes of a text can be recovered from the result', () => {
    const bytes = fc
      .uint8Array({ maxLength: 40 })
      .map((all) => all.filter((byte) => byte >= 0x20 && byte !== 0x22 && byte !== 0x5c))
    fc.assert(
      fc.property(bytes, (given) => {
        const { value } = parseJson(json('["', [...given], '"]'))
        const [text] = value as [string]
        const back = [...text].flatMap((character) => {
          const code = character.codePointAt(0)!
          return code >= 0xdc80 && code <= 0xdcff ? [code - 0xdc00] : [...Buffer.from(character)]
        })
        return Buffer.from(back).equals(Buffer.from(given))
      }),
      { numRuns: 1000 },
    )
  })

  test('a byte that is not UTF-8 never completes half a character', () => {
    const { value } = parseJson(json('["\\ud83d', [0x96], '","x', [0x96], '"]'))
    expect(value).toEqual(['\ud83d\\x96', 'x\udc96'])
  })

  test('a byte that is not UTF-8 outside of any text is invalid JSON', () => {
    expect(() => parseJson(json('{"a":1}', [0x96]))).toThrow(SyntaxError)
  })
})

test('a large body with a number that JavaScript would change is read by the native parser too', () => {
  const text = `{"n":1.0,"t":"${'x'.repeat(500_000)}"}`
  const native = vi.spyOn(JSON, 'parse')
  try {
    const { value } = parseJson(Buffer.from(text))
    // Once as received, and once with the number as a string.
    expect(native.mock.calls.map(([each]) => each.length >= text.length)).toEqual([true, true])
    expect(value).toEqual({ n: parseText('1.0'), t: 'x'.repeat(500_000) })
  } finally {
    native.mockRestore()
  }
})

test.each([
  ['{"id": {}, "i\\u0064": 2, "id": 3}', '{"id":3}'],
  ['{"id": {}, "x": 1, "i\\u0064": 2}', '{"id":2,"x":1}'],
  ['{"i\\u0064": 1, "x": "id", "id": 2}', '{"id":2,"x":"id"}'],
  ['[{"\\u0061": 1, "a": 2}, {"a": 3, "\\u0061": 4}, {"a": 5}]', '[{"a":2},{"a":4},{"a":5}]'],
])('a repeated key keeps its last value, escaped or not: %s', (text, read) => {
  expect(JSON.stringify(parseText(text))).toBe(read)
})

test('every key is read as it is, however it is escaped, on every Node', () => {
  const unit = fc.constantFrom('a', 'b', 'é', 'ö', '"', '\\', '\t', '漢', '\udc96', ':', '1')
  const name = fc.array(unit, { maxLength: 4 }).map((units) => units.join(''))
  const escaped = (text: string) =>
    `"${[...text].map((each) => (each === 'a' ? each : `\\u${each.charCodeAt(0).toString(16).padStart(4, '0')}`)).join('')}"`
  fc.assert(
    fc.property(
      fc.uniqueArray(name, { minLength: 1, maxLength: 5 }),
      fc.constantFrom('1', '1.0', '"\\\\\\" :"'),
      (names, value) => {
        const object = Object.fromEntries(names.map((key) => [key, JSON.parse(value) as unknown]))
        const text = `[{${names.map((key) => `${escaped(key)} :\n${value}`).join(', ')}}]`
        const [read] = parseText(text) as [object]
        expect(Object.keys(read)).toEqual(Object.keys(object))
        const values = Object.values(read).map((each: unknown) =>
          isLosslessNumber(each) ? Number(String(each)) : each,
        )
        expect(values).toEqual(Object.values(object))
      },
    ),
    { numRuns: 3_000 },
  )
})

test.each(['{"\\u00', '{"\\', '{"\\"', '{"\\q":1}', '{"\\u00e":1}', '{"a\\":1}', '"\\" {"\\u00e9"'])(
  'a text that is cut short or has a wrong escape is no JSON: %s',
  (text) => {
    expect(() => parseText(text)).toThrow(SyntaxError)
  },
)

describe('a body that its sender chose freely', () => {
  /** Longer than what can do no harm, by blanks. */
  const bodyOf = (text: string) => Buffer.from(text.padEnd(2_049))
  const nested = (levels: number, open: string, close: string) =>
    `${open.repeat(levels)}1${close.repeat(levels)}`
  const list = (values: number) => `[${'1,'.repeat(values - 2)}1]`

  test.each<[string, string, boolean]>([
    ['512 lists in each other', nested(512, '[', ']'), false],
    ['513 lists in each other', nested(513, '[', ']'), true],
    ['512 objects in each other', nested(512, '{"a":', '}'), false],
    ['513 objects in each other', nested(513, '{"a":', '}'), true],
    ['a thousand lists next to each other', `[${'[],'.repeat(999)}{}]`, false],
    ['a hundred thousand values', list(100_001), false],
    ['one more', list(100_002), true],
    ['a hundred thousand empty objects and commas', `[${'{},'.repeat(49_999)}1]`, false],
    ['one more object', `[${'{},'.repeat(50_000)}{}]`, true],
    ['a text with brackets and commas', `"${'[{,'.repeat(100_000)}"`, false],
    ['a text with escaped quotes', `["${'\\"[\\\\,'.repeat(60_000)}"]`, false],
    ['lists after a text', `["\\"",${nested(512, '[', ']')}]`, true],
    ['a text without end', `["${'['.repeat(3_000)}`, false],
  ])('is measured before it is parsed: %s', (_, text, tooComplex) => {
    expect(isTooComplex(bodyOf(text))).toBe(tooComplex)
    if (tooComplex) expect(() => parseBounded(bodyOf(text))).toThrow(TooComplex)
  })

  test('is not measured up to 2 KiB, where it can do no harm', () => {
    expect(isTooComplex(Buffer.from('['.repeat(2_048)))).toBe(false)
    expect(isTooComplex(Buffer.from('['.repeat(2_049)))).toBe(true)
  })

  test('is read like any other where it is not too complex', () => {
    const body = bodyOf('{"a":[1.50,{"b":"\\u00e9"}]}')
    expect(parseBounded(body)).toEqual(parseJson(body))
    expect(() => parseBounded(bodyOf('{'))).toThrow(SyntaxError)
    expect(() => parseBounded(bodyOf('{'))).not.toThrow(TooComplex)
  })
})
