/** Probes share few connections, end in time whatever the server does, and recover with it. */
import { type Kysely, sql } from 'kysely'
import { expect, it, onTestFinished, vi } from 'vitest'
import { systemClock } from '../../src/core/clock.ts'
import { openReadiness } from '../../src/operate/serve/admin.ts'
import { boundedQuery, openBoundedQueries } from '../../src/warehouse/bounded-queries.ts'
import type { Warehouse } from '../../src/warehouse/tables.ts'
import { openOwnServer } from '../ingest/support/own-server.ts'
import { createTestDatabase } from '../support/database.ts'
import { startOwnTime } from '../support/own-time.ts'

const PROBE = { purpose: 'probe', milliseconds: 60_000 }
const CONNECTIONS = 4

type Database = Kysely<Warehouse>

const pidOf = async (db: Database) =>
  (await sql<{ pid: number }>`select pg_backend_pid() as pid`.execute(db)).rows[0]!.pid

const sleepFor = (seconds: number) => async (db: Database) => {
  await sql`select pg_sleep(${seconds})`.execute(db)
}

it('50 probes at once use at most four connections, and 50 in a row use one of them', async () => {
  await using database = await createTestDatabase()
  await using bounded = openBoundedQueries(database.url)
  const probe = () => bounded.run(PROBE, pidOf)
  const atOnce = new Set(await Promise.all(Array.from({ length: 50 }, probe)))
  expect(atOnce.size).toBeLessThanOrEqual(CONNECTIONS)
  const inTurn = new Set<number>()
  for (let time = 0; time < 50; time++) inTurn.add(await probe())
  expect(inTurn.size).toBe(1)
  expect(atOnce).toContain([...inTurn][0])
})

it('a query shows its purpose and has its own limit, also on a connection that others used', async () => {
  await using database = await createTestDatabase()
  await using bounded = openBoundedQueries(database.url, 1)
  const settings = async (db: Database) =>
    (
      await sql<{ limit: string; name: string }>`
        select current_setting('statement_timeout') as limit, current_setting('application_name') as name`.execute(
        db,
      )
    ).rows[0]
  const first = await bounded.run({ purpose: 'readiness', milliseconds: 5_000 }, settings)
  const second = await bounded.run({ purpose: 'metrics', milliseconds: 7_500 }, settings)
  expect(first).toEqual({ limit: '5100ms', name: 'intake-sync readiness' })
  expect(second).toEqual({ limit: '7600ms', name: 'intake-sync metrics' })
})

it('a query that is late ends, here and in Postgres, and its connection is not used again', async () => {
  await using database = await createTestDatabase()
  await using bounded = openBoundedQueries(database.url, 1)
  const before = await bounded.run(PROBE, pidOf)
  using time = startOwnTime()
  const late = bounded.run({ purpose: 'late probe', milliseconds: 300 }, sleepFor(60))
  await expect(late).rejects.toMatchObject({
    ...{ code: 'warehouse_slow', verdict: 'retry', message: 'the warehouse did not answer in time' },
    hint: 'look at its load and its locks (pg_stat_activity)',
  })
  expect(time.milliseconds).toBeLessThan(2_000)
  const after = await bounded.run(PROBE, pidOf)
  expect(after).not.toBe(before)
  await expect
    .poll(() =>
      bounded.run(PROBE, async (db) => {
        const { rows } = await sql`select 1 from pg_stat_activity where pid = ${before}`.execute(db)
        return rows.length
      }),
    )
    .toBe(0)
})

it('the connection of a late query is closed at once, though Postgres still works on it', async () => {
  await using database = await createTestDatabase()
  await using others = openBoundedQueries(database.url, 1)
  await others.run(PROBE, pidOf)
  const open = () => process.getActiveResourcesInfo().filter((name) => name === 'TCPSocketWrap').length
  const before = open()
  await using bounded = openBoundedQueries(database.url, 1)
  let pid = 0
  const late = bounded.run({ purpose: 'late probe', milliseconds: 300 }, async (db) => {
    pid = await pidOf(db)
    await sql`set statement_timeout = 0`.execute(db)
    await sleepFor(60)(db)
  })
  await expect(late).rejects.toMatchObject({ code: 'warehouse_slow' })
  await expect.poll(open).toBe(before)
  await others.run(PROBE, (db) => sql`select pg_terminate_backend(${pid}, 5000)`.execute(db))
})

it('a connection that breaks between two queries fails the second one, and not the process', async () => {
  await using database = await createTestDatabase()
  await using bounded = openBoundedQueries(database.url, 1)
  await using others = openBoundedQueries(database.url, 1)
  const uncaught: unknown[] = []
  const note = (error: unknown) => void uncaught.push(error)
  process.on('uncaughtException', note)
  try {
    const broken = bounded.run(PROBE, async (db) => {
      const pid = await pidOf(db)
      await others.run(PROBE, (other) => sql`select pg_terminate_backend(${pid}, 5000)`.execute(other))
      // It ends while no query waits for an answer.
      await systemClock.sleep(200)
      await expect.poll(() => pidOf(db).catch(() => 'broken')).toBe('broken')
      await pidOf(db)
    })
    await expect(broken).rejects.toMatchObject({ verdict: 'retry' })
    await bounded.run(PROBE, pidOf)
  } finally {
    process.off('uncaughtException', note)
  }
  expect(uncaught).toEqual([])
})

