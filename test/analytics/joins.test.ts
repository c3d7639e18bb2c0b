/** What analysts join and count by: the response of an export's row, the provider, the days of the team. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { migrate } from '../../src/analytics/migrate.ts'
import { noteTimezone } from '../../src/load/teams.ts'
import { openSession } from '../../src/warehouse/connect.ts'
import { connect, openWarehouse, query } from '../e2e/support/scene.ts'
import type { TestDatabase } from '../support/database.ts'
import { type Login, makeLogin } from './logins.ts'

const PROVIDER = '0d9f3a52-6c1e-4b77-9a55-1f2e3d4c5b6a'

let warehouse: TestDatabase
let analyst: Login

/** Responses: patient, form, submitted at (minutes of one hour); null is open. */
const RESPONSES: readonly (readonly [id: string, patient: string, minute: number | null, more?: string])[] = [
  ['plain', 'ann', 1],
  ['earlier of ann', 'ann', 0],
  ['twin 1', 'bob', 2],
  ['twin 2', 'bob', 2],
  ['of cyd', 'cyd', 3],
  ['of dee', 'dee', 4],
  ['skipped', 'eve', 5, 'is_skipped'],
  ['deleted', 'eve', 6, 'deleted'],
  ['open', 'fay', null],
  ['open 1', 'gus', null],
  ['open 2', 'gus', null],
  ['of another form', 'hal', 7, 'other'],
  ['third of bob', 'bob', 8],
]

/** Rows of the file: client, e-mail, completed at, the response. */
const ROWS: readonly (readonly [
  client: string | null,
  email: string | null,
  minute: number | null,
  response: string | null,
])[] = [
  ['ann', null, 1, 'plain'],
  ['bob', null, 2, null],
  ['EHR-3', null, 3, 'of cyd'],
  // The id of one patient is the external id of another: the id counts.
  ['hal', null, 8, null],
  ['bob', 'Dee@Example.com', 4, null],
  [null, 'Dee@Example.com', 4, 'of dee'],
  [null, 'other@example.com', 4, null],
  ['ann', null, 4, null],
  ['eve', null, 5, null],
  ['eve', null, 6, null],
  ['fay', null, null, 'open'],
  ['gus', null, null, null],
  ['hal', null, 7, null],
  ['nobody', null, 1, null],
  ['ann', null, 9, null],
]

const minute = (value: number | null) =>
  value === null ? 'null' : `timestamptz '2026-03-01 10:0${value}:00.123456Z'`
const text = (value: string | null) => (value === null ? 'null' : `'${value}'`)

beforeAll(async () => {
  warehouse = await openWarehouse()
  await query(
    warehouse.url,
    `insert into intake.teams (name) values ('t');
     insert into intake.patients (team_id, id, external_id, email, first_name, last_name, provider, _version, _origin)
       select 1, id, case id when 'cyd' then 'EHR-3' when 'bob' then 'hal' end, case id when 'dee' then 'dee@example.com' end, 'F', 'L',
         case id when 'ann' then '${PROVIDER}' when 'bob' then 'Dr. Who' when 'cyd' then 'Dr. Who' when 'dee' then ' ' end, now(), 'test'
       from unnest('{ann,bob,cyd,dee,eve,fay,gus,hal}'::text[]) id;
     insert into intake.forms (team_id, id, name, _version, _origin) values (1, 'f', 'Intake', now(), 'test'), (1, 'other', 'Other', now(), 'test');
     insert into intake.form_questions (team_id, form_id, position, question_id, question_type, text, sort_order)
       values (1, 'f', 1, 'q', 'number', 'Weight', 1);
     insert into intake.exports (team_id, id, form_id, name, _version, _origin) values (1, 'e', 'f', 'All', now(), 'test');
     insert into intake.export_columns (team_id, export_id, position, title, question_id) values (1, 'e', 8, 'Weight', 'q');
     ${RESPONSES.map(
       ([id, patient, at, more]) => `
     insert into intake.responses (team_id, id, patient_id, form_id, is_submitted, is_skipped, submitted_at, created_at, _deleted_at, _version, _origin)
       values (1, '${id}', '${patient}', '${more === 'other' ? 'other' : 'f'}', ${at !== null}, ${more === 'is_skipped'}, ${minute(at)},
         '2026-03-01 09:00Z', ${more === 'deleted' ? 'now()' : 'null'}, now(), 'test');`,
     ).join('')}
     ${ROWS.map(
       ([client, email, at], place) => `
     insert into intake.export_rows (team_id, export_id, row_number, client_id, first_name, last_name, email, completed_at)
       values (1, 'e', ${place + 1}, ${text(client)}, 'f', 'l', ${text(email)}, ${minute(at)});
     insert into intake.export_cells (team_id, export_id, row_number, position, value) values (1, 'e', ${place + 1}, 8, '80');`,
     ).join('')}
     insert into intake.messages (team_id, id, patient_id, form_id, sent_at, _version, _origin) values (1, 'm', 'ann', 'f', '2026-03-01 09:00Z', now(), 'test')`,
  )
  await migrate(warehouse.url)
  analyst = await makeLogin(warehouse.url, 'intake_analyst')
})
afterAll(() => warehouse.drop())

