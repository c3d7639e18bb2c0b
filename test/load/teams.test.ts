/** The rows of intake.teams: one number per name, whoever asks first, and the environment of the service. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { isRemovedError, noteEnvironment, noteTimezone, restoreTeam, teamIdOf } from '../../src/load/teams.ts'
import { openSession, type Session } from '../../src/warehouse/connect.ts'
import { tryLock } from '../../src/warehouse/locks.ts'
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

test('a time zone is stored for its own team if Postgres knows it, and an unchanged one writes nothing', async () => {
  const [one, other] = [await teamIdOf(session.db, 'zoned'), await teamIdOf(session.db, 'of another zone')]
  const zones = () =>
    rowsOf<{ timezone: string; xmin: string }>(
      session,
      'select timezone, xmin::text from intake.teams where team_id = any ($1) order by team_id',
      [[one, other]],
    )
  for (const [zone, stored] of [
    ['Asia/Tokyo', 'Asia/Tokyo'],
    ['Nowhere/Town', 'Asia/Tokyo'],
    ['europe/paris', 'europe/paris'],
  ] as const) {
    await noteTimezone(session.db, one, zone)
    expect((await zones()).map(({ timezone }) => timezone)).toEqual([stored, 'UTC'])
  }
  const before = await zones()
  await noteTimezone(session.db, one, 'europe/paris')
  expect(await zones()).toEqual(before)
})

test('a restored team has its waiting events again, and none that was dead-lettered', async () => {
  const [team, other] = [await teamIdOf(session.db, 'restored'), await teamIdOf(session.db, 'still removed')]
  const put = (id: string, due: string | null, of = team) =>
    rowsOf(
      session,
      `insert into intake_raw.inbox (team_id, event_id, body_hash, received_on, received_at, body, status, due_at, settled_at)
       values ($1, $2, '\\x00', current_date, now(), '', 'dead', $3, now())`,
      [of, id, due],
    )
  await put('waited', 'infinity')
  await put('dead-lettered', null)
  await put('of the other', 'infinity', other)
  await rowsOf(
    session,
    `insert into intake_ops.removed_teams (team_id, name, data) values ($1, 'restored', 'kept'), ($2, 'still removed', 'kept')`,
    [team, other],
  )
  expect(await restoreTeam(session, 'restored')).toBe(team)
  expect(
    await rowsOf(
      session,
      'select event_id, status, due_at, settled_at is null as open from intake_raw.inbox order by event_id',
    ),
  ).toMatchObject([
    { event_id: 'dead-lettered', status: 'dead', open: false },
    { event_id: 'of the other', status: 'dead', open: false },
    { event_id: 'waited', status: 'pending', due_at: null, open: true },
  ])
  expect(await teamIdOf(session.db, 'restored')).toBe(team)
  const removed = await teamIdOf(session.db, 'still removed').catch((error: unknown) => error)
  expect(removed).toMatchObject({
    ...{
      code: 'team_removed',
      verdict: 'stop',
      message: 'team still removed was removed from this warehouse',
    },
    hint: 'remove it from the configuration; to restore it instead, run a backfill or restart serve with it in the configuration',
  })
  expect([removed, new Error('x'), { code: 'team_removed' }].map(isRemovedError)).toEqual([
    true,
    false,
    false,
  ])
  // Its data are partly gone, and the name is not free before all are.
  await rowsOf(session, `update intake_ops.removed_teams set data = 'deleted'`)
  await expect(restoreTeam(session, 'still removed')).rejects.toMatchObject({
    ...{ code: 'team_removed', verdict: 'stop', message: 'team still removed is partly deleted' },
    hint: 'remove it from the configuration, and complete the removal with intake-sync teams remove still removed --delete-data; after that the name can be used again',
  })
  await using remover = await openSession({ url: database.url, purpose: 'remover' })
  // A command that restores a team leaves none locked.
  for (const name of ['restored', 'still removed']) expect(await tryLock(remover, 'team', name)).toBe(true)
  await expect(restoreTeam(session, 'still removed')).rejects.toMatchObject({
    ...{ code: 'held_by_another_run', verdict: 'stop', message: 'team still removed is being removed' },
    hint: 'wait until teams remove has ended',
  })
})
