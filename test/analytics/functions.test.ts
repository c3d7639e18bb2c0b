/** The functions that views call: each branch, and both sides of each bound. */
import { createHash, createHmac } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { openWarehouse, query } from '../e2e/support/scene.ts'
import type { TestDatabase } from '../support/database.ts'

let warehouse: TestDatabase
beforeAll(async () => {
  warehouse = await openWarehouse()
})
afterAll(() => warehouse.drop())

/** The results of calls; a function takes at most a hundred arguments. */
async function results(calls: readonly string[]): Promise<unknown[]> {
  const parts = Array.from({ length: Math.ceil(calls.length / 100) }, (_, at) =>
    calls.slice(at * 100, (at + 1) * 100),
  )
  const arrays = parts.map((part) => `jsonb_build_array(${part.join(', ')})`)
  const [row] = await query<{ all: unknown[] }>(warehouse.url, `select ${arrays.join(' || ')} as all`)
  return row!.all
}

const literal = (value: unknown): string =>
  value === null
    ? 'null'
    : typeof value === 'string'
      ? `'${value.replaceAll("'", "''")}'`
      : typeof value === 'object'
        ? `'${JSON.stringify(value)}'::jsonb`
        : String(value)

/** Arguments, the result last. */
async function expectCalls(name: string, cases: readonly (readonly unknown[])[]): Promise<void> {
  const found = await results(cases.map((each) => `${name}(${each.slice(0, -1).map(literal).join(', ')})`))
  expect(cases.map((each, at) => [...each.slice(0, -1), found[at]])).toEqual(cases)
}

describe('an answer', () => {
  const asked = ['choice', 'Now', false] as const
  it('shows what was decided on its wording; of a former one what a person decided, else the choices of the form', () =>
    expectCalls('intake_ops.shown_of', [
      [null, ...asked, 'Now', null, 'nothing'],
      ['nothing', ...asked, 'Now', 'everything', 'nothing'],
      ['everything', ...asked, 'Now', null, 'everything'],
      ['structured', ...asked, 'Now', 'nothing', 'structured'],
      // The answer does not say what it answers.
      ['everything', 'text', 'Now', false, null, null, 'everything'],
      ['everything', 'text', 'Now', false, '', null, 'everything'],
      ['everything', 'text', 'Now', true, null, null, 'nothing'],
      ['everything', 'text', 'Now', true, '', null, 'nothing'],
      ['everything', 'text', '', true, '', null, 'everything'],
      ['everything', 'text', null, true, null, null, 'everything'],
      ['everything', 'text', null, true, '', null, 'everything'],
      // It answers another wording.
      ['everything', 'text', 'Now', false, 'Then', null, 'nothing'],
      ['everything', 'choice', 'Now', false, 'Then', null, 'structured'],
      ['everything', 'choice', 'Now', true, 'Then', 'nothing', 'nothing'],
      ['everything', 'text', 'Now', true, 'Then', 'everything', 'everything'],
      ['structured', 'number', 'Now', true, 'Then', 'everything', 'structured'],
      ['everything', 'number', 'Now', true, 'Then', 'structured', 'structured'],
      ['everything', 'choice', 'Now', true, null, null, 'structured'],
    ]))
})

