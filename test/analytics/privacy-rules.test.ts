/** Which rule counts for a column of a view, and what breaks the rules of choices and numbers, value by value. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { measurePrivacy, type TierReport } from '../../src/analytics/privacy.ts'
import { LIMITED, NO_FEW, type Rule, SAFE_HARBOR, WIDE } from '../../src/analytics/privacy-rules.ts'
import { openSession } from '../../src/warehouse/connect.ts'
import { openWarehouse, query } from '../e2e/support/scene.ts'
import type { TestDatabase } from '../support/database.ts'

const YEAR = new Date().getUTCFullYear()

let warehouse: TestDatabase
let tiers: readonly TierReport[]

beforeAll(async () => {
  warehouse = await openWarehouse()
  await query(
    warehouse.url,
    `insert into intake.teams (name) values ('t');
     insert into intake.form_questions (team_id, form_id, position, question_id, text)
       select 1, 'f', n, q, q from unnest('{Shown,Aged,Shut,Free city}'::text[]) with ordinality own (q, n);
     insert into intake_ops.research_questions (team_id, form_id, question_id, wording, shows)
       values (1, 'f', 'Shown', '', 'visible'), (1, 'f', 'Free city', '', 'visible'), (1, 'f', 'Aged', '', 'age'), (1, 'f', 'Shut', '', 'hidden')`,
  )
  await using session = await openSession({ url: warehouse.url, purpose: 'privacy rules' })
  tiers = await measurePrivacy(session.db)
})
afterAll(() => warehouse.drop())

const ruleOf = (rules: readonly Rule[], column: string) =>
  rules.find(({ columns }) => columns.test(column))?.rule ?? 'none'
const ruled = (rules: readonly Rule[], columns: readonly string[]) =>
  columns.map((column) => [column, ruleOf(rules, column)])
const all = (columns: readonly string[], rule: string) => columns.map((column) => [column, rule])

describe('the rule of a column', () => {
  it('of a limited data set is that of no identifier for each that identifies a person', () => {
    const identifiers = [
      ...['external_id', 'first_name', 'last_name', 'email', 'target_email', 'target_phone', 'phone_number'],
      ...['mobile_phone', 'address', 'address2', 'city', 'zipcode', 'date_birth'],
    ].map((name) => `x.${name} text`)
    expect(ruled(LIMITED, identifiers)).toEqual(all(identifiers, 'no direct identifier'))
    const others = ['x.state text', 'x.capacity text', 'x.form_id text', 'x.created_at timestamptz']
    expect(ruled(LIMITED, others)).toEqual(all(others, 'permitted in a limited data set'))
    const answers = ['x.choice text', 'x.value_text text', 'x.row_text text', 'x.question_text text']
    expect(ruled(LIMITED, answers)).toEqual(
      all(answers, 'an answer without e-mail address or social security number'),
    )
    expect(ruled(LIMITED, ['x.patient text', 'x.zip3 text', 'x.age_band text'])).toEqual([
      ['x.patient text', 'a pseudonym'],
      ['x.zip3 text', 'three digits of a large ZIP area'],
      ['x.age_band text', 'an age band to 90+'],
    ])
  })

  it('of wide views is that of answers, whatever an answer is called', () => {
    const permitted = [
      ...['x.team_id smallint', 'x.row_number integer', 'x.response_id text', 'x.packet_id text'],
      ...['x.is_submitted boolean', 'x.created_at timestamp with time zone'],
    ]
    expect(ruled(WIDE, permitted)).toEqual(all(permitted, 'permitted in a limited data set'))
    const dates = ['x.at timestamp with time zone', 'x.born date', 'x.clock time without time zone']
    expect(ruled(WIDE, dates)).toEqual(all(dates, 'no dates but years in answers'))
    const plain = ['x.a numeric', 'x.a boolean', 'x.a integer', 'x.a numeric[]', 'x.a boolean[]']
    expect(ruled(WIDE, plain)).toEqual(all(plain, 'a number, tick or year that analysts see'))
    const texts = ['x.a text', 'x.a text[]', 'x.a jsonb', 'x.city text']
    expect(ruled(WIDE, texts)).toEqual(
      all(texts, 'an answer without e-mail address or social security number'),
    )
    expect(ruleOf(WIDE, 'x.a bytea')).toBe('none')
  })

  it('for researchers permits words, places and scores by their names and types only', () => {
    const words = 'form packet document question_text question_type concept instrument title'.split(' ')
    const texts = words.map((word) => `x.${word} text`)
    expect(ruled(SAFE_HARBOR, texts)).toEqual(all(texts, 'words of staff'))
    const lists = 'sex_at_birth state channel status activity'.split(' ').map((word) => `x.${word} text`)
    expect(ruled(SAFE_HARBOR, lists)).toEqual(all(lists, 'a word of a list'))
    const places = 'position question_position value_position items visit score share_submitted'.split(' ')
    const numbers = places.flatMap((name) => [`x.${name} integer`, `x.${name} numeric`])
    expect(ruled(SAFE_HARBOR, numbers)).toEqual(all(numbers, 'a place or a score'))
    const neither = ['x.name text', 'x.score text', 'x.reform text', 'x.provider text', 'x.points numeric']
    expect(ruled(SAFE_HARBOR, neither)).toEqual(all(neither, 'none'))
  })
})

describe('the report', () => {
  it('has a rule for each column of each view, and breaks none without data', () => {
    for (const { schema, views, broken, k_anonymity } of tiers) {
      expect([schema, broken, k_anonymity.k, k_anonymity.groups]).toEqual([schema, 0, null, 0])
      for (const { view, columns } of views) {
        const wrong = columns.filter((column) => column.rule === 'no rule allows it' || column.broken > 0)
        expect(wrong, `${schema}.${view}`).toEqual([])
      }
    }
  })

  it('counts values of few for each column that people share, and no rows without a value where few have none', () => {
    const shared = tiers[1]!.views.flatMap(({ view, columns }) =>
      columns.filter((each) => each.values_under !== null).map(({ column }) => `${view}.${column}`),
    )
    const strict = [
      ...['channel', 'status', 'is_sent', 'is_opened', 'is_answered', 'sent_year'].map(
        (name) => `message_outcomes.${name}`,
      ),
      ...['activity', 'is_archived', 'created_year', 'submitted_year'].map(
        (name) => `packet_progress.${name}`,
      ),
      ...['is_submitted', 'is_skipped', 'is_archived', 'created_year', 'submitted_year', 'visit'].map(
        (name) => `responses.${name}`,
      ),
    ]
    expect([...shared].sort()).toEqual(
      [
        ...strict,
        ...['answers.is_answered', 'answers.choice', 'answers.value_boolean', 'answers.value_year'],
        ...['export_answers.choice', 'export_answers.value_boolean', 'responses.form', 'scores.band'],
        ...['birth_year', 'age_band', 'zip3', 'state', 'sex_at_birth', 'tags'].map(
          (name) => `patients.${name}`,
        ),
      ].sort(),
    )
    expect(shared.filter((name) => NO_FEW.test(name)).sort()).toEqual(strict.sort())
  })
})

/** Whether a value of `column` breaks its rule, in a row with these other values. */
async function breaks(column: 'choice' | 'value_number', cases: readonly (readonly unknown[])[]) {
  const type = column === 'choice' ? 'text' : 'numeric'
  const rule = SAFE_HARBOR.find(({ columns }) => columns.test(`answers.${column} ${type}`))!
  const rows = cases.map(([question_text, value, submitted_year = null]) => ({
    ...{ question_text, question_id: question_text, [column]: value, submitted_year },
  }))
  const found = await query<{ broken: boolean | null }>(
    warehouse.url,
    `with measured as materialized (
       select * from jsonb_to_recordset($1) as own (question_text text, question_id text, value_number numeric, choice text, submitted_year int)
     )
     select (${rule.breaks}) as broken from (select row_number() over () as place, m.${column} as v, m as own from measured m) each order by place`,
    [JSON.stringify(rows)],
  )
  return cases.map((each, at) => [...each, found[at]!.broken === true])
}

