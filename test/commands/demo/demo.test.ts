/** Parts of the demo: it empties only its own warehouse, counts what was written, and what it prints can be used. */
import { resolve } from 'node:path'
import { afterAll, afterEach, beforeAll, expect, it, vi } from 'vitest'
import { queryAsAnalyst } from '../../../src/commands/demo/analyst.ts'
import * as say from '../../../src/commands/demo/text.ts'
import {
  claimWarehouse,
  demoDirectory,
  markNow,
  rowVersionsSince,
} from '../../../src/commands/demo/warehouse.ts'
import { openSession, type Session } from '../../../src/warehouse/connect.ts'
import { connect, openWarehouse, query } from '../../e2e/support/scene.ts'

let warehouse: Awaited<ReturnType<typeof openWarehouse>>
let session: Session

const PLANTED = `
  insert into intake.teams (name) values ('demo');
  insert into intake.patients (team_id, id, last_name, city, zipcode, date_birth, _version, _origin, _deleted_at)
    select 1, id, name, city, zip, (now() at time zone 'UTC')::date - years * interval '1 year' - interval '9 days', now(), 'x', gone::timestamptz from (values
      ('p1', 'A', 'Ulm', '03601', 25, null), ('p2', 'B', null, '94107', 27, null), ('p5', 'C', null, '05999', 61, null),
      ('p3-is-longer', null, null, null, 33, '2026-01-05T02:03:04Z'), ('p0', null, null, null, 33, '2026-01-06')) r (id, name, city, zip, years, gone);
  insert into intake.patient_tags (team_id, patient_id, position, name) values
    (1, 'p1', 1, 'red'), (1, 'p2', 1, 'red'), (1, 'p2', 2, 'blue'), (1, 'p2', 3, 'red'), (1, 'p3-is-longer', 1, 'red');
  insert into intake.forms (team_id, id, name, _version, _origin, _deleted_at) values
    (1, 'f', 'Insurance', now(), 'x', null), (1, 'g', 'Mood check', now(), 'x', null), (1, 'h', 'Insurance', now(), 'x', now());
  insert into intake.form_questions (team_id, form_id, position, question_id, question_type, text) values
    (1, 'f', 2, 'q2', 'number', 'How many?'), (1, 'f', 1, 'q1', 'single_choice', 'Who?'), (1, 'f', 3, 'q4', 'short_text', 'Why?'), (1, 'f', 4, 'q6', 'short_text', 'What else?'),
    (1, 'g', 1, 'q3', 'single_choice', 'How?'), (1, 'h', 1, 'q5', 'number', 'Not this');
  insert into intake.question_choices (team_id, form_id, question_position, question_id, position, choice_id, text) values
    (1, 'f', 1, 'q1', 2, 'b', 'B'), (1, 'f', 1, 'q1', 1, 'a', 'A'), (1, 'f', 2, 'q2', 1, 'c', 'C'),
    (1, 'g', 1, 'q3', 1, 'd', 'Fine'), (1, 'g', 1, 'q3', 2, 'e', 'Bad'), (1, 'g', 1, 'q3', 3, 'f', 'So so');
  insert into intake.packets (team_id, id, name, _version, _origin) values (1, 'k', 'Packet', now(), 'x'), (1, 'l', 'Another', now(), 'x');
  insert into intake.packet_forms (team_id, packet_id, position, form_id) values (1, 'k', 2, 'f'), (1, 'k', 1, 'g'), (1, 'l', 1, 'g');
  insert into intake.messages (team_id, id, patient_id, form_id, preferred_delivery_method, sent_at, _version, _origin)
    select 1, id, patient, 'g', method, sent::timestamptz, now(), 'x' from (values
      ('m1', 'p1', 'sms', '2026-01-01'), ('m2', 'p2', 'email', '2026-01-01'), ('m3', 'p5', 'email', '2026-01-01'), ('m4', 'p1', 'email', null), ('m5', 'p0', 'email', '2026-01-01')) r (id, patient, method, sent);
  insert into intake.responses (team_id, id, patient_id, form_id, is_submitted, created_at, updated_at, submitted_at, _version, _origin)
    select 1, id, patient, form, done, '2026-01-02', '2026-01-03', case when done then '2026-01-03'::timestamptz end, now(), 'x' from (values
      ('r1', 'p1', 'g', true), ('r2', 'p2', 'g', true), ('r3', 'p5', 'g', false), ('r4', 'p1', 'f', true)) r (id, patient, form, done);
  insert into intake.response_answers (team_id, response_id, position, value_position, question_id, question_text, value_text) values
    (1, 'r1', 1, 1, 'q3', 'How?', 'Fine'), (1, 'r1', 1, 2, 'q3', 'How?', 'Bad'), (1, 'r1', 2, 1, 'q3', 'How?', 'Fine'), (1, 'r2', 1, 1, 'q3', 'How?', 'So so'),
    (1, 'r3', 1, 1, 'q3', 'How?', 'Fine'), (1, 'r2', 1, 2, 'q3', 'How?', 'my own words'), (1, 'r4', 1, 1, 'q1', 'Who?', 'A');
  insert into intake_raw.records (team_id, stream, id, version, observed_at, hash, origin, deleted, payload)
    select 1, stream, id, '2026-01-02', '2026-01-02', '', 'new', gone, jsonb_build_object('city', city, 'address', '1 Road') from (values
      ('patients', 'p1', false, 'Ulm'), ('patients', 'p2', false, 'Ulm'), ('patients', 'p5', false, 'Ulm'), ('patients', 'p0', true, 'Gone'), ('forms', 'f', false, 'Ulm')) r (stream, id, gone, city);
  insert into intake_raw.record_history (team_id, stream, id, version, observed_at, deleted, hash, origin, payload)
    select 1, stream, id, '2026-01-01 00:00:00.5', '2026-01-01', false, '', 'old', jsonb_build_object('city', city) from (values
      ('patients', 'p1', 'Bonn'), ('patients', 'p2', 'Ulm'), ('patients', 'p5', 'Bonn'), ('patients', 'p0', 'Bonn'), ('forms', 'f', 'Bonn')) r (stream, id, city)`

