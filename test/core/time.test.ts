/** Instants keep their microseconds, and comparing them as text compares them in time. */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { instantOf, laterOf, microsOf, parseDate, parseInstant } from '../../src/core/time.ts'

/** Whole microseconds are exact in a JavaScript number until 2255. */
const micros = fc.integer({ min: -8_000_000_000_000_000, max: Number.MAX_SAFE_INTEGER })

test('microseconds make an instant and come back', () => {
  fc.assert(
    fc.property(micros, (value) => microsOf(instantOf(value)) === value),
    { numRuns: 2000 },
  )
})

test('the order of microseconds is the order of the text', () => {
  fc.assert(
    fc.property(micros, micros, (a, b) => {
      const [one, other] = [instantOf(a), instantOf(b)]
      expect(one < other).toBe(a < b)
      expect(laterOf(one, other)).toBe(instantOf(Math.max(a, b)))
    }),
    { numRuns: 2000 },
  )
})

test('an instant reads back as itself', () => {
  fc.assert(fc.property(micros, (value) => parseInstant(instantOf(value)) === instantOf(value)))
})

describe('what is no time is none', () => {
  test.each([
    '',
    ' ',
    'now',
    'infinity',
    '2025',
    '2025-01',
    '2025-1-1',
    '20250101',
    '01/02/2025',
    '2025-02-29',
    '2025-04-31',
    '1900-02-29',
    '2025-00-01',
    '2025-01-00',
    '2025-01-32',
    '0000-01-01',
    '-0001-01-01',
    '+12025-01-01',
    '10000-01-01',
    '2025-01-01T',
    '2025-01-01T10',
    '2025-01-01T24:00',
    '2025-01-01T10:60',
    '2025-01-01T10:00:61',
    '2025-01-01T10:00:00.',
    '2025-01-01T10:00+16:00',
    '2025-01-01T10:00+00:60',
    '2025-01-01T10:00 CET',
    '2025-01-01Z',
    '2025-01-01T10:00:00ZZ',
    ' 2025-01-01',
    '2025-01-01\n',
    '２０２５-01-01',
    '9999-12-31T23:59:59-01:00',
    '0001-01-01T00:00:00+00:01',
    '1735689600',
  ])('%j', (text) => {
    expect(parseInstant(text)).toBeNull()
  })
})

describe('a date', () => {
  test.each(['2024-02-29', '2000-02-29', '0001-01-01', '9999-12-31', '1980-01-31'])('%s is one', (text) => {
    expect(parseDate(text)).toBe(text)
  })

  test.each([
    '2025-02-29',
    '1900-02-29',
    '2025-13-01',
    '2025-06-31',
    '0000-01-01',
    '2025-1-1',
    '2025-01-01T00:00:00Z',
    '',
    'x',
  ])('%j is none', (text) => {
    expect(parseDate(text)).toBeNull()
  })
})
