/** Questions and charts over two teams with the same forms, each figure counted by hand. */
import { afterAll, beforeAll, expect, it } from 'vitest'
import { openWarehouse, query } from '../../e2e/support/scene.ts'
import { plain, type Reader, startConsole, tableIn, whole } from '../support/console.ts'

let warehouse: Awaited<ReturnType<typeof openWarehouse>>
let page: Awaited<ReturnType<typeof startConsole>>
let operator: Reader

/**
 * Responses of form f: r1 submitted after 2 hours, r2 after 30 minutes, r3 skipped, r4 open; of form g: r5 open. South has r1,
 * which took 4 hours, and r6, skipped. Messages ask for r1 (10 days ago), r2 (8 days ago), r4 and r5 (9 days, and an hour ago).
 */
const PLANTED = `
  insert into intake.teams (name) values ('north'), ('south');
  insert into intake.forms (team_id, id, name, _version, _origin) select team_id, id, title, now(), 'test'
    from intake.teams, (values ('f', 'Form'), ('g', null)) as form (id, title);
  insert into intake.form_questions (team_id, form_id, position, question_id, question_type, text)
    select team_id, form, n, 'q' || n, type, text from intake.teams, (values ('f', 1, 'short_text', 'Why, then?'), ('f', 2, 'number', 'How many?'),
      ('f', 3, 'number', ' '), ('g', 1, 'short_text', 'Other'), ('g', 2, 'long_text', 'Story')) as question (form, n, type, text);
  insert into intake.responses (team_id, id, patient_id, form_id, is_submitted, is_skipped, created_at, updated_at, submitted_at, _version, _origin)
    select team, id, 'p' || id, form, minutes is not null, skipped, asked, asked, asked + minutes * interval '1 minute', now(), 'test'
    from (values (1, 'r1', 'f', 120, null, now() - interval '10 days'), (1, 'r2', 'f', 30, null, now() - interval '8 days'),
      (1, 'r3', 'f', 1, true, now() - interval '8 days'), (1, 'r4', 'f', null, null, now() - interval '9 days'),
      (1, 'r5', 'g', null, null, now() - interval '1 hour'), (2, 'r1', 'f', 240, null, now() - interval '8 days'),
      (2, 'r6', 'f', 1, true, now() - interval '8 days'))
      as response (team, id, form, minutes, skipped, asked);
  insert into intake.messages (team_id, id, patient_id, form_id, preferred_delivery_method, sent_at, _version, _origin)
    select team_id, 'm' || id, patient_id, form_id, case when id = 'r5' then null when id = 'r2' then 'SMS' else 'email' end, created_at, now(), 'test'
    from intake.responses where team_id = 1 and id <> 'r3';
  insert into intake.messages (team_id, id, patient_id, form_id, preferred_delivery_method, _version, _origin)
    values (1, 'never sent', 'pr1', 'f', 'email', now(), 'test');
  insert into intake.response_answers (team_id, response_id, position, value_position, question_id, value_text) values
    (1, 'r1', 1, 1, 'q1', 'a'), (1, 'r1', 1, 2, 'q1', 'b'), (1, 'r1', 2, 1, 'q2', '3'), (1, 'r1', 2, 2, 'q2', '4'), (1, 'r2', 1, 1, 'q1', 'c'), (1, 'r2', 2, 1, 'q2', ''),
    (1, 'r1', 4, 1, null, 'd'), (2, 'r1', 1, 1, 'q1', 'e'), (1, 'r4', 2, 1, 'q2', '5'), (1, 'r1', 3, 1, 'q3', ''), (1, 'r2', 3, 1, 'q3', '');
  insert into intake_ops.drift (team_id, stream, path, type, count, last_seen)
    select team_id, 'patients', 'field of ' || name, 'string', 3, now() - (3 - team_id) * interval '1 hour' from intake.teams;
  insert into intake_raw.wide_views (team_id, kind, subject_id, view_name, signature)
    select team_id, 'form', 'f', name || '_f', '' from intake.teams;
  insert into intake_raw.wide_views (team_id, kind, subject_id, view_name, signature) values (1, 'export', 'f', 'of_an_export', '');
  insert into intake_raw.wide_columns (team_id, kind, subject_id, place, column_name, question_id, data_type, is_array)
    values (1, 'form', 'f', 1, 'a', 'q1', 'text', false), (1, 'form', 'f', 2, 'b', 'q2', 'text', false), (2, 'form', 'f', 1, 'a', 'q1', 'text', false),
      (1, 'export', 'f', 1, 'a', 'q1', 'text', false), (1, 'export', 'f', 2, 'b', 'q2', 'text', false), (1, 'export', 'f', 3, 'c', 'q3', 'text', false)`

