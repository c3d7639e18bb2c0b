/** Postgres accepts any value after `storable`, and every rewritten place is reported. */
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { canonicalText } from '../../src/core/canonical.ts'
import type { Problem } from '../../src/core/envelope.ts'
import { parseText } from '../../src/core/json.ts'
import { maybeUnstorable, storable, storableText } from '../../src/normalize/read-record.ts'
import { naughtyJson, WITHIN_NUMERIC } from '../core/naughty.ts'

function stored(json: string, invalidUtf8 = false) {
  const problems: Problem[] = []
  const value = storable(parseText(json), invalidUtf8, problems)
  return { value, problems }
}

test('a value that needs no rewriting is returned without a walk, and would not have changed', () => {
  fc.assert(
    fc.property(naughtyJson, (json) => {
      const before = canonicalText(parseText(json))
      const { value, problems } = stored(json)
      const changed = canonicalText(value) !== before
      expect(changed).toBe(problems.length > 0)
      if (changed) expect(maybeUnstorable(before)).toBe(true)
    }),
    { numRuns: 2000 },
  )
})

test('the order of keys changes no name', () => {
  const names = (...keys: string[]) =>
    canonicalText(storable(Object.fromEntries(keys.map((key) => [key, JSON.stringify(key)])), false, []))
  const keys = ['a\u0000', 'a\\u0000', "a\\u0000'", '\u0000\\u0000', '\\u0000\u0000']
  const expected = names(...keys)
  for (let turn = 0; turn < keys.length; turn++) {
    keys.push(keys.shift()!)
    expect(names(...keys)).toBe(expected)
    expect(names(...keys.toReversed())).toBe(expected)
  }
  expect(Object.keys(JSON.parse(expected) as object)).toHaveLength(5)
})

test.each<[string, string, boolean, string]>([
  ['NUL', 'a\u0000b', false, 'a\\u0000b'],
  ['half a character', '\ud83d.\ude00', false, '\\ud83d.\\ude00'],
  ['a whole character', '😀', false, '😀'],
  ['the halves the wrong way round', '\ude00\ud83d', false, '\\ude00\\ud83d'],
  ['bytes that were not UTF-8', 'a\udc96b', true, 'a\\x96b'],
  ['the same code in a body of UTF-8', 'a\udc96b', false, 'a\\udc96b'],
  ['other halves in a body that was not UTF-8', 'a\udd00b', true, 'a\\udd00b'],
  ['backslashes, which are not doubled', '\\u0000 \\x96', true, '\\u0000 \\x96'],
])('%s', (_, text, invalidUtf8, expected) => {
  expect(storableText(text, invalidUtf8)).toBe(expected)
})

test('each rewritten place is reported with its path', () => {
  const { value, problems } = stored('{"a":[{"b":"\\u0000"},"ok"],"c":1e99999,"d\\u0000":{"e":"\\ud800"}}')
  expect(canonicalText(value)).toBe(
    '{"a":[{"b":"\\\\u0000"},"ok"],"c":"1e99999","d\\\\u0000":{"e":"\\\\ud800"}}',
  )
  expect(problems.map(({ path, original }) => [path, original])).toEqual([
    ['a[0].b', '\\u0000'],
    ['c', '1e99999'],
    ['d\\u0000', 'd\\u0000'],
    ['d\\u0000.e', '\\ud800'],
  ])
})

test.each(WITHIN_NUMERIC)('a number within numeric stays a number (%#)', (number) => {
  const { problems } = stored(`[${number}]`)
  expect(problems).toEqual([])
})

test.each([
  '1e131072',
  '1E-20000',
  '9'.repeat(140_000),
  '1e9999999999999999999999',
  `0.${'0'.repeat(17_000)}1`,
])('a number beyond numeric becomes text (%#)', async (number) => {
  const { value, problems } = stored(`[${number}]`)
  expect(value).toEqual([number])
  expect(problems.map((problem) => problem.path)).toEqual(['[0]'])
  expect(maybeUnstorable(canonicalText(parseText(`[${number}]`)))).toBe(true)
})

test.each<[string, boolean, string]>([
  ['\udc80', true, '\\x80'],
  ['\udcff', true, '\\xff'],
  ['\udc7f', true, '\\udc7f'],
  ['\udd00', true, '\\udd00'],
  ['\udbff', true, '\\udbff'],
  ['\udc80', false, '\\udc80'],
])(
  'half a surrogate pair is a byte only if the body contained bytes that are not UTF-8, and only from 80 to ff (%#)',
  (text, invalidUtf8, expected) => {
    expect(storableText(text, invalidUtf8)).toBe(expected)
  },
)

test('reasons say what was done, and contain no value', () => {
  const { problems } = stored('{"a":"\\u0000","b":1e99999,"c\\u0000":1}')
  expect(problems.map(({ path, reason }) => [path, reason])).toEqual([
    ['a', 'holds what Postgres cannot; written visibly'],
    ['b', 'a number beyond what Postgres can hold; kept as text'],
    ['c\\u0000', 'a field name that Postgres cannot hold; written visibly'],
  ])
})