describe('a question', () => {
  const AGES =
    'age aged ages old older edad años alter jahre âge ans età anni idade anos leeftijd jaar'.split(' ')
  const YEARS =
    'year years born birth birthday dob año nacimiento nacido nacida jahr geboren geburtsjahr année naissance né née anno nascita ano nascimento geboortejaar'.split(
      ' ',
    )
  it('asks for an age or a year by whole words of seven languages', async () => {
    // In upper case too, and not as part of a longer word, whatever the locale of the database.
    const around = (words: readonly string[]) =>
      words.flatMap((word) => [
        [`Your ${word.toUpperCase()}?`, true] as const,
        [`(${word})`, true] as const,
        ...['x', 'é', 'É', 'ß', 'ő', '_', '7'].flatMap((next) => [
          [`${next}${word}`, false] as const,
          [`${word}${next}`, false] as const,
        ]),
      ])
    await expectCalls('intake_ops.asks_age', [
      ...around(AGES),
      ['Page', false],
      [null, false],
      ['Born', false],
    ])
    await expectCalls('intake_ops.asks_year', [...around(YEARS), [null, false], ['Aged', false]])
  })

  it('has a plain wording: lower case, without its number, one space for punctuation and blanks', () =>
    expectCalls('intake_ops.plain_wording', [
      ['1. Little interest,  or pleasure?', 'little interest or pleasure'],
      [' (12a) Down', 'down'],
      ['3: So', 'so'],
      ['123) Three', 'three'],
      ['1234. Four', '1234 four'],
      ['12 drinks', '12 drinks'],
      ['a. Item', 'a item'],
      ['“Quoted” – it’s…', 'quoted it s'],
      ['?', ''],
    ]))
})

describe('a pseudonym', () => {
  it('is an HMAC, whatever the length of the key, and differs by team', async () => {
    const keys = ['k', 'k'.repeat(63), 'k'.repeat(64), 'k'.repeat(65)]
    const pads = keys.map((key) => `intake_ops.hmac_pad('${key}', 54), intake_ops.hmac_pad('${key}', 92)`)
    const found = await results([
      ...pads.map((pad) => `intake_ops.pseudonym(${pad}, 7::smallint, 'é')`),
      ...pads.map((pad) => `intake_ops.research_code(${pad}, 'form', 7::smallint, 'é')`),
    ])
    const hmac = (key: string, text: string) => createHmac('sha256', key).update(text).digest('hex')
    expect(found).toEqual([
      ...keys.map((key) => hmac(key, '7:é')),
      ...keys.map((key) => hmac(key, 'form:7:é').slice(0, 32)),
    ])
  })

  it('of a wording is a hash of type and text, with nothing for null', async () => {
    const sha = (text: string) => createHash('sha256').update(text).digest('hex')
    expect(
      await results(
        [`'a', 'é'`, `null, 'b'`, `'a', null`].map((each) => `encode(intake_ops.wording(${each}), 'hex')`),
      ),
    ).toEqual([sha('a\né'), sha('\nb'), sha('a\n')])
  })
})

