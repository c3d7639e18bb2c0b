/** Equal contents have one text and one hash, different contents have different ones. */
import { isDeepStrictEqual } from 'node:util'
import fc from 'fast-check'
import { LosslessNumber } from 'lossless-json'
import { describe, expect, test } from 'vitest'
import { canonicalText, contentHash, isWithinNumeric, rewrittenNumbersMet } from '../../src/core/canonical.ts'
import { isLosslessNumber, parseText } from '../../src/core/json.ts'
import { naughtyJson, tameJson } from './naughty.ts'

/** The same content, with the keys of every object in an order that follows from `seed`. */
function shuffled(value: unknown, seed: number): unknown {
  if (Array.isArray(value)) return value.map((item) => shuffled(item, seed + 1))
  if (typeof value !== 'object' || value === null || isLosslessNumber(value)) return value
  const entries = Object.entries(value).map(([key, item]): [string, unknown] => [
    key,
    shuffled(item, seed + 1),
  ])
  for (let at = entries.length - 1; at > 0; at--) {
    const other = (seed * 7919 + at * 104729) % (at + 1)
    ;[entries[at], entries[other]] = [entries[other]!, entries[at]!]
  }
  return Object.fromEntries(entries)
}

test('the order of keys changes nothing', () => {
  fc.assert(
    fc.property(naughtyJson, fc.nat(), (json, seed) => {
      const value = parseText(json)
      return canonicalText(shuffled(value, seed)) === canonicalText(value)
    }),
    { numRuns: 2000 },
  )
})

test('the text reads back as the same content and as the same text', () => {
  fc.assert(
    fc.property(tameJson, (json) => {
      const value = parseText(json)
      const text = canonicalText(value)
      return canonicalText(parseText(text)) === text && isDeepStrictEqual(parseText(text), value)
    }),
    { numRuns: 2000 },
  )
})

/** The same content except for one place, chosen by `seed`: there it has another value, key, order or type. */
function altered(value: unknown, seed: number): unknown {
  const next = Math.floor(seed / 7)
  const isLeaf = typeof value !== 'object' || value === null || isLosslessNumber(value)
  if (isLeaf) return alteredLeaf(value, seed)
  const entries = Object.entries(value)
  if (entries.length > 0 && seed % 7 < 5) {
    const at = next % entries.length
    entries[at] = [entries[at]![0], altered(entries[at]![1], Math.floor(next / 3))]
    return Array.isArray(value) ? entries.map(([, item]) => item) : Object.fromEntries(entries)
  }
  if (Array.isArray(value)) return next % 2 === 0 ? [...value, null] : value.toReversed()
  if (entries.length === 0) return []
  const [key, item] = entries.shift()!
  return Object.fromEntries(next % 2 === 0 ? entries : [...entries, [`${key}\u0000`, item]])
}

function alteredLeaf(value: unknown, seed: number): unknown {
  if (typeof value === 'string') return seed % 2 === 0 ? `${value} ` : [value]
  if (isLosslessNumber(value))
    return seed % 2 === 0 ? value.toString() : parseText(`-1${value.toString().replace('-', '')}`)
  return value === null ? 'null' : String(value)
}

test('contents that differ in one place have different texts', () => {
  let tried = 0
  let compared = 0
  fc.assert(
    fc.property(naughtyJson, fc.nat(), (json, seed) => {
      tried += 1
      const one = parseText(json)
      const other = altered(one, seed)
      // An array of one item reads the same from both ends.
      if (isDeepStrictEqual(one, other)) return
      compared += 1
      expect(canonicalText(other)).not.toBe(canonicalText(one))
    }),
    { numRuns: 3000 },
  )
  expect(compared).toBeGreaterThan(tried / 2)
})

