/** The stored secrets of webhooks: the newest of each configuration and team, until it is retired. */
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { openSession, type Session } from '../../src/warehouse/connect.ts'
import {
  retireSecret,
  secretStates,
  secretsInUse,
  storeSecret,
  tryStore,
} from '../../src/warehouse/webhook-secrets.ts'
import { createTestDatabase, type TestDatabase } from '../support/database.ts'

let database: TestDatabase
let session: Session

beforeAll(async () => {
  database = await createTestDatabase()
  session = await openSession({ url: database.url, purpose: 'secrets' })
  await session.client.query(`insert into intake.teams (name) values ('north'), ('south')`)
})

afterAll(async () => {
  await session.close()
  await database.drop()
})

beforeEach(async () => {
  await session.client.query('delete from intake_ops.webhook_secrets')
})

const store = (teamId: number, configId: string, text = `${teamId} ${configId}`) =>
  storeSecret(session.db, { teamId, configId }, Buffer.from(text))
const inUse = async (...teamIds: number[]) =>
  (await secretsInUse(session.db, teamIds)).map(({ box, ...key }) => [...Object.values(key), String(box)])
const statesOf = async (team: string) => [...(await secretStates(session.db, team))].sort()

test('those in use are of the teams in question, in the order of teams and configurations', async () => {
  for (const [team, config] of [
    [2, 'a'],
    [1, 'b'],
    [1, 'a'],
    [2, 'b'],
  ] as const)
    await store(team, config)
  expect(await inUse(1, 2)).toEqual([
    [1, 'a', '1 a'],
    [1, 'b', '1 b'],
    [2, 'a', '2 a'],
    [2, 'b', '2 b'],
  ])
  expect(await inUse(2)).toEqual([
    [2, 'a', '2 a'],
    [2, 'b', '2 b'],
  ])
  expect(await inUse()).toEqual([])
})

test('a retired secret is out of use in its team only, and is retired once', async () => {
  for (const team of [1, 2]) for (const config of ['a', 'b']) await store(team, config)
  expect([
    await retireSecret(session.db, 'north', 'a'),
    await retireSecret(session.db, 'north', 'a'),
  ]).toEqual([...[true, false]])
  expect([
    await retireSecret(session.db, 'nobody', 'a'),
    await retireSecret(session.db, 'north', 'c'),
  ]).toEqual([...[false, false]])
  expect((await inUse(1, 2)).map(([team, config]) => `${team}${config}`)).toEqual(['1b', '2a', '2b'])
  expect(await statesOf('north')).toEqual([
    ['a', 'retired'],
    ['b', 'stored'],
  ])
  expect(await statesOf('south')).toEqual([
    ['a', 'stored'],
    ['b', 'stored'],
  ])
  expect(await statesOf('nobody')).toEqual([])
})

test('a secret that is stored again replaces the one before, and is in use and new', async () => {
  await store(1, 'a')
  await retireSecret(session.db, 'north', 'a')
  await session.client.query(`update intake_ops.webhook_secrets set created_at = '2020-01-01'`)
  await store(1, 'a', 'newer')
  expect(await inUse(1)).toEqual([[1, 'a', 'newer']])
  const { rows } = await session.client.query(
    `select created_at > '2026-01-01' as fresh from intake_ops.webhook_secrets`,
  )
  expect(rows).toEqual([{ fresh: true }])
})

test('a trial leaves the secrets as they are, and fails where none can be stored', async () => {
  await store(1, 'a')
  await tryStore(session.db, 1)
  expect(await inUse(1)).toEqual([[1, 'a', '1 a']])
  const { rows } = await session.client.query('select from intake_ops.webhook_secrets')
  expect(rows).toHaveLength(1)
  await session.client.query('set default_transaction_read_only = on')
  await expect(tryStore(session.db, 1)).rejects.toMatchObject({ code: '25006' })
  await session.client.query('set default_transaction_read_only = off')
})