describe('as FHIR permits it', () => {
  it('an id has 64 characters of a few kinds, or is a hash', async () => {
    const sha = (text: string) => createHash('sha256').update(text).digest('hex')
    const [fits, long] = ['aZ0.-'.padEnd(64, 'x'), 'x'.repeat(65)]
    await expectCalls('intake_fhir.as_id', [
      [fits, fits],
      ...[long, '', 'a_b', 'a b', 'é'].map((id) => [id, sha(id)]),
      [null, null],
    ])
  })

  it('texts are not blank, codes have single blanks, and control characters are blanks', async () => {
    await expectCalls('intake_fhir.as_string', [
      [' \n\t', null],
      ['', null],
      [' a\n\tb\r ', ' a\n\tb\r '],
      ['a\u0001\u0008\u000b\u000c\u000e\u001fb', 'a      b'],
    ])
    await expectCalls('intake_fhir.as_code', [
      ...[' a', 'a ', 'a  b', '', 'a\nb'].map((each) => [each, null]),
      ['a b c', 'a b c'],
    ])
  })

  it('times and dates have a year of four digits', async () => {
    const time = (text: string) => `intake_fhir.as_time('${text}')`
    const date = (text: string) => `intake_fhir.as_date('${text}')`
    expect(
      await results([
        ...[
          '0001-01-01Z',
          '0001-12-31 23:59:59.999999Z BC',
          '9999-12-31 23:59:59.999999Z',
          '10000-01-01Z',
          'infinity',
        ].map(time),
        time('2026-01-02 03:04:05.5+02'),
        ...['0001-01-01', '0001-12-31 BC', '9999-12-31', '10000-01-01', '-infinity'].map(date),
      ]),
    ).toEqual([
      ...['0001-01-01T00:00:00.000000Z', null, '9999-12-31T23:59:59.999999Z', null, null],
      '2026-01-02T01:04:05.500000Z',
      ...['0001-01-01', null, '9999-12-31', null, null],
    ])
  })

  it('a question has the type that its subtype or its type names, and is a group with parts', () => {
    const named =
      'boolean decimal integer date dateTime time string text url choice open-choice attachment reference quantity display'
    const types = {
      choice: 'single_choice multiple_choice choice radio dropdown select multi_select multiple_select',
      decimal: 'number decimal numeric scale slider rating',
      integer: 'integer',
      boolean: 'checkbox boolean Yes_No',
      date: 'date',
      dateTime: 'DateTime',
      time: 'time',
      text: 'long_text',
      attachment: 'file',
      display: 'display_only repeated_block',
      string: 'short_text text signature matrix anything',
    }
    return expectCalls('intake_fhir.item_type', [
      ...named.split(' ').map((subtype) => ['matrix', subtype, false, subtype]),
      ...Object.entries(types).flatMap(([type, words]) =>
        words.split(' ').map((word) => [word, word === 'date' ? null : 'drop-down', false, type]),
      ),
      ['number', 'decimal', true, 'group'],
      [null, null, false, 'string'],
    ])
  })

  it('an answer has the value of its type, or is a text', () => {
    const answer = (
      type: string | null,
      text: string | null,
      value: object | null,
      number: unknown = null,
      more: unknown[] = [],
    ) => [type, more[2] ?? null, text, number, more[0] ?? null, more[1] ?? null, value] as const
    const text = (valueString: string) => ({ valueString })
    return expectCalls('intake_fhir.answer', [
      answer('integer', '7', { valueCoding: {} }, 7, [null, null, { valueCoding: {} }]),
      answer('string', ' ', null),
      answer('string', null, null),
      answer('string', 'a', text('a')),
      answer(null, 'a', text('a'), 1),
      answer('boolean', 'no', { valueBoolean: false }, null, [false]),
      answer('boolean', 'maybe', text('maybe')),
      answer('string', 'no', text('no'), null, [false]),
      answer('integer', '7.0', { valueInteger: 7 }, 7.0),
      answer('integer', '-2147483647', { valueInteger: -2147483647 }, -2147483647),
      answer('integer', '2147483648', { valueDecimal: 2147483648 }, 2147483648),
      answer('integer', '7.5', { valueDecimal: 7.5 }, 7.5),
      answer('integer', 'seven', text('seven')),
      answer('decimal', '7.5', { valueDecimal: 7.5 }, 7.5),
      answer('decimal', 'much', text('much')),
      answer('quantity', '7', { valueQuantity: { value: 7 } }, 7),
      answer('quantity', 'much', text('much')),
      answer('text', '7', text('7'), 7),
      answer('date', '2026-01-02', { valueDate: '2026-01-02' }, null, [null, '2026-01-02']),
      answer('date', 'soon', text('soon')),
      answer('date', 'ever', text('ever'), null, [null, 'infinity']),
      answer('dateTime', '2026-01-02T03:04:05+02:00', { valueDateTime: '2026-01-02T01:04:05.000000Z' }),
      answer('dateTime', 'soon', text('soon')),
      answer('time', '08:15', { valueTime: '08:15:00' }),
      answer('time', '23:59:59', { valueTime: '23:59:59' }),
      ...['24:00', '8:15', '08:60', '08:15:60', '08:15 pm'].map((each) => answer('time', each, text(each))),
      answer('url', 'https://x', { valueUri: 'https://x' }),
      answer('url', 'not one', text('not one')),
    ])
  })
})

