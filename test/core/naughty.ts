/** Arbitrary JSON that is difficult for parsers and for Postgres, as text and as values. */
import fc from 'fast-check'
import { isWithinNumeric } from '../../src/core/canonical.ts'

/** Text of special pieces: NUL, halves of characters, escapes, SQL, COPY. */
export const naughtyText: fc.Arbitrary<string> = fc
  .array(
    fc.oneof(
      {
        weight: 3,
        arbitrary: fc.constantFrom('a', 'b', '\u0000', '\ud83d', '\ude00', '\udc96', '\\', '"', '\n', '\t'),
      },
      fc.constantFrom(
        '\\N',
        '\\.',
        '\\u0000',
        "'",
        '__proto__',
        '\ufeff',
        '\u2028',
        '\x7f',
        'é',
        '🧑‍⚕️',
        '\r',
        '{',
        '[',
      ),
      fc.string({ unit: 'binary', maxLength: 3 }),
    ),
    { maxLength: 6 },
  )
  .map((parts) => parts.join(''))

/** The text of a JSON number, whatever its size. */
export const numberText: fc.Arbitrary<string> = fc
  .record({
    minus: fc.boolean(),
    whole: fc.oneof(
      fc.nat().map(String),
      fc.constantFrom('0', '9007199254740991', '9007199254740993', `1${'0'.repeat(400)}`),
    ),
    fraction: fc.option(
      fc.oneof(fc.nat().map(String), fc.constantFrom('0', '10', '0000001', '000000', `${'0'.repeat(300)}1`)),
    ),
    exponent: fc.option(
      fc.tuple(fc.constantFrom('e', 'E', 'e+', 'E-'), fc.oneof(fc.nat(400), fc.nat(200_000)).map(String)),
    ),
  })
  .map(
    ({ minus, whole, fraction, exponent }) =>
      `${minus ? '-' : ''}${whole}${fraction === null ? '' : `.${fraction}`}${exponent?.join('') ?? ''}`,
  )

/** JSON text without blanks, its strings escaped as `JSON.stringify` does. */
const jsonWith = (numbers: fc.Arbitrary<string>): fc.Arbitrary<string> =>
  fc.letrec<{ value: string }>((tie) => ({
    value: fc.oneof(
      { depthSize: 'small', maxDepth: 3 },
      fc.oneof(
        numbers,
        naughtyText.map((text) => JSON.stringify(text)),
        fc.constantFrom('null', 'true', 'false'),
      ),
      fc.array(tie('value'), { maxLength: 3 }).map((items) => `[${items.join()}]`),
      fc
        .uniqueArray(fc.tuple(naughtyText, tie('value')), { maxLength: 4, selector: ([key]) => key })
        .map((entries) => `{${entries.map(([key, value]) => `${JSON.stringify(key)}:${value}`).join()}}`),
    ),
  })).value

export const naughtyJson: fc.Arbitrary<string> = jsonWith(numberText)

/** Without numbers beyond what Postgres can store. */
export const tameJson: fc.Arbitrary<string> = jsonWith(numberText.filter(isWithinNumeric))

/** Numbers at the limits of Postgres' numeric. */
export const WITHIN_NUMERIC = [
  '1e9999',
  '1E-9990',
  `-${'9'.repeat(9_999)}`,
  `0.${'0'.repeat(9_000)}1`,
] as const
