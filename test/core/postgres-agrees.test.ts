/** Core and Postgres agree about times, states and values. */
import fc from 'fast-check'
import pg from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { canonicalText } from '../../src/core/canonical.ts'
import { type Envelope, supersedes } from '../../src/core/envelope.ts'
import { parseText } from '../../src/core/json.ts'
import { parseDate, parseInstant } from '../../src/core/time.ts'
import { storable, storableText } from '../../src/normalize/read-record.ts'
import { createTestDatabase, type TestDatabase } from '../support/database.ts'
import { naughtyJson, naughtyText, WITHIN_NUMERIC } from './naughty.ts'
import { envelope } from './states.ts'

let database: TestDatabase
let client: pg.Client

beforeAll(async () => {
  database = await createTestDatabase({ empty: true })
  client = new pg.Client({ connectionString: database.url, application_name: 'core' })
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
    // Postgres accepts the leap second itself, and no fraction of it.
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

test('Postgres accepts each valid day, and rejects each invalid one', async () => {
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

test('Postgres decides every pair the same way', async () => {
  const pairs = fc.sample(fc.tuple(envelope, envelope), 3000)
  const side = (which: 0 | 1, pick: (each: Envelope) => unknown) => pairs.map((pair) => pick(pair[which]))
  const { rows } = await client.query<{ wins: boolean }>(
    `select (av::timestamptz, ad, ao::timestamptz, decode(ah, 'hex')) > (bv::timestamptz, bd, bo::timestamptz, decode(bh, 'hex')) as wins
     from unnest($1::text[], $2::bool[], $3::text[], $4::text[], $5::text[], $6::bool[], $7::text[], $8::text[])
       with ordinality as t (av, ad, ao, ah, bv, bd, bo, bh, place)
     order by place`,
    ([0, 1] as const).flatMap((which) => [
      side(which, (each) => each.version),
      side(which, (each) => each.content === null),
      side(which, (each) => each.observedAt),
      side(which, (each) => each.content?.hash ?? ''),
    ]),
  )
  expect(pairs.map(([a, b]) => supersedes(a, b))).toEqual(rows.map((row) => row.wins))
})

test('Postgres accepts every value as jsonb, and returns it', async () => {
  await fc.assert(
    fc.asyncProperty(naughtyJson, fc.boolean(), async (json, invalidUtf8) => {
      const value = storable(parseText(json), invalidUtf8, [])
      const text = canonicalText(value)
      const { rows } = await client.query<{ back: string; same: boolean }>(
        'select $1::jsonb::text as back, $1::jsonb = $1::text::jsonb as same',
        [text],
      )
      // Numbers are returned in Postgres' own notation.
      const texts = (content: unknown) => (canonicalText(content).match(/"(?:[^"\\]|\\.)*"/g) ?? []).sort()
      expect(texts(parseText(rows[0]!.back))).toEqual(texts(value))
    }),
    { numRuns: 500 },
  )
})

test('Postgres accepts every text, and returns it', async () => {
  await fc.assert(
    fc.asyncProperty(naughtyText, fc.boolean(), async (text, invalidUtf8) => {
      const fit = storableText(text, invalidUtf8)
      const { rows } = await client.query<{ back: string }>('select $1::text as back', [fit])
      expect(rows[0]!.back).toBe(fit)
    }),
    { numRuns: 500 },
  )
})

test.each(WITHIN_NUMERIC)('Postgres accepts a number that stays a number (%#)', async (number) => {
  await client.query('select $1::jsonb', [canonicalText(storable(parseText(`[${number}]`), false, []))])
})
