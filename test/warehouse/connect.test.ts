/** Sessions have the settings that loading needs, whatever the login, the database or the URL would have. */
import { Socket } from 'node:net'
import { sql } from 'kysely'
import pg from 'pg'
import { afterAll, beforeAll, expect, onTestFinished, test, vi } from 'vitest'
import { databaseOf, openPool, openSession, withinBudget } from '../../src/warehouse/connect.ts'
import { warehouseError } from '../../src/warehouse/sqlstate.ts'
import { createTestDatabase, type TestDatabase } from '../support/database.ts'
import { openProxy } from '../support/proxy.ts'

let database: TestDatabase
beforeAll(async () => {
  database = await createTestDatabase({ empty: true })
})
afterAll(() => database.drop())

const NAMES = [
  'lock_timeout',
  'statement_timeout',
  'idle_in_transaction_session_timeout',
  'idle_session_timeout',
  'transaction_timeout',
  'TimeZone',
  'search_path',
  'work_mem',
  'client_encoding',
  'DateStyle',
  'standard_conforming_strings',
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
  idle_session_timeout: '0',
  TimeZone: 'UTC',
  client_encoding: 'UTF8',
  DateStyle: expect.stringMatching(/^ISO/),
  standard_conforming_strings: 'on',
}

function withParameter(name: string, value: string): string {
  const url = new URL(database.url)
  url.searchParams.set(name, value)
  return url.href
}

