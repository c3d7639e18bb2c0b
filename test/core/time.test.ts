/** Instants keep their microseconds, and comparing them as text compares them in time. */
import fc from 'fast-check'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { instantOf, laterOf, microsOf, parseDate, parseInstant } from '../../src/core/time.ts'
import { createTestDatabase, type TestDatabase } from '../support/database.ts'

let database: TestDatabase
let client: pg.Client

beforeAll(async () => {
  database = await createTestDatabase({ empty: true })
  client = new pg.Client({ connectionString: database.url, application_name: 'time' })
  await client.connect()
  await client.query(`set timezone = 'UTC'`)
})

afterAll(async () => {
  await client.end()
  await database.drop()
})

const two = (value: number) => String(value).padStart(2, '0')

/** A time as a service may write it: any real day, with or without fraction, in any zone. */
const writtenTime = fc
  .record({
    day: fc.date({
      min: new Date('0002-01-01T00:00:00Z'),
      max: new Date('9998-12-31T00:00:00Z'),
      noInvalidDate: true,
    }),
    second: fc.integer({ min: 0, max: 60 }),
    fraction: fc.option(fc.nat(999_999).map((micros) => String(micros).padStart(6, '0'))),
    digits: fc.integer({ min: 1, max: 6 }),
    zone: fc.oneof(
      fc.constantFrom('Z', '+00:00', '-00:00', '+05:30', '-12:00', '+14:00', '+0545', '-08'),
      fc
        .tuple(fc.constantFrom('+', '-'), fc.nat(14), fc.nat(59))
        .map(([sign, h, m]) => `${sign}${two(h)}:${two(m)}`),
    ),
    between: fc.constantFrom('T', ' '),
  })
  .map(({ day, second, fraction, digits, zone, between }) => {
    const text = day.toISOString()
    // Postgres knows the leap second itself, and no part of it.
    const parts = fraction === null || second === 60 ? '' : `.${fraction.slice(0, digits)}`
    return `${text.slice(0, 10)}${between}${text.slice(11, 16)}:${two(second)}${parts}${zone}`
  })

test('any written time is read as Postgres reads it, to the microsecond', async () => {
  const written = fc.sample(writtenTime, 3000)
  const { rows } = await client.query<{ read: string }>(
    `select to_char(written::timestamptz, 'YYYY-MM-DD"T"HH24:MI:SS.USZ') as read
     from unnest($1::text[]) with ordinality as t (written, place) order by place`,
    [written],
  )
  expect(written.map((text) => parseInstant(text))).toEqual(rows.map((row) => row.read))
})

test('instants sort as text as they sort in Postgres', async () => {
  const instants = fc.sample(writtenTime, 1000).map((text) => parseInstant(text)!)
  const { rows } = await client.query<{ instant: string }>(
    'select instant from unnest($1::text[]) as t (instant) order by instant::timestamptz, instant',
    [instants],
  )
  expect([...instants].sort()).toEqual(rows.map((row) => row.instant))
})

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

  test('Postgres takes each that is one', async () => {
    const days = fc.sample(
      fc
        .tuple(fc.integer({ min: 1, max: 9999 }), fc.nat(13), fc.nat(32))
        .map(([year, month, day]) => `${String(year).padStart(4, '0')}-${two(month)}-${two(day)}`),
      2000,
    )
    const read = days.filter((day) => parseDate(day) !== null)
    expect(read.length).toBeGreaterThan(500)
    const { rows } = await client.query<{ day: string }>(
      'select day::date::text as day from unnest($1::text[]) t (day)',
      [read],
    )
    expect(rows.map((row) => row.day)).toEqual(read)
    for (const day of days.filter((each) => parseDate(each) === null).slice(0, 50)) {
      await expect(client.query('select $1::date', [day])).rejects.toThrow(/date/)
    }
  })
})