it('a query that fails leaves neither transaction nor lock to the next', async () => {
  await using database = await createTestDatabase()
  await using bounded = openBoundedQueries(database.url, 1)
  const failing = bounded.run(PROBE, async (db) => {
    await sql`select pg_advisory_lock(4711)`.execute(db)
    await sql`begin`.execute(db)
    await sql`select nothing from nowhere`.execute(db)
  })
  await expect(failing).rejects.toThrow()
  const isFree = async (db: Database) =>
    (await sql<{ free: boolean }>`select pg_try_advisory_lock(4711) as free`.execute(db)).rows[0]!.free
  await expect.poll(() => bounded.run(PROBE, isFree)).toBe(true)
})

it('a probe that waits for a connection is late too, and takes none with it', async () => {
  await using database = await createTestDatabase()
  await using bounded = openBoundedQueries(database.url, 1)
  let end = () => {}
  const ended = new Promise<void>((resolve) => {
    end = resolve
  })
  let busy = Promise.resolve()
  await new Promise<void>((started) => {
    busy = bounded.run(PROBE, () => {
      started()
      return ended
    })
  })
  using time = startOwnTime()
  await expect(bounded.run({ ...PROBE, milliseconds: 200 }, pidOf)).rejects.toMatchObject({
    code: 'warehouse_slow',
  })
  expect(time.milliseconds).toBeLessThan(2_000)
  end()
  await busy
  expect(await bounded.run(PROBE, pidOf)).toBeGreaterThan(0)
})

it('neither a query that failed nor closing leaves a timer, for which the process would have to wait', async () => {
  const timers: NodeJS.Timeout[] = []
  const { setTimeout: real } = globalThis
  const spied = vi.spyOn(globalThis, 'setTimeout').mockImplementation(((
    ...words: Parameters<typeof real>
  ) => {
    const timer = real(...words)
    timers.push(timer)
    return timer
  }) as typeof setTimeout)
  onTestFinished(() => spied.mockRestore())
  const bounded = openBoundedQueries('postgres://nobody@127.0.0.1:1/never')
  await expect(bounded.run(PROBE, pidOf)).rejects.toMatchObject({ code: 'warehouse_unreachable' })
  await bounded.close()
  expect(timers.length).toBeGreaterThan(1)
  const left = timers.filter(
    (timer) => timer.hasRef() && !(timer as unknown as { _destroyed: boolean })._destroyed,
  )
  expect(left).toEqual([])
})

it('a single query closes its connection', async () => {
  await using database = await createTestDatabase()
  await using bounded = openBoundedQueries(database.url)
  const pid = await boundedQuery({ ...PROBE, url: database.url }, pidOf)
  await expect
    .poll(() =>
      bounded.run(PROBE, async (db) => {
        const { rows } = await sql`select 1 from pg_stat_activity where pid = ${pid}`.execute(db)
        return rows.length
      }),
    )
    .toBe(0)
})

it('closing waits a second for queries under way, and then ends their connections', async () => {
  await using database = await createTestDatabase()
  const bounded = openBoundedQueries(database.url, 1)
  let isBegun = false
  const late = bounded.run({ ...PROBE, milliseconds: 20_000 }, async (db) => {
    isBegun = true
    // Postgres ends it when it notices that nobody listens, or at its limit.
    await sql`set client_connection_check_interval = '100ms'`.execute(db)
    await sleepFor(60)(db)
  })
  const ended = late.catch((error: { readonly code: string }) => error.code)
  await expect.poll(() => isBegun).toBe(true)
  await bounded.close()
  expect(await ended).toBe('warehouse_unreachable')
})

it('readiness fails in its time while Postgres hangs, is away or restarts, and recovers', async () => {
  await using server = await openOwnServer()
  await using bounded = openBoundedQueries(server.url)
  const readiness = openReadiness(bounded, {}, systemClock)
  const probe = async () => {
    using time = startOwnTime()
    const reasons = await readiness()
    expect(time.milliseconds).toBeLessThan(2_000)
    return reasons
  }
  expect(await probe()).toEqual([])
  const resume = server.hang()
  const probes = async () => (await Promise.all(Array.from({ length: 20 }, probe))).flat()
  await expect.poll(probes).toEqual(Array(20).fill(expect.stringMatching(/^database: /)))
  resume()
  await expect.poll(probe).toEqual([])
  await server.stop()
  expect(await probe()).toEqual([expect.stringMatching(/^database: /)])
  await server.start()
  await expect.poll(probe).toEqual([])
})