test('the settings of a database do not apply to our sessions', async () => {
  await using owner = await openSession({ url: database.url, purpose: 'connect test' })
  const name = pg.escapeIdentifier(new URL(database.url).pathname.slice(1))
  const idle = ['idle_in_transaction_session_timeout', 'idle_session_timeout']
  const { rows: since17 } = await owner.client.query<{ name: string }>(
    `select name from pg_settings where name = 'transaction_timeout'`,
  )
  const limits = ['statement_timeout', ...idle, 'lock_timeout', ...since17.map(({ name: own }) => own)]
  for (const limit of limits) await owner.client.query(`alter database ${name} set ${limit} = '7s'`)
  await owner.client.query(`
    alter database ${name} set timezone = 'Asia/Tokyo';
    alter database ${name} set datestyle = 'German';
    alter database ${name} set standard_conforming_strings = off`)
  // Postgres 17 and later know one more limit.
  const unlimited = Object.fromEntries(since17.map(({ name: own }) => [own, '0']))
  expect(await settingsOf(database.url)).toMatchObject({ ...OURS, ...unlimited })
  const pool = openPool({ url: database.url, purpose: 'pool', connections: 1, idleMs: 20 })
  onTestFinished(() => pool.end())
  const { rows } = await pool.query(
    `select coalesce(current_setting('transaction_timeout', true), '0') as limit`,
  )
  expect(rows).toEqual([{ limit: '0' }])
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

test('other parameters of the URL are kept, and several options are all used', async () => {
  const url = new URL(database.url)
  url.searchParams.append('options', '-c search_path=pg_catalog')
  url.searchParams.append('options', '-c work_mem=1234kB')
  url.searchParams.set('application_name', 'of the URL')
  url.searchParams.set('connect_timeout', '7')
  expect(await settingsOf(url.href)).toMatchObject({ ...OURS, search_path: 'pg_catalog', work_mem: '1234' })
})

test('a session has its own limit for locks, and shows its purpose and its worker', async () => {
  const show = async (more: object) => {
    await using session = await openSession({ url: database.url, purpose: 'connect test', ...more })
    const { rows } = await session.client.query(
      `select current_setting('lock_timeout') as limit, current_setting('application_name') as name`,
    )
    return rows[0]
  }
  expect(await show({})).toEqual({ limit: '10s', name: 'intake-sync connect test' })
  expect(await show({ lockTimeoutMs: 7_000, worker: '0123abcd' })).toEqual({
    ...{ limit: '7s', name: 'intake-sync connect test worker 0123abcd' },
  })
})

test('a session that has closed leaves no timer, for which the process would have to wait', async () => {
  const session = await openSession({ url: database.url, purpose: 'connect test' })
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
  onTestFinished(() => void vi.useRealTimers())
  const closing = session.close()
  expect(vi.getTimerCount()).toBe(1)
  await closing
  expect(vi.getTimerCount()).toBe(0)
})

test('a session of a server that hangs is closed after two seconds', async () => {
  await using proxy = await openProxy(database.url)
  const session = await openSession({ url: proxy.through(database.url), purpose: 'connect test' })
  proxy.become({ kind: 'silent' })
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
  onTestFinished(() => void vi.useRealTimers())
  let isClosed = false
  const closing = session.close().then(() => {
    isClosed = true
  })
  await vi.advanceTimersByTimeAsync(1_999)
  expect(isClosed).toBe(false)
  await vi.advanceTimersByTimeAsync(1)
  await closing
})

test('a server that hangs as soon as it has accepted a session is unreachable', async () => {
  await using proxy = await openProxy(database.url)
  const connect = pg.Client.prototype.connect as unknown as () => Promise<void>
  const connected = vi.spyOn(pg.Client.prototype, 'connect')
  onTestFinished(() => connected.mockRestore())
  connected.mockImplementation(async function (this: pg.Client) {
    await connect.call(this)
    proxy.become({ kind: 'silent' })
  } as never)
  const options = { url: proxy.through(database.url), purpose: 'connect test', connectTimeoutMs: 300 }
  await expect(openSession(options)).rejects.toMatchObject({ code: 'warehouse_unreachable' })
  proxy.become({ kind: 'good' })
})

test.each([
  [undefined, 10_000],
  [700, 700],
])(
  'a server that says nothing while a session begins, with a limit of %s ms, is given up after %i',
  async (limit, passed) => {
    await using proxy = await openProxy(database.url)
    proxy.become({ kind: 'silent' })
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    onTestFinished(() => void vi.useRealTimers())
    const options = { url: proxy.through(database.url), purpose: 'connect test' }
    let failure: unknown = null
    const opening = openSession(
      limit === undefined ? options : { ...options, connectTimeoutMs: limit },
    ).catch((error: { readonly code: string }) => {
      failure = error.code
    })
    await vi.advanceTimersByTimeAsync(passed - 1)
    expect(failure).toBeNull()
    await vi.advanceTimersByTimeAsync(1)
    await opening
    expect(failure).toBe('warehouse_unreachable')
  },
)

test('connections of sessions and of pools are probed, so that the loss of a host is noticed', async () => {
  const probed = vi.spyOn(Socket.prototype, 'setKeepAlive')
  onTestFinished(() => probed.mockRestore())
  await using _ = await openSession({ url: database.url, purpose: 'connect test' })
  const pool = openPool({ url: database.url, purpose: 'pool', connections: 1, idleMs: 20 })
  await pool.query('select')
  await pool.end()
  expect(probed.mock.calls).toEqual([
    [true, 5_000],
    [true, 5_000],
  ])
})

test('a pool has at most so many connections, and closes idle ones', async () => {
  const pool = openPool({ url: database.url, purpose: 'pool', connections: 2, idleMs: 20 })
  // The process may end while one is idle.
  expect(pool.options).toMatchObject({ max: 2, idleTimeoutMillis: 20, allowExitOnIdle: true })
  const pids = await Promise.all(
    [1, 2, 3, 4].map(() => pool.query('select pg_backend_pid() as pid, pg_sleep(0.01)')),
  )
  expect(new Set(pids.map(({ rows }) => rows[0].pid)).size).toBeLessThanOrEqual(2)
  await expect.poll(() => pool.totalCount).toBe(0)
  await pool.end()
})

test('a connection that the server ends is an error of its next query, and of nothing else', async () => {
  await using killer = await openSession({ url: database.url, purpose: 'connect test' })
  const kill = (pid: number) => killer.client.query('select pg_terminate_backend($1, 10000)', [pid])
  const uncaught: unknown[] = []
  const note = (error: unknown) => void uncaught.push(error)
  process.on('uncaughtException', note)
  onTestFinished(() => void process.off('uncaughtException', note))
  const pidOf = async (client: Pick<pg.ClientBase, 'query'>): Promise<number> =>
    (await client.query('select pg_backend_pid() as pid')).rows[0].pid
  await using session = await openSession({ url: database.url, purpose: 'connect test' })
  const pool = openPool({ url: database.url, purpose: 'pool', connections: 1, idleMs: 60_000 })
  const idle = await pidOf(pool)
  await kill(idle)
  await kill(await pidOf(session.client))
  await expect.poll(() => pool.totalCount).toBe(0)
  expect(await pidOf(pool)).not.toBe(idle)
  const inUse = await pool.connect()
  await kill(await pidOf(inUse))
  for (const client of [inUse, session.client]) {
    const failing = () =>
      client.query('select').then(
        () => null,
        (error) => warehouseError(error).verdict,
      )
    await expect.poll(failing).toBe('retry')
  }
  inUse.release(true)
  await pool.end()
  expect(uncaught).toEqual([])
})

test('a query that takes longer than its budget has no result; others fail, and the limits are reset', async () => {
  const asked: unknown[][] = []
  const query = async (text: string, values: unknown[]) => {
    asked.push([text.replace(/\s+/g, ' ').trim(), ...values])
    const code = /fail (\w+)/.exec(text)?.[1]
    if (code !== undefined) throw Object.assign(new Error('of the server'), { code })
    return { command: 'SELECT', rowCount: 1, rows: [{ ok: true }] }
  }
  const db = databaseOf({ query } as unknown as pg.ClientBase)
  const within = (milliseconds: number, text: string) =>
    withinBudget(db, milliseconds, async (own) => (await sql.raw(text).execute(own)).rows)
  expect(await within(2.1, 'select')).toEqual([{ ok: true }])
  expect(asked.map(([text, ...values]) => [String(text).slice(0, 18), ...values])).toEqual([
    ['select set_config(', '3'],
    ['select'],
    ['select set_config('],
  ])
  expect(asked[0]![0]).toMatch(
    /'statement_timeout', own.value, false\), set_config\('lock_timeout', own.value, false\)/,
  )
  expect(asked[2]![0]).toMatch(
    /reset_val, false\) from pg_settings where name in \('statement_timeout', 'lock_timeout'\)/,
  )
  expect([await within(0, 'fail 57014'), await within(1, 'fail 55P03')]).toEqual([null, null])
  expect(asked[3]).toEqual([expect.any(String), '1'])
  await expect(within(1, 'fail 42P01')).rejects.toMatchObject({ code: '42P01' })
  expect(asked).toHaveLength(12)
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