beforeAll(async () => {
  warehouse = await openWarehouse()
  session = await openSession({ url: warehouse.url, purpose: 'demo' })
  await query(warehouse.url, PLANTED)
  // Reworded since it was decided on.
  await query(
    warehouse.url,
    `insert into intake_ops.classifications (team_id, form_id, question_id, wording, is_visible, decided_by)
       select 1, form_id, question_id, intake_ops.wording(question_type, text), true, 'person' from intake.form_questions where question_id = 'q4'`,
  )
  await query(warehouse.url, `update intake.form_questions set text = 'Why not?' where question_id = 'q4'`)
})
afterAll(async () => {
  await session?.close()
  await warehouse?.drop()
})
afterEach(() => {
  vi.restoreAllMocks()
})

it('its queries answer their questions', async () => {
  const answers = []
  for (const each of say.DEMO_QUERIES) answers.push((await say.runQuery(session, each)).rows)
  expect(answers).toEqual([
    [
      ['red', 2],
      ['(no tag)', 1],
      ['blue', 1],
    ],
    [
      [1, 'Who?', 'single_choice', 'A|B'],
      [2, 'How many?', 'number', 'C'],
      [3, 'Why not?', 'short_text', ''],
      [4, 'What else?', 'short_text', ''],
    ],
    [
      ['Another', 'Mood check'],
      ['Packet', 'Mood check; Insurance'],
    ],
    [
      ['p0', '2026-01-06 00:00:00', '(null)', '(null)', 0],
      ['p3-is-lo', '2026-01-05 02:03:04', '(null)', '(null)', 1],
    ],
    [
      ['00:00:00.500000', 'old', '', 'Bonn'],
      ['00:00:00.000000', 'new', '1 Road', 'Ulm'],
    ],
  ])
})

it('an analyst gets every answer and no name, and the session is its own again afterwards', async () => {
  const { answers, refused } = await queryAsAnalyst(session)
  expect(answers.map(({ question, columns, rows }) => [question, columns, ...rows])).toEqual([
    [
      ...['How old are the patients, and how many live in an area of few?'],
      ...[
        ['age_band', 'patients', 'in_small_areas'],
        ['20-29', 2, 1],
        ['60-69', 1, 1],
      ],
    ],
    [
      ...['Of the forms that were asked for by message, how many were answered?'],
      ...[
        ['channel', 'sent', 'opened', 'answered'],
        ['email', 3, 2, 1],
        ['sms', 1, 1, 1],
      ],
    ],
    [
      ...['How often was each choice of the form "Mood check" taken?'],
      ...[
        ['choice', 'times', 'patients'],
        ['Fine', 3, 2],
        ['Bad', 1, 1],
        ['So so', 1, 1],
      ],
    ],
    [
      ...['Which answers to "Insurance" are shown, and which wait for a decision?'],
      ...[
        ['question', 'type', 'answers', 'waits'],
        ['Who?', 'single_choice', 'shown', ''],
      ],
      ...[
        ['How many?', 'number', 'shown', ''],
        ['Why not?', 'short_text', 'hidden', 'since it was reworded'],
      ],
      ['What else?', 'short_text', 'hidden', ''],
      ['Not this', 'number', 'shown', ''],
    ],
  ])
  expect(refused).toMatchObject({ reason: expect.stringContaining('permission denied') })
  await query(
    warehouse.url,
    'grant usage on schema intake to intake_analyst; grant select on intake.patients to intake_analyst',
  )
  await expect(queryAsAnalyst(session)).rejects.toThrow('an analyst could read names')
  // Only a refusal is one.
  await query(warehouse.url, 'alter table intake.patients rename column last_name to other')
  await expect(queryAsAnalyst(session)).rejects.toThrow('does not exist')
  await query(warehouse.url, 'alter table intake.patients rename column other to last_name')
  await query(
    warehouse.url,
    'revoke usage on schema intake from intake_analyst; revoke select on intake.patients from intake_analyst',
  )
  const { rows } = await session.client.query('select current_user = session_user as own')
  expect(rows).toEqual([{ own: true }])
})