describe('for researchers', () => {
  const MONTHS = 'january february march april august september november december october'.split(' ')
  const given = (question: string, broken: boolean, values: readonly string[]) =>
    values.map((value) => [question, value, broken] as const)

  it('a choice breaks its rule if it is a day, a month, an old year, a place or a number of a person', async () => {
    const located = [
      ...MONTHS.map((month) => `In ${month.toUpperCase()}`),
      ...['1/2/99', '12.13.1999', '1-2-2026', '2026-03', '1999-12-13', '2026-9', '02139', 'at 02139-4307'],
      ...['1899', `in ${YEAR - 90}`],
    ]
    const fine = [
      ...['Yes', '120/80', 'marching', '1,00000', '123456', '1066', 'May', '13-1-2-3-4', `${YEAR - 89}`],
      ...['2026-13', '90'],
    ]
    const identified = ['a.b-c_9@d-e.fr', 'A@B.CO', '123-45-6789', '(123-45-6789)']
    const cases = [
      ...given('Other', true, located),
      ...given('Other', false, fine),
      ...given('Aged', true, located),
      // Somebody decided to show these.
      ...given('Shown', false, [...located, ...fine]),
      ...['Other', 'Shown'].flatMap((question) => given(question, true, identified)),
      ...given('Shown', false, ['a@b', '1123-45-6789', '123-45-67890', '-123-45-6789', '123-45-6789-1']),
      ...['City?', 'Your TOWN', 'a village', 'county', 'zip', 'ZIPcode', 'zip code', 'Postal code'].flatMap(
        (question) => given(question, true, ['Ede']),
      ),
      ...['Capacity', 'Towns', 'Zipped', 'Free city'].flatMap((question) => given(question, false, ['Ede'])),
    ]
    expect(
      await breaks(
        'choice',
        cases.map(([question, value]) => [question, value]),
      ),
    ).toEqual(cases)
  })

  const AGES = [
    'Age',
    'ages',
    'Aged?',
    'How OLD',
    'older',
    'edad',
    'Alter',
    'âge',
    'età',
    'idade',
    'leeftijd',
  ]

  it('a choice of ages breaks its rule if somebody may be ninety by now', async () => {
    const cases = [
      ...AGES.map((question) => [question, '90', null, true] as const),
      ...['Page', 'Cold', 'Altered', 'Shown'].map((question) => [question, '90', null, false] as const),
      ['Aged', '89', null, false],
      ['Aged', '80-95', null, true],
      ['Aged', '90+', null, false],
      ['Aged', '1000', null, false],
      ['Aged', '85', YEAR - 5, true],
      ['Aged', '84', YEAR - 5, false],
    ] as const
    expect(
      await breaks(
        'choice',
        cases.map((each) => each.slice(0, 3)),
      ),
    ).toEqual(cases)
  })

  it('a number breaks its rule if nobody decided on it, it is a long one, or an age of ninety', async () => {
    const cases = [
      ['Other', 7, null, true],
      ['Shut', 7, null, true],
      ['Shown', 7, null, false],
      ['Shown', 99_999_999, null, false],
      ['Shown', 100_000_000, null, true],
      ['Shown', 95, null, false],
      ['Aged', 90, YEAR, false],
      ['Aged', 91, YEAR, true],
      ['Aged', 89, YEAR, false],
      ['Aged', 85, YEAR - 5, true],
      ['Aged', 84, YEAR - 5, false],
    ] as const
    expect(
      await breaks(
        'value_number',
        cases.map((each) => each.slice(0, 3)),
      ),
    ).toEqual(cases)
  })
})