beforeAll(async () => {
  warehouse = await openWarehouse()
  await query(warehouse.url, PLANTED)
  page = await startConsole(warehouse.url)
  operator = await page.enter('operator')
})
afterAll(async () => {
  await page?.close()
  await warehouse?.drop()
})

it('each question has the answers of its own team; filters combine, and forms that hide most come first', async () => {
  const html = await whole(operator, '/questions')
  expect(tableIn(html, 'Questions').toSorted()).toEqual([
    'Form (no text) number 0 structured type q3',
    'Form (no text) number 0 structured type q3',
    'Form How many? number 0 structured type q2',
    'Form How many? number 2 structured type q2',
    'Form Why, then? short_text 1 nothing new or changed q1',
    'Form Why, then? short_text 2 nothing new or changed q1',
    ...['g Other short_text 0 nothing new or changed q1', 'g Other short_text 0 nothing new or changed q1'],
    ...['g Story long_text 0 nothing new or changed q2', 'g Story long_text 0 nothing new or changed q2'],
  ])
  expect(tableIn(html, 'Forms').map((row) => row.split(' ').slice(-3).join(' '))).toEqual([
    ...['2 0 0', '2 0 0', '1 2 0', '1 2 0'],
  ])
  const asked = async (of: Record<string, string>) =>
    tableIn(await whole(operator, `/questions?${new URLSearchParams(of)}`), 'Questions').length
  expect([
    await asked({ text: 'HOW' }),
    await asked({ form: 'f' }),
    await asked({ form: 'Form', shows: 'nothing' }),
    await asked({ form: 'g', text: 'why' }),
    await asked({ shows: 'everything' }),
  ]).toEqual([2, 6, 2, 0, 0])
  expect(tableIn(html, 'Drift').map((row) => row.split(' ').slice(0, 6).join(' '))).toEqual([
    'south/patients field of south string 3',
    'north/patients field of north string 3',
  ])
  expect(tableIn(html, 'Wide views').map((row) => row.replace(/ \d{4}-.*/, ''))).toEqual([
    expect.stringMatching(/^north \S+\.of_an_export export f 3$/),
    expect.stringMatching(/^north \S+\.north_f form f 2$/),
    expect.stringMatching(/^south \S+\.south_f form f 1$/),
  ])
})

it('a decision reaches the chosen question of its team and form, and no other', async () => {
  const question = JSON.stringify(['south', 'f', 'q1'])
  const done = await operator.post('/questions/decide', { question, visibility: 'visible' })
  expect(plain(done.text)).toContain('1 question decided on')
  const shown = `select team.name as team, form_id as form, question_id as id from intake.questions join intake.teams team using (team_id)
    where shows = 'everything'`
  expect(await query(warehouse.url, shown)).toEqual([{ team: 'south', form: 'f', id: 'q1' }])
  // Of the same question twice, the last entry counts.
  const twice = ['structured', 'hidden'].map(
    (each) => ['restore', JSON.stringify(['south', 'f', 'q1', each])] as const,
  )
  expect(plain((await operator.post('/questions/decide', twice)).text)).toContain('1 question as before')
  expect(await query(warehouse.url, shown)).toEqual([])
  const decided = `select decision.* from intake_ops.audit, jsonb_to_record(detail) as decision (count int, visibility text, structured int, hidden int)
    where action = 'classify' order by audit_id`
  expect(await query(warehouse.url, decided)).toEqual([
    { count: 1, visibility: 'visible', structured: 0, hidden: 0 },
    { count: 1, visibility: 'as before', structured: 0, hidden: 1 },
  ])
})

