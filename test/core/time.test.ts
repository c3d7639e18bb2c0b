/** Instants keep their microseconds, and comparing them as text compares them in time. */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { instantOf, laterOf, microsOf, parseDate, parseInstant } from '../../src/core/time.ts'

/** Whole microseconds are exact in a JavaScript number until 2255. */
const micros = fc.integer({ min: -8_000_000_000_000_000, max: Number.MAX_SAFE_INTEGER })

test('microseconds make an instant and are read back', () => {
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

test('an instant is read back unchanged', () => {
  fc.assert(fc.property(micros, (value) => parseInstant(instantOf(value)) === instantOf(value)))
})

describe('an invalid time is rejected', () => {
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
  test.each(['2024-02-29', '2000-02-29', '0001-01-01', '9999-12-31', '1980-01-31'])('%s is valid', (text) => {
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
  ])('%j is invalid', (text) => {
    expect(parseDate(text)).toBeNull()
  })
})

test.each([
  ['2025-01-01', '2025-01-01T00:00:00.000000Z'],
  ['2025-01-01T10:11', '2025-01-01T10:11:00.000000Z'],
  ['2025-01-01 10:11:12', '2025-01-01T10:11:12.000000Z'],
  ['2025-01-01T10:11:12z', '2025-01-01T10:11:12.000000Z'],
  ['2025-01-01T10:11:12 Z', '2025-01-01T10:11:12.000000Z'],
  ['2025-01-01T10:11:12.5', '2025-01-01T10:11:12.500000Z'],
  ['2025-01-01T10:11:12,25Z', '2025-01-01T10:11:12.250000Z'],
  ['2025-01-01T10:11:12.1234569Z', '2025-01-01T10:11:12.123456Z'],
  ['2025-01-01T23:59:59Z', '2025-01-01T23:59:59.000000Z'],
  ['2025-01-01T23:59:60Z', '2025-01-02T00:00:00.000000Z'],
  ['2025-01-01T23:59:60.5+00:00', '2025-01-02T00:00:00.500000Z'],
  ['2025-01-01T00:00:00.25+15:59', '2024-12-31T08:01:00.250000Z'],
  ['2025-01-01T00:00:00-1559', '2025-01-01T15:59:00.000000Z'],
  ['2025-01-01T00:00:00+02', '2024-12-31T22:00:00.000000Z'],
  ['2025-01-01T00:00:00-00:30', '2025-01-01T00:30:00.000000Z'],
  ['0001-01-01T00:00:00Z', '0001-01-01T00:00:00.000000Z'],
  ['0001-01-01T10:00:00+01:00', '0001-01-01T09:00:00.000000Z'],
  ['9999-12-31T23:00:00-00:59', '9999-12-31T23:59:00.000000Z'],
  ['2025-04-30', '2025-04-30T00:00:00.000000Z'],
  ['2025-12-31', '2025-12-31T00:00:00.000000Z'],
])('%s is %s', (text, instant) => {
  expect(parseInstant(text)).toBe(instant)
})

test.each(['2025-04-31', '2025-06-31', '2025-09-31', '2025-11-31', '2025-02-30', '2024-02-30', '2025-01-32'])(
  'there is no day %s',
  (day) => {
    expect([parseDate(day), parseInstant(day)]).toEqual([null, null])
  },
)

test('of two equal instants it returns either; otherwise the later', () => {
  const [a, b] = [instantOf(1), instantOf(2)]
  expect([laterOf(a, b), laterOf(b, a), laterOf(a, a)]).toEqual([b, b, a])
})

test('a fraction of a microsecond is cut off, so that an instant is never later than the time it was made from', () => {
  expect([0.999, 1.5, 1_999_999.9, -0.5].map((micros) => instantOf(micros))).toEqual([
    '1970-01-01T00:00:00.000000Z',
    '1970-01-01T00:00:00.000001Z',
    '1970-01-01T00:00:01.999999Z',
    '1969-12-31T23:59:59.999999Z',
  ])
})

/** Sets the zone of the machine; Node reads `TZ` again whenever it is set. */
test.each(['America/St_Johns', 'Asia/Kathmandu', 'Pacific/Apia', 'UTC'])(
  'times and days are read the same on a machine in %s',
  (zone) => {
    const before = process.env.TZ
    process.env.TZ = zone
    try {
      // The night in which clocks change, in the first of these zones.
      expect(parseInstant('2025-03-09T02:30:00')).toBe('2025-03-09T02:30:00.000000Z')
      expect(parseInstant('2025-03-09T02:30:00.25-03:30')).toBe('2025-03-09T06:00:00.250000Z')
      expect(parseInstant('2025-12-31T23:59:59+05:45')).toBe('2025-12-31T18:14:59.000000Z')
      expect([parseInstant('2025-12-31'), parseDate('2025-12-31')]).toEqual([
        ...['2025-12-31T00:00:00.000000Z', '2025-12-31'],
      ])
      expect(instantOf(microsOf('2025-07-01T00:00:00.000001Z' as never))).toBe('2025-07-01T00:00:00.000001Z')
    } finally {
      if (before === undefined) delete process.env.TZ
      else process.env.TZ = before
    }
  },
)
