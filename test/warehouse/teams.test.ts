/** The teams of a warehouse, by name, whether or not they were removed. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openSession, type Session } from '../../src/warehouse/connect.ts'
import { listTeams, readTeams, warehouseTeam } from '../../src/warehouse/teams.ts'
import { createTestDatabase, type TestDatabase } from '../support/database.ts'

let database: TestDatabase
let session: Session

beforeAll(async () => {
  database = await createTestDatabase()
  session = await openSession({ url: database.url, purpose: 'teams' })
  await session.client.query(`
    insert into intake.teams (name, environment) values ('west', 'sandbox'), ('east', null), ('north', null);
    insert into intake_ops.removed_teams (team_id, name, data, removed_at) values (2, 'east', 'kept', '2026-01-02T03:04:05Z');
    insert into intake_ops.runs (kind, status, options, started_at)
      select 'backfill', 'succeeded', '{}', day from unnest('{2026-01-02,2026-01-03,2026-01-04}'::timestamptz[]) as day;
    insert into intake_ops.run_streams (run_id, team_id, stream, status, requests, throttled, fetched, changed, unchanged,
      deleted, erased, dead_letters, problems, seconds)
    select run_id, team_id, 'forms', 'succeeded', 0, 0, 0, 0, 0, 0, 0, 0, 0, 0
    from intake_ops.runs cross join unnest('{1,2}'::smallint[]) as team_id where run_id <= 2 or team_id = 1;
    insert into intake_ops.record_counts (team_id, stream, live, deleted)
      values (1, 'patients', 3, 1), (1, 'forms', 4, 1), (1, 'forms', -2, 2), (2, 'patients', 5, 1);
    insert into intake_raw.inbox (team_id, event_id, body_hash, received_on, received_at, body, status)
      select team, 'e ' || status, '', '2026-01-01', '2026-01-01', '', status
      from unnest('{1,2}'::smallint[]) as team cross join unnest('{pending,done,dead}'::text[]) as status`)
})

afterAll(async () => {
  await session.close()
  await database.drop()
})

test('they are read by name, and say whether they were removed', async () => {
  expect(await readTeams(session.db)).toEqual([
    { teamId: 2, name: 'east', isRemoved: true },
    { teamId: 3, name: 'north', isRemoved: false },
    { teamId: 1, name: 'west', isRemoved: false },
  ])
})

test('one of several is named', async () => {
  expect(await warehouseTeam(database.url, 'west')).toEqual({ teamId: 1, name: 'west', isRemoved: false })
  expect(await warehouseTeam(database.url, 'east')).toEqual({ teamId: 2, name: 'east', isRemoved: true })
  await expect(warehouseTeam(database.url, undefined)).rejects.toMatchObject({
    ...{ verdict: 'stop', code: 'unknown_team', variable: '--team' },
    ...{
      message: 'the warehouse has several teams: name one with --team',
      hint: 'use one of: east, north, west',
    },
  })
  await expect(warehouseTeam(database.url, 'south')).rejects.toMatchObject({
    ...{ code: 'unknown_team', message: 'the warehouse has no team "south"' },
  })
  const none = new URL(database.url)
  none.pathname = '/no_such_database'
  await expect(warehouseTeam(none.href, 'west')).rejects.toMatchObject({ code: 'no_database' })
  await expect(listTeams(none.href)).rejects.toMatchObject({ code: 'no_database' })
  none.pathname = '/postgres'
  await expect(listTeams(none.href)).rejects.toMatchObject({ code: 'other_schema' })
})

test('the list has the records, the newest run and the pending events of each, and when its data was removed', async () => {
  const listed = await listTeams(database.url)
  const none = { environment: null, rows: 0 }
  const there = { removed_at: null, data: null }
  expect(listed).toEqual([
    {
      ...{ ...none, name: 'east', team_id: 2, rows: 5, pending_events: 1, data: 'kept' },
      ...{ last_run_at: '2026-01-03T00:00:00+00:00', removed_at: '2026-01-02T03:04:05+00:00' },
    },
    { ...none, ...there, name: 'north', team_id: 3, pending_events: 0, last_run_at: null },
    {
      ...none,
      ...there,
      name: 'west',
      environment: 'sandbox',
      team_id: 1,
      rows: 5,
      pending_events: 1,
      last_run_at: '2026-01-04T00:00:00+00:00',
    },
  ])
})
