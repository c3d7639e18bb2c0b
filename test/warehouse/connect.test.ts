/** Sessions have the settings that loading needs, whatever the login, the database or the URL would have. */
import pg from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openSession } from '../../src/warehouse/connect.ts'
import { warehouseError } from '../../src/warehouse/sqlstate.ts'
import { createTestDatabase, type TestDatabase } from '../support/database.ts'

let database: TestDatabase
beforeAll(async () => {
  database = await createTestDatabase({ empty: true })
})
afterAll(() => database.drop())

const NAMES = [
  'lock_timeout',
  'statement_timeout',
  'idle_in_transaction_session_timeout',
  'TimeZone',
  'search_path',
  'work_mem',
]

async function settingsOf(url: string, planner: readonly string[] = []): Promise<Record<string, string>> {
  await using session = await openSession({ url, purpose: 'connect test', planner })
  const { rows } = await session.client.query<{ name: string; setting: string }>(
    'select name, setting from pg_settings where name = any($1)',
    [NAMES],
  )
  return Object.fromEntries(rows.map(({ name, setting }) => [name, setting]))
}

const OURS = {
  lock_timeout: '10000',
  statement_timeout: '0',
  idle_in_transaction_session_timeout: '0',
  TimeZone: 'UTC',
}

function withParameter(name: string, value: string): string {
  const url = new URL(database.url)
  url.searchParams.set(name, value)
  return url.href
}

test('the time limits of a database do not apply to our sessions', async () => {
  await using owner = await openSession({ url: database.url, purpose: 'connect test' })
  const name = pg.escapeIdentifier(new URL(database.url).pathname.slice(1))
  for (const limit of ['statement_timeout', 'idle_in_transaction_session_timeout', 'lock_timeout'])
    await owner.client.query(`alter database ${name} set ${limit} = '7s'`)
  expect(await settingsOf(database.url)).toMatchObject(OURS)
})

test('the server ends the session of a host that vanished after eleven seconds', async () => {
  await using session = await openSession({ url: database.url, purpose: 'connect test' })
  const { rows } = await session.client.query<{ seconds: number; user: string }>(
    `select current_setting('tcp_keepalives_idle')::int
       + current_setting('tcp_keepalives_interval')::int * current_setting('tcp_keepalives_count')::int as seconds,
       current_setting('tcp_user_timeout') as user`,
  )
  expect(rows).toEqual([{ seconds: 11, user: '0' }])
})

test('options of the URL are kept in addition to ours, and ours win', async () => {
  const url = withParameter(
    'options',
    '-c search_path=pg_catalog -c timezone=Asia/Tokyo -c statement_timeout=7s',
  )
  expect(await settingsOf(url, ['work_mem=1234kB'])).toMatchObject({
    ...OURS,
    search_path: 'pg_catalog',
    work_mem: '1234',
  })
})

test('a statement that somebody canceled is retried, and the error says where to look', async () => {
  await using session = await openSession({ url: database.url, purpose: 'connect test' })
  await session.client.query("set statement_timeout = '20ms'")
  const error = await session.client.query('select pg_sleep(5)').catch(warehouseError)
  expect(error).toMatchObject({
    code: 'canceled',
    verdict: 'retry',
    message: 'a statement of ours was canceled in the warehouse',
    hint: expect.stringContaining('statement_timeout'),
  })
})
