/** The privacy report counts what breaks each rule, on both sides of each bound, in tables in the place of the views. */
import { afterAll, beforeAll, expect, it } from 'vitest'
import { measurePrivacy, type TierReport } from '../../src/analytics/privacy.ts'
import { openSession } from '../../src/warehouse/connect.ts'
import { openWarehouse, query } from '../e2e/support/scene.ts'
import type { TestDatabase } from '../support/database.ts'

const YEAR = new Date().getUTCFullYear()
const code = (length: number) => `'${'a'.repeat(length)}'`
const SMALL = '036 059 063 102 203 556 692 790 821 823 830 831 878 879 884 890 893'.split(' ')

/** Of each column the values that break its rule, and those that do not. */
const RULES: Readonly<
  Record<string, readonly [type: string, broken: readonly string[], fine: readonly string[]]>
> = {
  day: ['date', [`'2026-01-01'`], []],
  at: ['timestamptz', [`'2026-01-01'`], []],
  clock: ['time', [`'12:00'`], []],
  team: ['text', [`'Clinic'`, `'team x'`], [`'team 12'`, `'7'`]],
  patient: ['text', [code(31), code(33), code(64), `'${'A'.repeat(32)}'`], [code(32)]],
  packet_id: ['text', [code(31)], [code(32)]],
  created_year: ['integer', [`${YEAR - 90}`, `${YEAR + 2}`], [`${YEAR - 89}`, `${YEAR + 1}`]],
  zip3: ['text', [...SMALL.map((area) => `'${area}'`), `'21'`, `'0211'`], [`'021'`, `'000'`]],
  age_band: ['text', [`'90-99'`, `'85-89'`, `'90'`], [`'0-9'`, `'80-89'`, `'90+'`]],
  time_to_submit: ['interval', [`'721 hours'`, `'1 hour 1 second'`], [`'720 hours'`, `'1 minute'`]],
  count: ['bigint', ['1', '10'], ['0', '11', '-1']],
  state: ['text', [], [`'MA'`]],
  tags: ['text[]', [`'{decided,other}'`, `'{other}'`], [`'{decided}'`, `'{}'`]],
  band: ['text', [`'a band of none'`], [`'severe'`]],
  flag: ['boolean', [], ['true']],
  form: ['text', [], [`'A form'`]],
  score: ['numeric', [], ['7.5']],
  visit: ['integer', [], ['7']],
  comment: ['text', [`'words'`], []],
  distance: ['numeric', ['7'], []],
}

let warehouse: TestDatabase
let tiers: readonly TierReport[]

