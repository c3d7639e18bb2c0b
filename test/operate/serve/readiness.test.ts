/** Readiness on a busy machine, in simulated time: a late answer is no reason, and a warehouse that stays silent is one. */
import type { Kysely } from 'kysely'
import { expect, test, vi } from 'vitest'
import type { Clock } from '../../../src/core/clock.ts'
import { IntakeError } from '../../../src/core/errors.ts'
import { openReadiness, type Part, type Trouble } from '../../../src/operate/serve/admin.ts'
import { type BoundedQueries, openBoundedQueries } from '../../../src/warehouse/bounded-queries.ts'
import { migrationFiles } from '../../../src/warehouse/migrations.ts'
import type { Warehouse } from '../../../src/warehouse/tables.ts'
import { openWarehouse } from '../../e2e/support/scene.ts'

/** A warehouse that answers when the test says so, and within its limit otherwise; sleeping takes no time of the test. */
function openScene(parts: Partial<Record<Part, Trouble>> = {}) {
  let now = 0
  const queries: { readonly answer: () => void; readonly fail: (error: Error) => void }[] = []
  const bounded = {
    run: (_limits: unknown, _work: (db: Kysely<Warehouse>) => Promise<void>) =>
      new Promise<void>((answer, fail) => queries.push({ answer, fail })),
  } as unknown as BoundedQueries
  const sleepers: (() => void)[] = []
  const clock: Clock = { now: () => now, sleep: () => new Promise((wake) => void sleepers.push(wake)) }
  const readiness = openReadiness(bounded, parts, clock)
  return {
    queries,
    pass: (seconds: number) => {
      now += seconds * 1_000_000
    },
    /** The answer while the query is under way. */
    async late(part?: Part) {
      const reasons = readiness(part)
      await vi.waitFor(() => expect(queries.length).toBeGreaterThan(0))
      for (const wake of sleepers.splice(0)) wake()
      return await reasons
    },
    /** The answer once the query has its result. */
    async settled(settle: (query: (typeof queries)[number]) => void, part?: Part) {
      const reasons = readiness(part)
      await vi.waitFor(() => expect(queries.length).toBeGreaterThan(0))
      settle(queries.shift()!)
      return await reasons
    },
  }
}

const SLOW = ['database: the warehouse did not answer in time']
const answer = ({ answer: now }: { readonly answer: () => void }) => now()
const failWith =
  (code: string) =>
  ({ fail }: { readonly fail: (error: Error) => void }) =>
    fail(new IntakeError(`of ${code}`, { code, verdict: 'retry' } as never))

test('a query that takes seconds is waited for by all probes, and leaves the process ready', async () => {
  const { late, pass, queries, settled } = openScene()
  expect(await settled(answer)).toEqual([])
  for (let probe = 0; probe < 5; probe++) {
    pass(1.5)
    expect(await late()).toEqual([])
  }
  expect(queries).toHaveLength(1)
  expect(await settled(answer)).toEqual([])
})

test('slow answers leave a process ready whose probes are minutes apart', async () => {
  const { late, pass, settled } = openScene()
  expect(await settled(answer)).toEqual([])
  for (let probe = 0; probe < 3; probe++) {
    pass(120)
    expect(await late()).toEqual([])
    pass(7.9)
    expect(await late()).toEqual([])
    expect(await settled(answer)).toEqual([])
  }
})

test('a warehouse that has not answered for eight seconds is a reason, until it answers', async () => {
  const { late, pass, settled } = openScene()
  expect(await late()).toEqual(SLOW)
  expect(await settled(answer)).toEqual([])
  pass(60)
  expect(await late()).toEqual([])
  pass(8)
  expect(await late()).toEqual(SLOW)
  expect(await settled(failWith('warehouse_slow'))).toEqual(['database: of warehouse_slow'])
  pass(1)
  expect(await late()).toEqual(['database: of warehouse_slow'])
  expect(await settled(answer)).toEqual([])
})

test('a warehouse that refuses, or is behind, is a reason at once, also for a probe whose query is late', async () => {
  const { late, pass, settled } = openScene({ ingest: () => 'is full' })
  expect(await settled(answer)).toEqual(['ingest: is full'])
  expect(await settled(failWith('warehouse_unreachable'))).toEqual([
    'database: of warehouse_unreachable',
    'ingest: is full',
  ])
  expect(await settled(failWith('schema'))).toEqual(['schema: of schema', 'ingest: is full'])
  pass(2)
  expect(await late()).toEqual(['schema: of schema', 'ingest: is full'])
})

test('after an outage of any kind and length, the first probe that finds the warehouse well is answered ready', async () => {
  const { late, pass, queries, settled } = openScene()
  for (const code of ['warehouse_unreachable', 'warehouse_slow', 'schema', 'invalid_data']) {
    const reason = [`${code === 'schema' ? 'schema' : 'database'}: of ${code}`]
    for (let probe = 0; probe < 3; probe++) {
      // Each failed query is followed by another, which belongs to a later probe.
      expect(await settled(failWith(code))).toEqual(reason)
      expect(queries).toHaveLength(0)
      pass(3_600)
      expect(await late()).toEqual(reason)
      expect(queries).toHaveLength(1)
    }
    expect(await settled(answer)).toEqual([])
    expect(queries).toHaveLength(0)
    expect(await late()).toEqual([])
    expect(await settled(answer)).toEqual([])
  }
})

test('a worker has a second and a half to succeed again; other parts are believed at once', async () => {
  await using warehouse = await openWarehouse()
  await using bounded = openBoundedQueries(warehouse.url)
  let now = 0
  let rounds = 0
  const clock: Clock = {
    now: () => now,
    async sleep(milliseconds) {
      now += milliseconds * 1_000
      // The query has its time too.
      await new Promise((resolve) => setTimeout(resolve, milliseconds > 1_000 ? 60_000 : 0).unref())
    },
  }
  const work = () => {
    rounds += 1
    return rounds < 5 ? 'a lock was not free' : null
  }
  let lasting = 0
  const drain = () => {
    lasting += 1
    return lasting === 1 ? 'stopped' : null
  }
  expect(await openReadiness(bounded, { work }, clock)('work')).toEqual([])
  expect(await openReadiness(bounded, { drain }, clock)('drain')).toEqual(['drain: stopped'])
  const before = now
  const stays = await openReadiness(bounded, { work: () => 'refused' }, clock)('work')
  expect(stays).toEqual(['work: refused'])
  expect(now - before).toBeLessThan(4_000_000)
})

test('a probe reads no migration, which a busy machine does slowly', async () => {
  await using warehouse = await openWarehouse()
  await using bounded = openBoundedQueries(warehouse.url)
  const read = vi.spyOn(migrationFiles, 'getMigrations')
  const clock = { now: () => performance.now() * 1_000, sleep: () => new Promise<void>(() => {}) }
  try {
    expect(await openReadiness(bounded, {}, clock)()).toEqual([])
    expect(read).not.toHaveBeenCalled()
  } finally {
    read.mockRestore()
  }
})