test('keys that contain the separator of keys are distinguished', () => {
  const texts = [
    { 'a\u0000b': 1, c: 2 },
    { a: 1, 'b\u0000c': 2 },
    { a: 1, b: 2, c: 3 },
    { 'a\u0000b\u0000c': 1 },
    { a: 1, 'b\u0000c': 2 },
    { 'a\u0000b': 1, c: 2 },
  ].map((value) => canonicalText(value))
  expect(texts).toEqual([
    '{"a\\u0000b":1,"c":2}',
    '{"a":1,"b\\u0000c":2}',
    '{"a":1,"b":2,"c":3}',
    '{"a\\u0000b\\u0000c":1}',
    '{"a":1,"b\\u0000c":2}',
    '{"a\\u0000b":1,"c":2}',
  ])
})

test('equal numbers in different notation are different contents', () => {
  const texts = ['[1]', '[1.0]', '[1.00]', '[1e0]', '[10e-1]'].map((json) => canonicalText(parseText(json)))
  expect(new Set(texts).size).toBe(5)
})

test('more shapes than are cached stay correct', () => {
  for (let round = 0; round < 2; round++) {
    for (let at = 0; at < 6000; at++) {
      const key = `k${at}`
      expect(canonicalText({ [key]: 1, a: 2 })).toBe(`{"a":2,"${key}":1}`)
    }
  }
})

test('400 levels are read, more are rejected', () => {
  const deep = (levels: number) => JSON.parse('['.repeat(levels) + ']'.repeat(levels)) as unknown
  expect(canonicalText(deep(401))).toHaveLength(802)
  expect(() => canonicalText(deep(402))).toThrow(
    expect.objectContaining({ code: 'too_deep', verdict: 'dead_letter' }),
  )
})

test('the hash is the first half of the SHA-256', () => {
  expect(contentHash('')).toBe('e3b0c44298fc1c149afbf4c8996fb924')
  expect(contentHash('abc')).toBe('ba7816bf8f01cfea414140de5dae2223')
  expect(contentHash('é')).toBe(contentHash('\u00e9'))
})

test.each<[string, boolean]>([
  ['1e2', true],
  ['1E2', true],
  ['-0', true],
  ['-0.0', true],
  ['-0.00', true],
  ['0', false],
  ['-0.5', false],
  ['10.50', false],
  ['7', false],
])('a number that jsonb writes differently is detected: %s %s', (text, isRewritten) => {
  const met = rewrittenNumbersMet()
  canonicalText(new LosslessNumber(text))
  expect(rewrittenNumbersMet() - met).toBe(isRewritten ? 1 : 0)
})

test.each<[string, boolean]>([
  ['9'.repeat(10_000), true],
  ['9'.repeat(10_001), false],
  ['1e9999', true],
  ['1E9999', true],
  ['1e10000', false],
  ['1E10000', false],
  ['12e-9998', true],
  ['12e-9999', false],
])('numeric can store ten thousand digits, including those of the exponent (%#)', (text, isStorable) => {
  expect(isWithinNumeric(text)).toBe(isStorable)
  // A number beyond that is invalid JSON in the text.
  expect(canonicalText([new LosslessNumber(text)])).toBe(isStorable ? `[${text}]` : `[\\u${text}]`)
})

describe('nested', () => {
  const nested = (levels: number, wrap: (inner: unknown, level: number) => unknown) => {
    let value: unknown = 1
    for (let level = 0; level < levels; level++) value = wrap(value, level)
    return value
  }
  test.each<[string, (inner: unknown, level: number) => unknown]>([
    ['arrays', (inner) => [inner]],
    ['objects', (inner) => ({ a: inner })],
    ['both in turns', (inner, level) => (level % 2 === 0 ? [inner] : { a: inner })],
  ])('%s are written up to 401 levels, and rejected beyond', (_, wrap) => {
    expect(canonicalText(nested(401, wrap))).toContain('1')
    expect(() => canonicalText(nested(402, wrap))).toThrow('nested more than 400 levels deep')
  })
})

test('undefined is null, and an empty object or list is empty', () => {
  expect(canonicalText({ a: undefined, b: null, c: {}, d: [], e: true })).toBe(
    '{"a":null,"b":null,"c":{},"d":[],"e":true}',
  )
})