it('insights count what was asked, submitted, skipped and answered, and how soon', async () => {
  const html = await whole(operator, '/insights')
  // The longer of the two teams' medians.
  expect(tableIn(html, 'Completion by form')).toEqual(['Form 6 3 2 75 % 4.0', 'g 1 0 0 0 % –'])
  expect(tableIn(html, 'Time to submission')).toEqual([
    ...[
      'within an hour 1',
      'within 6 hours 1',
      'within a day 0',
      'within 3 days 0',
      'within a week 0',
      'later 0',
    ],
  ])
  expect(tableIn(html, 'No-shows by channel')).toEqual(['email 2 1 50 %', 'sms 1 0 0 %', 'unknown 0 0 –'])
  expect(tableIn(html, 'Messages by channel')).toEqual([
    'email 2 50 % 50 % 50 % 2.0',
    'sms 1 100 % 100 % 0 % 0.5',
    'unknown 1 0 % 0 % 100 % –',
  ])
  expect(tableIn(html, 'Questions left out')).toEqual([
    'Form (no text) 2 100 %',
    'Form How many? 2 50 %',
    'Form Why, then? 2 0 %',
    'Form Why, then? 1 0 %',
  ])
  const weeks = tableIn(html, 'Weekly volume').map((row) => row.split(' '))
  expect(weeks.map(([week]) => week)).toEqual(weeks.map(([week]) => week).toSorted())
  const sum = (at: number) => weeks.reduce((total, week) => total + Number(week[at]), 0)
  expect([sum(1), sum(2), sum(3)]).toEqual([7, 3, 4])
})

it('times to submission are counted by their upper bounds, which belong to the next; weeks are those of a year', async () => {
  const minutes = [59, 60, 359, 360, 1_439, 1_440, 4_319, 4_320, 10_079, 10_080]
  await query(
    warehouse.url,
    `insert into intake.teams (name) values ('west');
     insert into intake.responses (team_id, id, patient_id, form_id, is_submitted, created_at, updated_at, submitted_at, _version, _origin)
       select 3, 'r' || n, 'p' || n, 'f', true, sent, sent, sent + n * interval '1 minute', now(), 'test'
       from unnest('{${minutes}}'::int[]) n, lateral (select now() - interval '20 days' - n * interval '1 second' as sent) as asked;
     insert into intake.messages (team_id, id, patient_id, form_id, preferred_delivery_method, sent_at, _version, _origin)
       select team_id, 'm' || id, patient_id, form_id, 'email', created_at, now(), 'test' from intake.responses where team_id = 3;
     insert into intake.responses (team_id, id, patient_id, form_id, created_at, updated_at, _version, _origin)
       values (3, 'old', 'old', 'f', now() - interval '370 days', now(), now(), 'test'), (3, 'year', 'old', 'f', now() - interval '360 days', now(), now(), 'test')`,
  )
  await using own = await startConsole(warehouse.url)
  const html = await whole(await own.enter('viewer'), '/insights')
  expect(tableIn(html, 'Time to submission').map((row) => Number(row.split(' ').at(-1)))).toEqual([
    ...[2, 3, 2, 2, 2, 1],
  ])
  const weeks = tableIn(html, 'Weekly volume').map((row) => row.split(' '))
  const ago = (Date.now() - Date.parse(weeks[0]![0]!)) / 86_400_000
  expect([ago >= 359, ago < 369, weeks[0]![1]]).toEqual([true, true, '1'])
})

it('of more questions than a page or an action has room for, the first are listed, and all are counted', async () => {
  await query(
    warehouse.url,
    `insert into intake.form_questions (team_id, form_id, position, question_id, question_type, text)
     select 2, 'many', n, repeat('m', case when n <= 12 then 200 else 1 end) || n, 'short_text', 'Number ' || n from generate_series(1, 501) n`,
  )
  await using own = await startConsole(warehouse.url)
  const html = await whole(await own.enter('viewer'), '/questions?form=many')
  expect(plain(html)).toContain('The first 500 of 501')
  expect(tableIn(html, 'Questions')).toHaveLength(500)

  // An audited action names as many questions as there is room for, and counts the others.
  const ids = Array.from({ length: 12 }, (_, at) => `${'m'.repeat(200)}${at + 1}`)
  const question = ids.map((id) => JSON.stringify(['south', 'many', id]))
  const chosen = question.map((each) => ['question', each] as const)
  const done = await operator.post('/questions/decide', [...chosen, ['visibility', 'hidden']])
  expect(plain(done.text)).toContain('12 questions decided on')
  const [audited] = await query<{ object: string }>(
    warehouse.url,
    `select object from intake_ops.audit where action = 'classify' order by audit_id desc limit 1`,
  )
  const [, named, more] = /^(.*) and (\d+) more$/.exec(audited!.object)!
  expect(named).toBe(question.slice(0, 12 - Number(more)).join(' '))
  expect([named!.length <= 2_000, named!.length > 1_750]).toEqual([true, true])
})
