/** An id is exactly the service's own, or it is rejected. */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { readId, recordId, referenceId } from '../../src/core/identifiers.ts'
import { parseText } from '../../src/core/json.ts'

const id = (text: string) => ({ kind: 'id', id: text })

describe('a value as an id', () => {
  test.each<[string, unknown]>([
    ['"abc"', id('abc')],
    ['" a "', id(' a ')],
    ['"0"', id('0')],
    ['0', id('0')],
    ['42', id('42')],
    ['-1', id('-1')],
    ['9007199254740991', id('9007199254740991')],
    ['9007199254740992', { kind: 'inexact' }],
    ['9007199254740993', { kind: 'inexact' }],
    ['123456789012345678901234567890', { kind: 'inexact' }],
    ['1.5', { kind: 'inexact' }],
    ['1.0', { kind: 'inexact' }],
    ['1e3', { kind: 'inexact' }],
    ['""', { kind: 'none' }],
    ['" \\t\\n"', { kind: 'none' }],
    ['null', { kind: 'none' }],
    ['true', { kind: 'unusable' }],
    ['[]', { kind: 'unusable' }],
    ['["a"]', { kind: 'unusable' }],
    ['{}', { kind: 'unusable' }],
    ['"a\\u0000"', { kind: 'unusable' }],
    ['"\\ud83d"', { kind: 'unusable' }],
  ])('%s', (json, expected) => {
    const [value] = parseText(`[${json}]`) as [unknown]
    expect(readId(value)).toEqual(expected)
  })

  test('undefined is no id', () => {
    expect(readId(undefined)).toEqual({ kind: 'none' })
  })

  test('a thousand bytes are an id, more exceed a key', () => {
    expect(readId('é'.repeat(500)).kind).toBe('id')
    expect(readId(`${'é'.repeat(500)}a`)).toEqual({ kind: 'unusable' })
    expect([readId('a'.repeat(1_000)).kind, readId('a'.repeat(1_001)).kind]).toEqual(['id', 'unusable'])
  })
})

test('a whole number is either the written id or rejected', () => {
  fc.assert(
    fc.property(fc.bigInt({ min: -(10n ** 20n), max: 10n ** 20n }), (number) => {
      const [value] = parseText(`[${number}]`) as [unknown]
      const reading = readId(value)
      return reading.kind === 'inexact' || (reading.kind === 'id' && reading.id === String(number))
    }),
    { numRuns: 2000 },
  )
})

test.each<[string, string, unknown]>([
  ['its id', '{"id":"a","uid":"b"}', id('a')],
  ['its uid where there is no id', '{"uid":"b"}', id('b')],
  ['its uid where the id is null', '{"id":null,"uid":7}', id('7')],
  ['its uid where the id is blank', '{"id":" ","uid":"b"}', id('b')],
  ['nothing where it has neither', '{"name":"x"}', { kind: 'none' }],
  ['nothing but what the id says when that cannot be exact', '{"id":1e40,"uid":"b"}', { kind: 'inexact' }],
])('the id of a record is %s', (_, json, expected) => {
  expect(recordId(parseText(json) as Record<string, unknown>)).toEqual(expected)
})

test.each<[string, unknown]>([
  ['"a"', id('a')],
  ['7', id('7')],
  ['{"id":"a"}', id('a')],
  ['{"uid":"a"}', id('a')],
  ['null', { kind: 'none' }],
  ['{}', { kind: 'none' }],
  ['9007199254740993', { kind: 'inexact' }],
  ['["a"]', { kind: 'unusable' }],
])('the reference %s', (json, expected) => {
  const [value] = parseText(`[${json}]`) as [unknown]
  expect(referenceId(value)).toEqual(expected)
})
