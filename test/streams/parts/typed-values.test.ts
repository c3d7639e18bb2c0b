/** What texts read as, whatever the texts: numbers that Postgres holds, booleans, dates that exist, or nothing. */
import fc from 'fast-check'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { booleanOf, dateOf, numberOf, typedCells } from '../../../src/streams/parts/response-answers.ts'
import { openSession, type Session } from '../../../src/warehouse/connect.ts'
import { naughtyText } from '../../core/naughty.ts'
import { createTestDatabase, type TestDatabase } from '../../support/database.ts'

let database: TestDatabase
let session: Session

beforeAll(async () => {
  database = await createTestDatabase()
  session = await openSession({ url: database.url, purpose: 'typed values' })
})

afterAll(async () => {
  await session.close()
  await database.drop()
})

const digits = (least: number, most: number) =>
  fc.string({ unit: fc.constantFrom(...'0123456789'), minLength: least, maxLength: most })

/** Sign, digits, fraction and exponent, as people and machines write them. */
const decimal = fc
  .tuple(
    fc.constantFrom('', '-', '+'),
    fc.oneof(
      digits(1, 30),
      fc.tuple(digits(0, 12), digits(1, 12)).map(([whole, fraction]) => `${whole}.${fraction}`),
      digits(400, 3000),
    ),
    fc.oneof(
      fc.constant(''),
      fc
        .tuple(fc.constantFrom('e', 'E'), fc.integer({ min: -3000, max: 3000 }))
        .map(([e, by]) => `${e}${by}`),
      fc.constant('e+7'),
    ),
  )
  .map((parts) => parts.join(''))

test('every finite decimal number is read, and Postgres takes it as it is', async () => {
  const texts = fc.sample(decimal, 500)
  expect(texts.filter((text) => numberOf(text) !== text)).toEqual([])
  const { rows } = await session.client.query<{ text: string; agrees: boolean }>(
    // Postgres compares what it made of the text with the text made longer by what changes no number.
    `select text, text::numeric = ('0' || ltrim(text, '+-'))::numeric * case when text like '-%' then -1 else 1 end as agrees
     from unnest($1::text[]) text`,
    [texts],
  )
  expect(rows.filter(({ agrees }) => !agrees)).toEqual([])
  expect(rows).toHaveLength(texts.length)
})

test('whatever is read as a number is finite, has no blanks, separators or other bases, and fits numeric', async () => {
  const odd = fc.oneof(
    naughtyText,
    fc.string({ unit: fc.constantFrom(...'0123456789+-.,eE _xnaiNf'), maxLength: 9 }),
    fc
      .tuple(decimal, fc.constantFrom(' ', '\n', '\t', '\u00a0', ',', '_', '.', '%', 'e', '\u0000'))
      .map(([a, b]) => a + b),
    fc.tuple(fc.constantFrom(' ', '\n', '$', '0x', "'"), decimal).map(([a, b]) => a + b),
    fc
      .tuple(digits(1, 5), fc.constantFrom('e10000', 'e-99999999999999999999', 'e131072'))
      .map(([a, b]) => a + b),
  )
  const read = fc.sample(odd, 3000).filter((text) => numberOf(text) !== null)
  expect(read.filter((text) => !/^[-+]?[\d.]+([eE][-+]?\d+)?$/.test(text))).toEqual([])
  await session.client.query('select text::numeric from unnest($1::text[]) text', [read])
})

test.each([
  '',
  '.',
  '5.',
  '-',
  '+',
  'e5',
  '1e',
  '1e+',
  '1e2.5',
  '--1',
  '1 2',
  'NaN',
  'nan',
  'Infinity',
  '-inf',
])('%j is no number', (text) => {
  expect(numberOf(text)).toBeNull()
})

test('true, yes, false and no are booleans in any case, and nothing else is', () => {
  const anyCase = (word: string) =>
    fc
      .tuple(...[...word].map((character) => fc.constantFrom(character, character.toUpperCase())))
      .map((all) => all.join(''))
  const words = fc.oneof(...['true', 'yes', 'false', 'no'].map(anyCase))
  fc.assert(
    fc.property(words, naughtyText, (word, other) => {
      const meant = /^[ty]/i.test(word) ? 't' : 'f'
      expect(booleanOf(word)).toBe(meant)
      if (other !== '') {
        expect(booleanOf(word + other)).toBeNull()
        expect(booleanOf(other + word)).toBeNull()
      }
      if (!/^(true|yes|false|no)$/i.test(other)) expect(booleanOf(other)).toBeNull()
    }),
  )
})

test('every day there is reads as its date; no other day, and no time, does', () => {
  fc.assert(
    fc.property(
      fc.date({
        min: new Date('0001-01-01T00:00:00Z'),
        max: new Date('9999-12-31T00:00:00Z'),
        noInvalidDate: true,
      }),
      fc.integer({ min: 32, max: 99 }),
      (date, day) => {
        const time = date.toISOString()
        const text = time.slice(0, 10)
        expect(dateOf(text)).toBe(text)
        expect(dateOf(time)).toBeNull()
        expect(dateOf(` ${text}`)).toBeNull()
        expect(dateOf(`${text.slice(0, 8)}${day}`)).toBeNull()
      },
    ),
  )
  expect([dateOf('2023-02-29'), dateOf('1900-02-29'), dateOf('2000-02-29')]).toEqual([
    null,
    null,
    '2000-02-29',
  ])
})

test('a text reads as one thing at most', () => {
  fc.assert(
    fc.property(fc.oneof(naughtyText, decimal, fc.constantFrom('yes', 'No', '2024-02-29', '')), (text) => {
      expect(typedCells(text).filter((cell) => cell !== null).length).toBeLessThanOrEqual(1)
    }),
  )
  expect(typedCells(null)).toEqual([null, null, null])
})