beforeAll(async () => {
  warehouse = await openWarehouse()
  const { url } = warehouse
  await query(url, 'drop schema intake_safe_harbor cascade; create schema intake_safe_harbor')
  const length = Math.max(...Object.values(RULES).map(([, broken, fine]) => broken.length + fine.length))
  const values = Array.from({ length }, (_, at) =>
    Object.values(RULES)
      .map(([, broken, fine]) => [...broken, ...fine][at] ?? 'null')
      .join(', '),
  )
  await query(
    url,
    `insert into intake.teams (name) values ('t');
     insert into intake_ops.research_tags (team_id, name) values (1, 'decided');
     create table intake_safe_harbor.rules (team_id smallint default 1, ${Object.entries(RULES)
       .map(([name, [type]]) => `${name} ${type}`)
       .join(', ')});
     insert into intake_safe_harbor.rules (${Object.keys(RULES).join(', ')}) values ${values.map((row) => `(${row})`).join(', ')};
     insert into intake.form_questions (team_id, form_id, position, question_id, text)
       select 1, 'f', n, q, q from unnest('{Weight,Room,Winters,Town,How old,Nothing,Hidden}'::text[]) with ordinality own (q, n);
     insert into intake_ops.research_questions (team_id, form_id, question_id, wording, shows)
       values (1, 'f', 'Weight', '', 'visible'), (1, 'f', 'Town', '', 'visible'), (1, 'f', 'Winters', '', 'age'), (1, 'f', 'Hidden', '', 'hidden')`,
  )
  await query(
    url,
    `create table intake_safe_harbor.answers (team_id smallint default 1, patient text default ${code(32)}, form_id text, question_id text,
       question_text text, value_number numeric, choice text, submitted_year int);
     insert into intake_safe_harbor.answers (question_text, question_id, value_number, choice, submitted_year) values
       ('Weight', 'w', 99999999, 'of 1900', null), ('Weight', 'w', 100000000, 'a.b@c-d.e', null), ('Weight', 'w', null, 'is 123-45-6789', null),
       ('Hidden', 'h', 7, '12/13/99', null), ('Room', 'r', 7, 'in March', null), ('Room', 'r', null, '02139', null),
       ('Room', 'r', null, '1899-12', null), ('Room', 'r', null, 'of 1900', null), ('Room', 'r', null, 'of ${YEAR - 89}', null),
       ('Your town', 't', null, 'Ede', null), ('Town', 't', null, 'Ede', null), ('Room', 'r', null, '85', null),
       ('How old', 'o', null, '90+', null), ('How old', 'o', null, '89', null), ('How old', 'o', null, '1950', null), ('How old', 'o', null, '90', null),
       ('How old', 'o', null, '85', ${YEAR - 5}), ('How old', 'o', null, '84', ${YEAR - 5}),
       ('Winters', 'a', 91, '95', null), ('Winters', 'a', 90, null, ${YEAR}), ('Winters', 'a', 85, null, ${YEAR - 5}), ('Winters', 'a', 84, null, ${YEAR - 5})`,
  )
  // Of two teams: ten and eleven with a value, ten and eleven without.
  await query(
    url,
    `create table intake_safe_harbor.responses as
       select team::smallint as team_id, lpad(n::text, 32, '0') as patient, md5(form) as form_id, form, case when n <= few then true end as is_submitted,
         case when n > 10 then 1 end as visit, case when form = 'b' then n <= 11 end as is_archived, n <= 40 as is_skipped
       -- Two of each patient.
       from generate_series(1, 2) team, generate_series(1, 22) n, generate_series(1, 2), (values ('a', 10), ('b', 11), ('c', 12), ('d', 22)) own (form, few);
     create table intake_safe_harbor.patients as
       select 1::smallint as team_id, lpad(n::text, 32, '0') as patient, case when n > 5 then '40-49' end as age_band,
         case when n <= 20 then 'MA' when n <= 31 then 'NY' end as state, null::text as sex_at_birth, null::int as birth_year, null::text as zip3,
         array_remove(array['decided', case when n <= 10 then 'ten' end, case when n <= 11 then 'eleven' end, case when n <= 31 then 'lacked' end,
           case when n <= 30 then 'not lacked' end], null) as tags
       from generate_series(1, 41) n`,
  )
  // Of a form in two packets: each channel has twenty-two patients, eleven of each packet; statuses have ten of the first.
  await query(
    url,
    `create table intake_safe_harbor.message_outcomes as
       select 1::smallint as team_id, lpad(n::text, 32, '0') as patient, md5('f') as form_id, md5(packet) as packet_id,
         case when n <= 11 then 'email' else 'sms' end as channel, case when n <= few then 'sent' else 'failed' end as status
       from generate_series(1, 22) n, (values ('a', 10), ('b', 11)) own (packet, few);
     -- Without a status: all five of a packet; ten and eleven of a form; ten of messages for neither.
     insert into intake_safe_harbor.message_outcomes
       select 1, lpad(n::text, 32, '0'), md5(form), md5(packet), null, case when n <= few then 'sent' end
       from (values ('f', 'c', 0, 5), ('g', null, 12, 22), ('h', null, 11, 22), (null, null, 12, 22)) own (form, packet, few, people),
         generate_series(1, people) n`,
  )
  await query(
    url,
    `create table intake_analytics.mine as select ${code(64)} as patient, ${code(63)} as packet_id, 'a@b-c.de' as choice, 'is 123-45-6789' as value_text,
       'no@body' as row_text, 1 as city, 'x@y.zz' as form, '036' as zip3, now() as at, 'x' as target_email, 'x' as home_phone, 'x' as address2;
     create table intake_forms.mine as select 1::smallint as team_id, ${code(64)} as patient, 'r' as response_id, now() as submitted_at, true as is_submitted,
       now() as born, date '2026-01-01' as day, array['a@b.cc'] as words, '{"a": "a@b.cc"}'::jsonb as cells, 7 as year, '123-45-6789' as ssn, ${code(63)} as packet_id`,
  )
  await using session = await openSession({ url, purpose: 'privacy' })
  tiers = await measurePrivacy(session.db)
})
afterAll(() => warehouse.drop())