describe('a row of an export', () => {
  const expected = ROWS.map(([, , , response_id], place) => ({ row_number: place + 1, response_id }))

  it('has the one response of its patient that was submitted then, by id, external id or e-mail and name; else none', async () => {
    const rows = 'select row_number, response_id from intake_analytics.export_answers order by row_number'
    expect(await analyst.rows(rows)).toEqual(expected)
    expect(await analyst.rows(rows.replace('analytics.export_answers', 'exports.export_all'))).toEqual(
      expected,
    )
  })

  it('has it also where another team has patients of the same ids', async () => {
    await query(
      warehouse.url,
      `insert into intake.teams (team_id, name) overriding system value values (2, 'other');
       insert into intake_ops.access (login, team_id) values ('${analyst.name}', 1);
       insert into intake.patients (team_id, id, external_id, email, first_name, last_name, _version, _origin)
         select 2, id, external_id, email, first_name, last_name, now(), 'test' from intake.patients`,
    )
    for (const view of ['intake_analytics.export_answers', 'intake_exports.export_all'])
      expect(
        await analyst.rows(`select row_number, response_id from ${view} order by row_number`),
        view,
      ).toEqual(expected)
    await query(
      warehouse.url,
      'delete from intake.patients where team_id = 2; delete from intake.teams where team_id = 2',
    )
  })

  it('has its patient and times in the wide view as in the cells', async () => {
    await query(
      warehouse.url,
      `update intake.export_rows set sent_at = '2026-02-28Z'::timestamptz + row_number * interval '1 hour', archived = row_number % 2 = 0`,
    )
    const columns = 'team_id, row_number, patient, sent_at, completed_at, is_archived, response_id'
    const rows = await analyst.rows(`select ${columns} from intake_exports.export_all order by row_number`)
    expect(rows).toHaveLength(ROWS.length)
    expect(rows).toEqual(
      await analyst.rows(`select ${columns} from intake_analytics.export_answers order by row_number`),
    )
    await query(warehouse.url, 'update intake.export_rows set sent_at = null, archived = null')
  })

  it('joins to the response, in the wide view also after an upgrade from one without the column', async () => {
    const [own] = await query<{ text: string }>(
      warehouse.url,
      `select pg_get_viewdef('intake_exports.export_all'::regclass) as text`,
    )
    await query(
      warehouse.url,
      `drop view intake_exports.export_all;
       create view intake_exports.export_all as select 1 as team_id, 1 as row_number, '' as patient, now() as sent_at,
         now() as completed_at, true as is_archived, 80.0 as weight;
       update intake_raw.wide_views set signature = 'older' where kind = 'export'`,
    )
    await migrate(warehouse.url)
    expect(
      await query(warehouse.url, `select pg_get_viewdef('intake_exports.export_all'::regclass) as text`),
    ).toEqual([own])
    expect(
      await analyst.rows(
        `select r.response_id, e.weight from intake_exports.export_all e join intake_analytics.responses r using (team_id, response_id)
         where r.patient = e.patient order by 1`,
      ),
    ).toEqual(['open', 'plain'].map((response_id) => ({ response_id, weight: '80' })))
  })
})

it('the provider is shown with the patient, the responses and the messages: its id, or a pseudonym of any other text', async () => {
  const counted = await analyst.rows<{ provider: string | null; responses: number }>(
    'select provider, count(*)::int as responses from intake_analytics.responses group by 1 order by 2, 1',
  )
  expect(counted.map(({ responses }) => responses)).toEqual([2, 4, 6])
  expect(counted[0]!.provider).toBe(PROVIDER)
  expect(counted[1]!.provider).toMatch(/^[0-9a-f]{64}$/)
  expect(counted[2]!.provider).toBeNull()
  expect(await analyst.rows('select provider from intake_analytics.message_outcomes')).toEqual([
    { provider: PROVIDER },
  ])
  expect(
    await analyst.rows(
      'select provider, count(*)::int as patients from intake_analytics.patients group by 1 order by 2, 1',
    ),
  ).toEqual([
    { provider: PROVIDER, patients: 1 },
    { provider: counted[1]!.provider, patients: 2 },
    { provider: null, patients: 5 },
  ])
})

it('daily figures count the days of the team, whatever the zone of the session', async () => {
  await using session = await openSession({ url: warehouse.url, purpose: 'test' })
  await session.client.query(
    `update intake.responses set created_at = '2026-03-01 23:30Z' where id = 'plain';
     update intake.responses set created_at = '2026-03-01 02:00Z' where id <> 'plain'`,
  )
  const daysIn = async (zone: string) => {
    const client = await connect(analyst.url)
    try {
      await client.query(`set timezone to '${zone}'`)
      const { rows } = await client.query<{ day: string; asked: number }>(
        `select day::text, sum(responses_asked)::int as asked from intake_analytics.daily_volume
         where responses_asked > 0 group by 1 order by 1`,
      )
      return rows.map(({ day, asked }) => `${day} ${asked}`)
    } finally {
      await client.end()
    }
  }
  for (const [zone, days] of [
    ['UTC', ['2026-03-01 12']],
    ['Pacific/Auckland', ['2026-03-01 11', '2026-03-02 1']],
    ['America/New_York', ['2026-02-28 11', '2026-03-01 1']],
    // Postgres does not know it: the zone stays.
    ['Nowhere/Town', ['2026-02-28 11', '2026-03-01 1']],
  ] as const) {
    await noteTimezone(session.db, 1, zone)
    expect(await daysIn('UTC'), zone).toEqual(days)
    expect(await daysIn('Asia/Tokyo'), zone).toEqual(days)
  }
  expect(await analyst.rows('select timezone from intake_analytics.teams')).toEqual([
    { timezone: 'America/New_York' },
  ])
})
