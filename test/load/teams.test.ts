/** The rows of intake.teams: one number per name, whoever asks first, and the environment of the service. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { noteEnvironment, restoreTeam, teamIdOf } from '../../src/load/teams.ts'
import { openSession, type Session } from '../../src/warehouse/connect.ts'
import { createTestDatabase, type TestDatabase } from '../support/database.ts'
import { rowsOf, waitsForLock } from './loading.ts'

let database: TestDatabase
let session: Session

beforeAll(async () => {
  database = await createTestDatabase()
  session = await openSession({ url: database.url, purpose: 'teams' })
})

afterAll(async () => {
  await session.close()
  await database.drop()
})

/** The rows of these teams, with the transaction that wrote each. */
const teams = (...names: readonly string[]) =>
  rowsOf<{ team_id: number; name: string; environment: string | null; xmin: string }>(
    session,
    'select team_id, name, environment, xmin::text from intake.teams where name = any($1) order by name',
    [names],
  )

test('a team gets a number when it is first named, and keeps it', async () => {
  const first = await teamIdOf(session.db, 'first')
  const second = await teamIdOf(session.db, 'second')
  expect(second).not.toBe(first)
  expect(await teamIdOf(session.db, 'first')).toBe(first)
  expect(await teamIdOf(session.db, 'second')).toBe(second)
  expect(await teams('first', 'second')).toMatchObject([
    { team_id: first, name: 'first', environment: null },
    { team_id: second, name: 'second', environment: null },
  ])
})

test('names are case-sensitive, and a known name writes nothing and uses no number', async () => {
  const lower = await teamIdOf(session.db, 'clinic')
  const before = await teams('clinic')
  for (let nth = 0; nth < 3; nth++) expect(await teamIdOf(session.db, 'clinic')).toBe(lower)
  expect(await teams('clinic')).toEqual(before)
  expect(await teamIdOf(session.db, 'Clinic')).toBe(lower + 1)
})

test('two processes that name a new team at the same time get the same number', async () => {
  await using other = await openSession({ url: database.url, purpose: 'other' })
  await other.client.query('begin')
  const ids: number[] = [await teamIdOf(other.db, 'shared')]
  const waiting = teamIdOf(session.db, 'shared')
  await waitsForLock(other, 'teams')
  await other.client.query('commit')
  ids.push(await waiting)
  expect(new Set(ids).size).toBe(1)
  expect(await teams('shared')).toMatchObject([{ team_id: ids[0] }])
})

test('the environment header is stored if it is a valid name, and ignored otherwise', async () => {
  const team = await teamIdOf(session.db, 'environments')
  const noted = async (said: string) => {
    await noteEnvironment(session.db, team, said)
    return (await teams('environments'))[0]!.environment
  }
  for (const said of ['Ann Lee', 'a@b', '', 'x'.repeat(41), 'é', 'a\n', '\na'])
    expect(await noted(said)).toBeNull()
  for (const name of ['production', 'eu-1.sandbox_2', 'x', 'x'.repeat(40)])
    expect(await noted(name)).toBe(name)
  expect(await noted('Ann Lee')).toBe('x'.repeat(40))
})

test('an environment is stored only for its own team, and an unchanged one writes nothing', async () => {
  const [one, other] = [await teamIdOf(session.db, 'one'), await teamIdOf(session.db, 'other')]
  await noteEnvironment(session.db, other, 'sandbox')
  const before = await teams('other')
  await noteEnvironment(session.db, one, 'production')
  expect(await teams('one')).toMatchObject([{ environment: 'production' }])
  await noteEnvironment(session.db, other, 'sandbox')
  expect(await teams('other')).toEqual(before)
  await noteEnvironment(session.db, one, 'sandbox')
  expect(await teams('one')).toMatchObject([{ environment: 'sandbox' }])
})

test('a restored team has its waiting events again, and none that was dead-lettered', async () => {
  const team = await teamIdOf(session.db, 'restored')
  const put = (id: string, due: string | null) =>
    rowsOf(
      session,
      `insert into intake_raw.inbox (team_id, event_id, body_hash, received_on, received_at, body, status, due_at, settled_at)
       values ($1, $2, '\\x00', current_date, now(), '', 'dead', $3, now())`,
      [team, id, due],
    )
  await put('waited', 'infinity')
  await put('dead-lettered', null)
  await rowsOf(
    session,
    `insert into intake_ops.removed_teams (team_id, name, data) values ($1, 'restored', 'kept')`,
    [team],
  )
  expect(await restoreTeam(session, 'restored')).toBe(team)
  expect(
    await rowsOf(
      session,
      'select event_id, status from intake_raw.inbox where team_id = $1 order by event_id',
      [team],
    ),
  ).toEqual([
    { event_id: 'dead-lettered', status: 'dead' },
    { event_id: 'waited', status: 'pending' },
  ])
})