describe('a choice for researchers', () => {
  const MONTHS = [
    ...'january february march april june july august september october november december'.split(' '),
    ...'enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre'.split(' '),
    ...'janvier février fevrier mars avril juin juillet août aout septembre octobre novembre décembre decembre'.split(
      ' ',
    ),
    ...'januar februar märz maerz juni juli oktober dezember januari februari maart augustus'.split(' '),
    ...'gennaio febbraio aprile maggio giugno luglio settembre ottobre dicembre'.split(' '),
    ...'janeiro fevereiro março maio junho julho setembro outubro novembro dezembro'.split(' '),
  ]
  const SHORT = 'jan feb mar apr may jun jul aug sep sept oct nov dec'.split(' ')
  const HIDDEN = [
    ...MONTHS.map((month) => `In ${month.toUpperCase()}`),
    ...SHORT.flatMap((month) => [`${month} 5`, `5th of ${month}`]),
    ...['spring 2', 'Summer of 2', 'autumn 2', 'fall 2', 'winter, 2', 'Q1', 'q4', ' may '],
    ...['mai 2024', '1er mai', '5. Mai', 'mei 2024', '3 de may'],
    ...['1-2-3', '12/1999', '2026.1', '12345', '12345-6789', '1234567890', '(12) 345 678 9', '1 234-56.78 9'],
  ]
  const SHOWN = [
    'Q5',
    'marching',
    'maya',
    'may be',
    'Mai',
    'mai più',
    'julia',
    '1/2',
    '123456',
    '3234-5',
    '13/1999',
    '2026-13',
    '3 seas',
    '5 falls',
    'Octopus',
  ]
  const choice = (
    text: string,
    is_age: boolean,
    is_year: boolean,
    is_decided: boolean,
    shown: string | null,
  ) => [text, is_age, is_year, is_decided, shown] as const
  const year = new Date().getUTCFullYear()

  it('is hidden if it seems to be a day, a place or a number of a person, until somebody decides', async () => {
    await expectCalls('intake_raw.safe_choice', [
      ...HIDDEN.map((each) => choice(each, false, false, false, null)),
      ...HIDDEN.map((each) => choice(each, false, false, true, each)),
      ...SHOWN.map((each) => choice(each, false, false, false, each)),
    ])
  })

  it('is hidden for ever with an address or number of a person, or an old year in a question of years', () =>
    expectCalls('intake_raw.safe_choice', [
      ...['a@b-1.c', 'is 123-45-6789'].map((each) => choice(each, false, false, true, null)),
      ...['a@b', '1234-56-789', '9123-45-6789x'].map((each) => choice(each, false, false, true, each)),
      choice(`in ${year - 90}`, false, true, true, null),
      choice(`in ${year - 89}`, false, true, true, `in ${year - 89}`),
      choice('1066', false, true, true, null),
      choice('1066', false, false, false, '1066'),
      choice('1850', false, false, false, null),
      choice('1850', false, false, true, '1850'),
      choice('11850', false, false, true, '11850'),
      choice('95', true, false, false, '90+'),
      choice('95', false, false, false, '95'),
      choice('80-95', true, false, false, null),
    ]))

  it('of an age grows older: 90+ if all who gave it are ninety, none if some may be', () =>
    expectCalls('intake_raw.safe_age', [
      ['90', 0, '90+'],
      ['89', 0, '89'],
      ['89', 1, '90+'],
      ['80-89', 1, null],
      ['80-89', 10, '90+'],
      ['79 to 89', 0, '79 to 89'],
      ['95', null, '90+'],
      ['89', null, null],
      ['none', null, 'none'],
      ...['< 95', '≤95', 'under 95', 'Below 95', 'less than 95', 'younger than 95', 'up to 95'].map(
        (each) => [each, 0, null],
      ),
      ['< 89', 0, '< 89'],
      ['over 95', 0, '90+'],
      ['1000', 0, '1000'],
    ]))
})
