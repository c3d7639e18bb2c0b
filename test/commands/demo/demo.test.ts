/** Parts of the demo: it empties only its own warehouse, counts what was written, and what it prints can be used. */
import { afterAll, afterEach, beforeAll, expect, it, vi } from 'vitest'
import { queryAsAnalyst } from '../../../src/commands/demo/analyst.ts'
import { advanceWorld, countRecords } from '../../../src/commands/demo/service.ts'
import * as say from '../../../src/commands/demo/text.ts'
import {
  claimWarehouse,
  demoDirectory,
  markNow,
  rowVersionsSince,
} from '../../../src/commands/demo/warehouse.ts'
import { startEmulator } from '../../../src/emulator/server.ts'
import { openSession, type Session } from '../../../src/warehouse/connect.ts'
import { connect, openWarehouse, query } from '../../e2e/support/scene.ts'

let warehouse: Awaited<ReturnType<typeof openWarehouse>>
let session: Session

const PLANTED = `
  insert into intake.teams (name) values ('demo');
  insert into intake.patients (team_id, id, last_name, city, _version, _origin, _deleted_at) values
    (1, 'p1', 'A', 'Ulm', '2026-01-02', 'x', null), (1, 'p2', 'B', null, now(), 'x', null),
    (1, 'p3-is-longer', null, null, now(), 'x', '2026-01-05T02:03:04Z');
  insert into intake.patient_tags (team_id, patient_id, position, name) values (1, 'p1', 1, 'red'), (1, 'p2', 1, 'red'), (1, 'p3-is-longer', 1, 'red');
  insert into intake.forms (team_id, id, name, _version, _origin) values (1, 'f', 'Insurance', now(), 'x'), (1, 'g', 'Other', now(), 'x');
  insert into intake.form_questions (team_id, form_id, position, question_id, question_type, text) values
    (1, 'f', 2, 'q2', 'number', 'How many?'), (1, 'f', 1, 'q1', 'single_choice', 'Who?'), (1, 'g', 1, 'q3', 'number', 'Not this');
  insert into intake.question_choices (team_id, form_id, question_position, position, choice_id, text) values (1, 'f', 1, 2, 'b', 'B'), (1, 'f', 1, 1, 'a', 'A');
  insert into intake.packets (team_id, id, name, _version, _origin) values (1, 'k', 'Packet', now(), 'x');
  insert into intake.packet_forms (team_id, packet_id, position, form_id) values (1, 'k', 2, 'f'), (1, 'k', 1, 'g');
  insert into intake_raw.records (team_id, stream, id, version, observed_at, hash, origin, payload)
    select 1, 'patients', id, '2026-01-02', '2026-01-02', '', 'new', jsonb_build_object('city', city) from (values ('p1', 'Ulm'), ('p2', 'Ulm')) r (id, city);
  insert into intake_raw.record_history (team_id, stream, id, version, observed_at, deleted, hash, origin, payload)
    select 1, 'patients', id, '2026-01-01', '2026-01-01', false, '', 'old', jsonb_build_object('city', city) from (values ('p1', 'Bonn'), ('p2', 'Ulm')) r (id, city)`

beforeAll(async () => {
  warehouse = await openWarehouse()
  session = await openSession({ url: warehouse.url, purpose: 'demo' })
  await query(warehouse.url, PLANTED)
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
    [['red', 2]],
    [
      [1, 'Who?', 'single_choice', 'A|B'],
      [2, 'How many?', 'number', ''],
    ],
    [['Packet', 'Other; Insurance']],
    [['p3-is-lo', '2026-01-05 02:03:04', '(null)', '(null)', 1]],
    [
      ['00:00:00.000000', 'old', '', 'Bonn'],
      ['00:00:00.000000', 'new', '', 'Ulm'],
    ],
  ])
})

it('an analyst gets every answer and no name, and the session is its own again afterwards', async () => {
  const { answers, refused } = await queryAsAnalyst(session)
  expect(answers.map(({ rows }) => rows.length)).toEqual([1, 0, 0, 2])
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

it('a warehouse with another team is refused and stays; so is one in which another demo runs', async () => {
  const claim = () => claimWarehouse(session, warehouse.url, { dataDir: '/d-demo', analyticsKey: null })
  await query(warehouse.url, `insert into intake.teams (name) values ('clinic')`)
  await expect(claim()).rejects.toMatchObject({ code: 'data_dir_unusable', variable: 'INTAKE_DATA_DIR' })
  const other = await connect(warehouse.url)
  await session.client.query('select pg_advisory_unlock_all()')
  await other.query(`select pg_advisory_lock(7204312, hashtext('demo'))`)
  let now = 0
  vi.spyOn(Date, 'now').mockImplementation(() => (now += 2_600))
  await expect(claim()).rejects.toMatchObject({ code: 'held_by_another_run' })
  await other.end()
  expect(await query(warehouse.url, 'select count(*)::int as patients from intake.patients')).toEqual([
    { patients: 3 },
  ])
  expect(demoDirectory('/data')).toBe('/data-demo')
})

it('a day at the service makes the changes that it counts', async () => {
  await using service = await startEmulator({
    port: 0,
    seed: 1,
    patients: 2_100,
    forms: 6,
    packets: 1,
    documents: 1,
    responses: 0,
  })
  const { control } = service
  const before = countRecords(service)
  const first = control.world().patients.slice(1600, 1)[0]!.id
  const changes = advanceWorld(service)
  expect(changes).toEqual({ created: 3, updated: 3, deleted: 2, reworded: 1 })
  expect(countRecords(service)).toEqual({ ...before, patients: before.patients! + 1 })
  expect(control.world().patients.get(first)).toBeUndefined()
  const { forms } = control.world()
  const texts = forms
    .slice(0, forms.size)
    .flatMap(({ name, questions }) => questions.map(({ text }) => [name, text]))
  expect(texts.filter(([, text]) => text === 'Who pays for your visits?')).toEqual([
    ['Insurance', expect.any(String)],
  ])
})

it('what it prints can be pasted into a shell', () => {
  const places = {
    ...{
      dataDir: "/it's here",
      directory: '/data/16',
      port: 5433,
      webhooks: 'http://h:1/webhooks',
      admin: 'http://h:2',
    },
    variables: { INTAKE_TEAM: 'demo', INTAKE_API_SECRET: 'a b' },
  }
  expect(say.overlongDirectoryText(places)).toContain(`INTAKE_DATA_DIR='/it'\\''s here' `)
  const text = say.stayText(places, { url: 'u', link: 'http://h:3/login?link=x' })
  for (const line of [
    '  http://h:3/login?link=x\n',
    'Webhooks are received at http://h:1/webhooks, health and metrics are at http://h:2.',
    `  PGPASSWORD="$(cat /data/16/password)" psql -h 127.0.0.1 -p 5433 -U intake intake\n`,
    `  export INTAKE_DATA_DIR='/it'\\''s here'\n  export INTAKE_TEAM=demo\n  export INTAKE_API_SECRET='a b'\n`,
  ])
    expect(text).toContain(line)
  expect(say.liveText([{ what: 'a patient moved', seconds: 0.0416 }])).toBe(
    'a patient moved  row visible after 0.042 s\n',
  )
  expect(say.serviceText('u', { patients: 3, forms: 2 })).toContain(
    'at u with\n           3 patients, 2 forms\n',
  )
})
