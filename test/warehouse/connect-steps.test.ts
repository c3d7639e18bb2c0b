/** What a session and a pool are opened with, and what becomes of a connection that does not open; the library is played here. */
import { beforeEach, expect, test, vi } from 'vitest'
import { openPool, openSession } from '../../src/warehouse/connect.ts'

const world = vi.hoisted(() => ({
  steps: [] as unknown[],
  given: {} as Record<string, unknown>,
  failures: {} as Record<string, unknown>,
}))
vi.mock('pg', () => {
  const step = async (name: string, given?: unknown) => {
    world.steps.push(given === undefined ? name : [name, given])
    if (world.failures[name] !== undefined) throw world.failures[name]
  }
  class Client {
    connection = { stream: { destroy: () => void world.steps.push('destroy') } }
    constructor(options: Record<string, unknown>) {
      world.given = options
    }
    on(name: string, listener: (error: Error) => void) {
      world.steps.push(`hears ${name}`)
      listener(new Error('of the server'))
    }
    connect = () => step('connect')
    query = (given: unknown) => step('query', given)
    end = () => step('end')
  }
  class Pool extends Client {
    override on(name: string, listener: (given: never) => void) {
      world.steps.push(`pool hears ${name}`)
      listener((name === 'connect' ? { on: Client.prototype.on } : new Error('of the server')) as never)
    }
  }
  return { default: { Client, Pool } }
})

beforeEach(() => Object.assign(world, { steps: [], given: {}, failures: {} }))

const SETTINGS = [
  ...['client_encoding=UTF8', 'timezone=UTC', 'datestyle=ISO', 'lock_timeout=10000', 'statement_timeout=0'],
  ...['idle_in_transaction_session_timeout=0', 'idle_session_timeout=0', 'tcp_keepalives_idle=5'],
  ...['tcp_keepalives_interval=2', 'tcp_keepalives_count=3', 'standard_conforming_strings=on'],
]
const written = (settings: readonly string[]) => settings.map((setting) => `-c ${setting}`).join(' ')
const given = (more: object = {}) => ({
  ...{
    connectionString: 'postgres://there/db',
    application_name: 'intake-sync test',
    connectionTimeoutMillis: 10_000,
  },
  ...{ keepAlive: true, keepAliveInitialDelayMillis: 5_000, options: written(SETTINGS), ...more },
})
const unlimited = (query_timeout: number) => [
  'query',
  {
    text: expect.stringMatching(/^select set_config\('transaction_timeout', '0', false\) where /),
    query_timeout,
  },
]
const PLACE = { url: 'postgres://there/db', purpose: 'test' }

test('a session is opened with its settings, without a transaction timeout where the server knows one, and closing it ends the connection', async () => {
  const session = await openSession(PLACE)
  expect(world.given).toEqual(given())
  expect(world.steps).toEqual(['hears error', 'connect', unlimited(10_000)])
  await session.close()
  expect(world.steps.slice(3)).toEqual(['end'])
})

test('what a caller or the address sets is added, in an order in which ours wins', async () => {
  const url = 'postgres://there/db?options=-c%20a%3D1&sslmode=require&options=-c%20b%3D2'
  const more = { lockTimeoutMs: 70, connectTimeoutMs: 700, worker: '0123abcd', planner: ['jit=off', 'x=y'] }
  await openSession({ ...PLACE, url, ...more })
  const settings = SETTINGS.map((each) => each.replace('lock_timeout=10000', 'lock_timeout=70'))
  expect(world.given).toEqual(
    given({
      connectionString: 'postgres://there/db?sslmode=require',
      application_name: 'intake-sync test worker 0123abcd',
      connectionTimeoutMillis: 700,
      options: `-c a=1 -c b=2 ${written([...settings, 'jit=off', 'x=y'])}`,
    }),
  )
  expect(world.steps.at(-1)).toEqual(unlimited(700))
})

test.each([
  ['connect', 'ECONNREFUSED', 'warehouse_unreachable'],
  ['query', '57P03', 'starting'],
])('a session that does not open (%s) leaves no socket', async (step, code, expected) => {
  world.failures[step] = Object.assign(new Error('no'), { code })
  await expect(openSession(PLACE)).rejects.toMatchObject({ code: expected })
  expect(world.steps.at(-1)).toBe('destroy')
})

test('a session whose end fails is closed all the same', async () => {
  const session = await openSession(PLACE)
  world.failures.end = new Error('no')
  await session[Symbol.asyncDispose]()
})

test('a pool has the settings of a session for each of its connections, and no error of one ends the process', async () => {
  openPool({ ...PLACE, connections: 7, idleMs: 9, connectTimeoutMs: 300 })
  const { onConnect, ...options } = world.given
  expect(options).toEqual({
    ...given({ connectionTimeoutMillis: 300 }),
    ...{ max: 7, idleTimeoutMillis: 9, allowExitOnIdle: true },
  })
  expect(world.steps).toEqual(['pool hears error', 'pool hears connect', 'hears error'])
  world.steps = []
  const query = (asked: unknown) => Promise.resolve(void world.steps.push(['query', asked]))
  await (onConnect as (client: object) => Promise<void>)({ query })
  expect(world.steps).toEqual([unlimited(300)])
})
