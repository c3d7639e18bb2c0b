/** The privacy report of several teams, of views that are stored, and of what only researchers must not see. */
import { afterAll, beforeAll, expect, it } from 'vitest'
import { measurePrivacy, type TierReport } from '../../src/analytics/privacy.ts'
import { openSession } from '../../src/warehouse/connect.ts'
import { openWarehouse, query } from '../e2e/support/scene.ts'
import type { TestDatabase } from '../support/database.ts'

let warehouse: TestDatabase
let tiers: readonly TierReport[]

/** Patients of a team, in place of the view; the id has the length that the tier requires. */
const patients = (schema: string, length: number) => `
  create table ${schema}.patients as
    select team::smallint as team_id, lpad((team * 100 + n)::text, ${length}, '0') as patient, null::text as age_band,
      null::int as birth_year, null::text as zip3, 'MA'::text as state, null::text as sex_at_birth,
      case when team = 1 then array['decided'] else array[]::text[] end as tags
    from (values (1, 30), (2, 5)) own (team, people), generate_series(1, people) n`

beforeAll(async () => {
  warehouse = await openWarehouse()
  const { url } = warehouse
  for (const schema of ['intake_safe_harbor', 'intake_analytics', 'intake_forms'])
    await query(url, `drop schema ${schema} cascade; create schema ${schema}`)
  await query(
    url,
    `insert into intake.teams (name) values ('a'), ('b');
     insert into intake_ops.research_tags (team_id, name) values (1, 'decided');
     ${patients('intake_safe_harbor', 32)};
     ${patients('intake_analytics', 64)};
     create materialized view intake_analytics.kept as
       select 1::smallint as team_id, lpad('1', 64, '0') as patient, 'a@b-c.de' as choice, 'Ulm' as city;
     create table intake_forms.mine as
       select 1::smallint as team_id, lpad(n::text, 64, '0') as patient, n <= 10 as agrees, true as asked, n <= 10 as is_submitted
       from generate_series(1, 30) n`,
  )
  // Ten of thirty have one year, twenty another, and eight none; the same in each tier.
  for (const [schema, length] of [
    ['intake_safe_harbor', 32],
    ['intake_analytics', 64],
  ] as const)
    await query(
      url,
      `create table ${schema}.responses as
         select team::smallint as team_id, lpad((team * 100 + n)::text, ${length}, '0') as patient, lpad('f', ${length}, 'a') as form_id,
           'Form'::text as form, case when n <= 10 then extract(year from now())::int when n <= 30 then extract(year from now())::int - 1 end as created_year
         from generate_series(1, 2) team, generate_series(1, 38) n`,
    )
  await using session = await openSession({ url, purpose: 'privacy' })
  tiers = await measurePrivacy(session.db)
})
afterAll(() => warehouse.drop())

const tierOf = (schema: string) => tiers.find((tier) => tier.schema === schema)!
const figures = (schema: string, view: string) =>
  tierOf(schema)
    .views.find((each) => each.view === view)!
    .columns.filter(({ broken, values_under }) => broken > 0 || values_under !== null)
    .map(({ column, broken, values_under }) => [column, broken, values_under])

it('values, and patients without a value, are counted per team; small groups break a rule only in the Safe Harbor tier', () => {
  // In both teams: a year of ten, and eight without one.
  expect(figures('intake_safe_harbor', 'responses')).toEqual([
    ['form', 0, 0],
    ['created_year', 2 + 2, 2],
  ])
  expect(figures('intake_analytics', 'responses')).toEqual([
    ['form', 0, 0],
    ['created_year', 0, 2],
  ])
})

it('a tag that everybody of a team has is not one that the patients of another team lack', () => {
  expect(figures('intake_safe_harbor', 'patients').filter(([column]) => column === 'tags')).toEqual([
    ['tags', 0, 0],
  ])
})

it('people of different teams are never in one group; small groups break a rule only in the Safe Harbor tier', () => {
  for (const schema of ['intake_safe_harbor', 'intake_analytics'])
    expect(tierOf(schema).k_anonymity).toMatchObject({ k: 5, groups: 2, people_in_groups_under: 5 })
  const inViews = (schema: string) =>
    tierOf(schema)
      .views.flatMap(({ columns }) => columns)
      .reduce((sum, each) => sum + each.broken, 0)
  expect(tierOf('intake_safe_harbor').broken).toBe(inViews('intake_safe_harbor') + 5)
  expect(tierOf('intake_analytics').broken).toBe(inViews('intake_analytics'))
})

it('a materialized view is measured too, and so is every yes or no answer of a wide view', () => {
  expect(tierOf('intake_analytics').views.map(({ view, rows }) => [view, rows])).toEqual([
    ...[
      ['kept', 1],
      ['patients', 35],
      ['responses', 76],
    ],
  ])
  expect(figures('intake_analytics', 'kept')).toEqual([
    ['choice', 1, null],
    ['city', 1, null],
  ])
  expect(figures('intake_forms', 'mine')).toEqual([
    ['agrees', 0, 1],
    ['asked', 0, 0],
  ])
})
