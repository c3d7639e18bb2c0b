/** Questions of a form whose own record is not in the warehouse are listed, found and decided on by the id of the form. */
import { afterAll, beforeAll, expect, it } from 'vitest'
import {
  countQuestions,
  decide,
  decideForResearchers,
  listQuestions,
  nameConcept,
  noteQuestions,
  questionsOfText,
} from '../../src/analytics/classify.ts'
import { openSession, type Session } from '../../src/warehouse/connect.ts'
import { openWarehouse } from '../e2e/support/scene.ts'
import type { TestDatabase } from '../support/database.ts'

let warehouse: TestDatabase
let session: Session

beforeAll(async () => {
  warehouse = await openWarehouse()
  session = await openSession({ url: warehouse.url, purpose: 'classify' })
  await session.client.query(
    `insert into intake.teams (name) values ('south'), ('north');
     insert into intake.forms (team_id, id, name, _version, _origin) select team_id, 'known', 'Known', now(), 'test' from intake.teams;
     insert into intake.form_questions (team_id, form_id, position, question_id, question_type, text)
       select team_id, form, place, 'q' || place, type, 'Text ' || place from intake.teams, unnest('{known,lost}'::text[]) form,
         unnest('{number,short_text}'::text[]) with ordinality own (type, place)`,
  )
})
afterAll(async () => {
  await session.close()
  await warehouse.drop()
})

const linesOf = async (table: string, columns: string) =>
  (
    await session.client.query(
      `select concat_ws(' ', team_id, form_id, question_id, ${columns}) as line from ${table} order by 1`,
    )
  ).rows.map(({ line }) => line)

it('they are listed after those of forms with a name, and found by their text', async () => {
  const { db } = session
  const listed = await listQuestions(db, {})
  expect(listed.map((each) => [each.team, each.form_id, each.form, each.question_id].join(' '))).toEqual(
    ['north', 'south'].flatMap((team) => [
      ...['q1', 'q2'].map((id) => `${team} known Known ${id}`),
      ...['q1', 'q2'].map((id) => `${team} lost  ${id}`),
    ]),
  )
  const ofForm = await listQuestions(db, { teamId: 2, form: 'lost' })
  expect(ofForm.map(({ team, form_id, question_id }) => [team, form_id, question_id])).toEqual([
    ['north', 'lost', 'q1'],
    ['north', 'lost', 'q2'],
  ])
  const found = async (scope: { teamId?: number; form?: string }) =>
    (await questionsOfText(db, scope, 'Text 2')).map(({ teamId, form }) => `${teamId} ${form}`)
  expect(await found({})).toEqual(['1 known', '1 lost', '2 known', '2 lost'])
  expect(await found({ teamId: 1, form: 'lost' })).toEqual(['1 lost'])
  expect(await found({ form: 'Lost' })).toEqual([])
})

it('every kind of decision applies to them, and to questions of a named form only if it names that form', async () => {
  const { db } = session
  expect([await countQuestions(db, {}, 'q2'), await countQuestions(db, { form: 'lost' }, 'q2')]).toEqual([
    4, 2,
  ])
  expect(await decide(db, { teamId: 1, form: 'lost' }, 'q2', 'visible')).toBe(1)
  expect(await decide(db, { teamId: 2 }, 'q1', 'hidden')).toBe(2)
  expect(await linesOf('intake_ops.classifications', 'is_visible')).toEqual([
    ...['1 lost q2 t', '2 known q1 f', '2 lost q1 f'],
  ])
  expect(await decideForResearchers(db, { form: 'lost' }, 'q1', 'age')).toBe(2)
  expect(await decideForResearchers(db, { teamId: 2 }, 'q1', 'hidden')).toBe(2)
  expect(await linesOf('intake_ops.research_questions', 'shows')).toEqual([
    ...['1 lost q1 age', '2 known q1 hidden', '2 lost q1 hidden'],
  ])
  expect(await decideForResearchers(db, { teamId: 1 }, 'q1', 'structured')).toBe(2)
  expect(await linesOf('intake_ops.research_questions', 'shows')).toEqual([
    ...['2 known q1 hidden', '2 lost q1 hidden'],
  ])
  await nameConcept(db, { form: 'lost' }, 'q1', 'weight')
  await nameConcept(db, { teamId: 2, form: 'Known' }, 'q1', 'other')
  await nameConcept(db, { teamId: 1 }, 'q1', '')
  expect(await linesOf('intake_raw.question_concepts', 'concept')).toEqual([
    ...['2 known q1 other', '2 lost q1 weight'],
  ])
})

it('"structured" shows answers of structured types only: choices, numbers and ticks', async () => {
  const { db, client } = session
  const types = [
    'dropdown',
    'number',
    'checkbox',
    'date',
    'short_text',
    'matrix',
    'file',
    'signature',
    'other',
  ]
  await client.query(
    `insert into intake.form_questions (team_id, form_id, position, question_id, question_type, text)
       select 1, 'kinds', place, type, type, type from unnest($1::text[]) with ordinality own (type, place)`,
    [types],
  )
  for (const type of types) expect(await decide(db, { form: 'kinds' }, type, 'structured')).toBe(1)
  const { rows } = await client.query(
    `select question_id, is_visible, by_type, decided_by from intake_ops.classifications where form_id = 'kinds'`,
  )
  expect(rows.map(({ by_type, decided_by }) => `${by_type} ${decided_by}`)).toEqual(
    types.map(() => 'true person'),
  )
  expect(rows.flatMap(({ question_id, is_visible }) => (is_visible ? [question_id] : [])).sort()).toEqual([
    ...['checkbox', 'dropdown', 'number'],
  ])
})

it('a reworded question that stays hidden by its type is recorded with its new wording, and needs no decision', async () => {
  const { db, client } = session
  await client.query(
    `insert into intake.form_questions (team_id, form_id, position, question_id, question_type, text)
       select team_id, 'noted', place, 'n' || place, type, 'Text ' || place
       from intake.teams, unnest('{number,short_text}'::text[]) with ordinality own (type, place)`,
  )
  const notes = async () => {
    await noteQuestions(db)
    const { rows } = await client.query(
      `select concat_ws(' ', team_id, question_id, count(*), bool_or(is_visible), string_agg(distinct decided_by, ',')) as line
       from intake_ops.classifications where form_id = 'noted' group by team_id, question_id order by 1`,
    )
    return rows.map(({ line }) => line)
  }
  const first = ['1 n1 1 t type', '1 n2 1 f type', '2 n1 1 t type', '2 n2 1 f type']
  expect(await notes()).toEqual(first)
  await client.query(
    `update intake.form_questions set text = 'New ' || text where form_id = 'noted' and team_id = 2`,
  )
  // A number was shown: it waits. A text stays hidden, so there is nothing to decide.
  expect(await notes()).toEqual([...first.slice(0, 3), '2 n2 2 f type'])
  const { rows } = await client.query(
    `select concat_ws(' ', team_id, question_id, waits, decided_by) as line from intake.questions
     where form_id = 'noted' and is_asked order by 1`,
  )
  expect(rows.map(({ line }) => line)).toEqual(['1 n1 f type', '1 n2 f type', '2 n1 t', '2 n2 f type'])
})
