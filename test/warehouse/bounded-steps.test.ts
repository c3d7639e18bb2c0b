/** The steps of a query with a deadline: its connection, its limit, and what becomes of both; the pool is played here. */
import { sql } from 'kysely'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { boundedQuery, openBoundedQueries } from '../../src/warehouse/bounded-queries.ts'

const world = vi.hoisted(() => ({
  steps: [] as unknown[],
  opened: [] as unknown[],
  /** Connects; replaced by tests. */
  connect: async (): Promise<unknown> => undefined,
  end: async (): Promise<void> => {},
}))
vi.mock('../../src/warehouse/connect.ts', async (original) => ({
  ...(await original<object>()),
  openPool: (options: object) => {
    world.opened.push(options)
    return {
      connect: () => {
        world.steps.push('connect')
        return world.connect()
      },
      end: () => {
        world.steps.push('end')
        return world.end()
      },
    }
  },
}))

const client = {
  async query(text: string | { text: string }, values: readonly unknown[] = []) {
    const statement = (typeof text === 'string' ? text : text.text).replace(/\s+/g, ' ').trim()
    world.steps.push([statement, ...values])
    return { command: 'SELECT', rowCount: 1, rows: [{ ok: true }] }
  },
  release: (isBroken?: boolean) => void world.steps.push(`release ${isBroken}`),
  connection: { stream: { destroy: () => void world.steps.push('destroy') } },
}
const LIMITS = { purpose: 'probe', milliseconds: 5_000 }
const BEGUN = [
  'connect',
  [
    `select set_config('statement_timeout', $1, false), set_config('application_name', $2, false)`,
    ...['5100', 'intake-sync probe'],
  ],
]
const taken = () => world.steps.splice(0)
const never = () => new Promise<never>(() => {})

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
  Object.assign(world, { steps: [], opened: [], connect: async () => client, end: async () => {} })
})
afterEach(() => void vi.useRealTimers())

test('there are four connections, which are closed after half a minute; a single query has one of its own', async () => {
  openBoundedQueries('postgres://there')
  await boundedQuery({ url: 'postgres://here', ...LIMITS }, async () => 'done')
  const shared = { purpose: 'bounded query', idleMs: 30_000 }
  expect(world.opened).toEqual([
    { ...shared, url: 'postgres://there', connections: 4 },
    { ...shared, url: 'postgres://here', connections: 1 },
  ])
  expect(taken()).toEqual([...BEGUN, 'release undefined', 'end'])
})

test('a query gets its limit and its name before its work, then its connection is for others', async () => {
  const bounded = openBoundedQueries('postgres://there')
  const work = () => bounded.run(LIMITS, async (db) => (await sql`select 1`.execute(db)).rows)
  expect(await work()).toEqual([{ ok: true }])
  expect(taken()).toEqual([...BEGUN, ['select 1'], 'release undefined'])
  expect(vi.getTimerCount()).toBe(0)
})

test('one that fails or is late loses its connection at once', async () => {
  const bounded = openBoundedQueries('postgres://there')
  const failing = bounded.run(LIMITS, () => Promise.reject(Object.assign(new Error('no'), { code: '42501' })))
  await expect(failing).rejects.toMatchObject({ code: 'privilege' })
  expect(taken()).toEqual([...BEGUN, 'release true', 'destroy'])
  const late = expect(bounded.run(LIMITS, never)).rejects.toMatchObject({ code: 'warehouse_slow' })
  await vi.advanceTimersByTimeAsync(4_999)
  expect(taken()).toEqual(BEGUN)
  await vi.advanceTimersByTimeAsync(1)
  await late
  expect(taken()).toEqual(['release true', 'destroy'])
})

test('a connection that comes too late serves others, and one that does not come is no error of its own', async () => {
  const bounded = openBoundedQueries('postgres://there')
  for (const isOpened of [true, false]) {
    let settle = () => {}
    world.connect = () =>
      new Promise((resolve, reject) => {
        settle = () => (isOpened ? resolve(client) : reject(new Error('refused')))
      })
    const late = expect(bounded.run(LIMITS, async () => 'done')).rejects.toMatchObject({
      code: 'warehouse_slow',
    })
    await vi.advanceTimersByTimeAsync(5_000)
    await late
    expect(taken()).toEqual(['connect'])
    settle()
    await vi.advanceTimersByTimeAsync(0)
    expect(taken()).toEqual(isOpened ? ['release undefined'] : [])
  }
})

test('closing ends the pool once, waits a second for what is under way, and then ends that', async () => {
  world.end = never
  const bounded = openBoundedQueries('postgres://there')
  const ending = { end: (_: string) => {} }
  const running = bounded.run(
    LIMITS,
    () => new Promise<string>((resolve) => void Object.assign(ending, { end: resolve })),
  )
  await vi.advanceTimersByTimeAsync(0)
  expect(taken()).toEqual(BEGUN)
  let closed = 0
  const closing = [bounded.close(), bounded.close(), bounded[Symbol.asyncDispose]()].map((each) =>
    each.then(() => {
      closed += 1
    }),
  )
  await vi.advanceTimersByTimeAsync(999)
  expect([taken(), closed]).toEqual([['end'], 0])
  await vi.advanceTimersByTimeAsync(1)
  await Promise.all(closing)
  expect(taken()).toEqual(['release true', 'destroy'])
  // What ends after that has no connection to give back.
  ending.end('done')
  expect(await running).toBe('done')
  expect(taken()).toEqual([])
})

test('closing an idle pool waits for nothing else', async () => {
  const bounded = openBoundedQueries('postgres://there')
  await bounded.close()
  expect(taken()).toEqual(['end'])
})