const columnsOf = (schema: string, view: string) =>
  tiers.find((tier) => tier.schema === schema)!.views.find((each) => each.view === view)!.columns
const broken = (schema: string, view: string) =>
  Object.fromEntries(
    columnsOf(schema, view)
      .filter((column) => column.broken > 0)
      .map((column) => [column.column, column.broken]),
  )
const under = (schema: string, view: string) =>
  Object.fromEntries(
    columnsOf(schema, view)
      .filter((column) => column.values_under !== null)
      .map((column) => [column.column, column.values_under]),
  )

it('each value that breaks the rule of its column counts, and no other', () => {
  const expected = Object.entries(RULES).map(([name, [, each]]) => [name, each.length] as const)
  // Each of the tags is one of few, too.
  const found = { ...broken('intake_safe_harbor', 'rules') }
  expect(found.tags).toBe(2 + 2)
  expect({ ...found, tags: 2 }).toEqual(Object.fromEntries(expected.filter(([, count]) => count > 0)))
  expect(columnsOf('intake_safe_harbor', 'rules').find(({ column }) => column === 'comment')!.rule).toBe(
    'no rule allows it',
  )
})

it('numbers and choices depend on the question, on the decision and on the years since', () => {
  const { choice, value_number } = broken('intake_safe_harbor', 'answers')
  // Each choice is one of few patients, too.
  expect({ choice: choice! - under('intake_safe_harbor', 'answers').choice!, value_number }).toEqual({
    choice: 11,
    value_number: 5,
  })
})

it('a value of ten patients counts, and so do ten patients without one', () => {
  expect(under('intake_safe_harbor', 'responses')).toEqual({
    ...{ form: 0, is_archived: 0, is_skipped: 0, visit: 0 },
    is_submitted: 2,
  })
  expect(broken('intake_safe_harbor', 'responses')).toEqual({ is_submitted: 2 + 2, visit: 8 })
})

it('outcomes of messages count within their packet, not only within their form', () => {
  expect(under('intake_safe_harbor', 'message_outcomes')).toEqual({ channel: 0, status: 1 })
  // And ten of a form without a status, where others have one.
  expect(broken('intake_safe_harbor', 'message_outcomes')).toEqual({ status: 1 + 1 })
})

it('of descriptions the smallest group is named, and the people in small ones counted; tags count that few have or lack', () => {
  const safe = tiers.find(({ schema }) => schema === 'intake_safe_harbor')!
  expect(safe.k_anonymity).toEqual({
    columns: ['age_band', 'birth_year', 'sex_at_birth', 'state', 'zip3'],
    k: 5,
    groups: 4,
    people_in_groups_under: 15,
  })
  expect(under('intake_safe_harbor', 'patients').tags).toBe(2)
  const inViews = safe.views.flatMap(({ columns }) => columns).reduce((sum, each) => sum + each.broken, 0)
  expect(safe.broken).toBe(inViews + 15)
})

it('a limited data set has no direct identifiers, and no addresses and numbers in answers', () => {
  expect(broken('intake_analytics', 'mine')).toEqual({
    choice: 1,
    value_text: 1,
    city: 1,
    zip3: 1,
    target_email: 1,
    home_phone: 1,
    address2: 1,
  })
  expect(broken('intake_forms', 'mine')).toEqual({ born: 1, day: 1, words: 1, cells: 1, ssn: 1 })
  expect(under('intake_forms', 'mine')).toEqual({ year: 1, ssn: 1 })
  expect(tiers.map(({ schema, tier, role }) => [schema, tier, role])).toEqual([
    ['intake_analytics', 'limited data set', 'intake_analyst'],
    ['intake_safe_harbor', 'safe harbor', 'intake_researcher'],
    ['intake_forms', 'limited data set', 'intake_analyst'],
    ['intake_exports', 'limited data set', 'intake_analyst'],
  ])
})