it('row versions are those written since, of tables that an unchanged source leaves alone', async () => {
  const mark = await markNow(session)
  expect(await rowVersionsSince(session, mark)).toBe(0)
  await query(
    warehouse.url,
    `update intake.patients set city = city where id in ('p1', 'p2'); update intake_raw.records set origin = origin where id = 'p1';
     update intake.teams set name = name; insert into intake_ops.audit (login, action, object) values ('a', 'b', 'c')`,
  )
  expect(await rowVersionsSince(session, mark)).toBe(3)
})

it('the transaction whose number is the mark counts too', async () => {
  await query(warehouse.url, `update intake.patients set city = city where id = 'p1'`)
  const numbers = `select xmin::text as mark from intake.patients where id = 'p1'`
  const [own] = await query<{ mark: string }>(warehouse.url, numbers)
  expect(await rowVersionsSince(session, own!.mark)).toBe(1)
})

it('a warehouse with another team is refused and stays; so is one in which another demo runs', async () => {
  const claim = () => claimWarehouse(session, warehouse.url, { dataDir: '/d-demo', analyticsKey: null })
  await query(warehouse.url, `insert into intake.teams (name) values ('clinic')`)
  const foreign = {
    ...{ code: 'data_dir_unusable', verdict: 'stop', variable: 'INTAKE_DATA_DIR' },
    message: '/d-demo contains a warehouse that is not the demo’s, and the demo would empty it',
    hint: 'set INTAKE_DATA_DIR to another directory; the demo uses a sibling of it whose name ends with -demo',
  }
  await expect(claim()).rejects.toMatchObject(foreign)
  const other = await connect(warehouse.url)
  await session.client.query('select pg_advisory_unlock_all()')
  await other.query(`select pg_advisory_lock(7204312, hashtext('demo'))`)
  // One that ends in time is waited for.
  const asked = vi.spyOn(session.client, 'query')
  const waiting = claim()
  await vi.waitFor(() => expect(asked).toHaveBeenCalled())
  await asked.mock.results[0]!.value
  await other.query('select pg_advisory_unlock_all()')
  await expect(waiting).rejects.toMatchObject(foreign)
  await session.client.query('select pg_advisory_unlock_all()')
  await other.query(`select pg_advisory_lock(7204312, hashtext('demo'))`)
  let now = 0
  vi.spyOn(Date, 'now').mockImplementation(() => (now += 2_600))
  await expect(claim()).rejects.toMatchObject({
    ...{ code: 'held_by_another_run', verdict: 'stop', message: 'another demo is running in /d-demo' },
    hint: 'end it with Ctrl-C, or run this one with another INTAKE_DATA_DIR',
  })
  await other.end()
  expect(await query(warehouse.url, 'select count(*)::int as patients from intake.patients')).toEqual([
    { patients: 5 },
  ])
  expect([demoDirectory('/data'), demoDirectory('data')]).toEqual(['/data-demo', resolve('data-demo')])
})

it('of a warehouse that was set up in part its own schemas are emptied, others stay', async () => {
  await query(
    warehouse.url,
    'drop table intake.teams cascade; create schema intake_former; create schema intakes; create table intakes.mine ()',
  )
  const nowhere = 'postgres://nobody@127.0.0.1:1/never'
  await expect(
    claimWarehouse(session, nowhere, { dataDir: '/d-demo', analyticsKey: null }),
  ).rejects.toMatchObject({ code: 'warehouse_unreachable' })
  expect(await query(warehouse.url, `select nspname from pg_namespace where nspname ~ 'intake'`)).toEqual([
    { nspname: 'intakes' },
  ])
  // A failure of the warehouse is one, with its hint.
  await session.client.query('create schema intake; create table intake.teams ()')
  await expect(
    claimWarehouse(session, nowhere, { dataDir: '/d-demo', analyticsKey: null }),
  ).rejects.toMatchObject({ code: 'other_schema' })
})
