/** A round of housekeeping: its steps in order, what each is given, and that rounds neither overlap nor keep a process alive. */
import pino from 'pino'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { IntakeError } from '../../../src/core/errors.ts'
import { openHousekeeping } from '../../../src/operate/serve/parts.ts'
import type { Pruned } from '../../../src/operate/serve/retention.ts'

const world = vi.hoisted(() => ({
  steps: [] as unknown[],
  failures: {} as Record<string, unknown>,
  days: { created: 0, dropped: 0, moved: 0 },
  bodies: 0,
  pruned: { history: 0, runs: 0, deadLetters: 0, ticks: 0, deliveries: 0 } as Pruned,
  /** The first step ends once this does. */
  slow: null as Promise<void> | null,
  async step<Result>(name: string, given: unknown, result: Result): Promise<Result> {
    world.steps.push(given === undefined ? name : [name, given])
    if (name === 'days') await world.slow
    if (world.failures[name] !== undefined) throw world.failures[name]
    return result
  },
}))
vi.mock('../../../src/ingest/inbox/days.ts', () => ({
  keepInboxDays: (url: string, age: object) => world.step('days', { url, ...age }, world.days),
}))
vi.mock('../../../src/load/erased-dead-letters.ts', () => ({
  removeSettledBodies: (db: string, age: object) => world.step('bodies', { db, ...age }, world.bodies),
}))
vi.mock('../../../src/operate/health/received.ts', () => ({
  dropOldCounts: (url: string) => world.step('counts', url, undefined),
}))
vi.mock('../../../src/operate/serve/retention.ts', () => ({
  openRetention: async (url: string) => {
    await world.step('open', url, undefined)
    return { db: 'db', [Symbol.asyncDispose]: () => world.step('close', undefined, undefined) }
  },
  prune: (options: object) => world.step('prune', options, world.pruned),
}))
vi.mock('../../../src/operate/health/silence-signs.ts', () => ({
  settleDeliveries: (db: string, days: number) => world.step('deliveries', [db, days], undefined),
}))

const said: Record<string, unknown>[] = []
const logger = pino(
  { base: null, timestamp: false },
  { write: (line: string) => void said.push(JSON.parse(line)) },
)
const NOW = new Date('2026-03-04T05:06:07.000Z')
const HOUR = 3_600_000

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval', 'Date'], now: NOW })
  Object.assign(world, { steps: [], failures: {}, bodies: 0, slow: null })
  world.days = { created: 0, dropped: 0, moved: 0 }
  world.pruned = { history: 0, runs: 0, deadLetters: 0, ticks: 0, deliveries: 0 }
  said.length = 0
})
afterEach(() => void vi.useRealTimers())

const url = 'postgres://there'
const retention = { historyDays: 12, runDays: null }
const open = (more: object = {}) => openHousekeeping({ url, inboxDays: 30, logger, ...more })
/** After everything that was caused: no step here waits for more than promises. */
const turns = () => new Promise((resolve) => setImmediate(resolve))
const names = () => world.steps.map((step) => (Array.isArray(step) ? step[0] : step))

test('days first, then bodies, counts, what is older than its retention, and deliveries, in one session; nothing is said of nothing', async () => {
  await using _ = await open({ retention })
  const age = { days: 30, now: NOW }
  expect(world.steps).toEqual([
    ['days', { url, ...age }],
    ['open', url],
    ['bodies', { db: 'db', ...age }],
    ['counts', url],
    ['prune', { ...retention, db: 'db', now: NOW, forMs: 600_000 }],
    ['deliveries', ['db', 30]],
    'close',
  ])
  expect(said).toEqual([])
})

test('without a retention nothing is pruned', async () => {
  await using _ = await open()
  expect(names()).toEqual(['days', 'open', 'bodies', 'counts', 'deliveries', 'close'])
})

test.each(['history', 'runs', 'deadLetters', 'ticks', 'deliveries'] as const)(
  'what was removed is said, also where it is %s alone',
  async (kind) => {
    world.pruned = { ...world.pruned, [kind]: 1 }
    await using _ = await open({ retention })
    expect(said).toEqual([{ level: 30, ...world.pruned, msg: 'expired rows removed' }])
  },
)

test.each(['days', 'open', 'bodies', 'counts', 'prune', 'deliveries'])(
  'a failure of one step (%s) ends the round, and is reported; the next round is whole',
  async (name) => {
    world.failures[name] = new IntakeError('away', { code: 'warehouse_unreachable', verdict: 'retry' })
    await using _ = await open({ retention })
    const all = ['days', 'open', 'bodies', 'counts', 'prune', 'deliveries']
    const begun = all.slice(0, all.indexOf(name) + 1)
    expect(names()).toEqual([...begun, ...(all.indexOf(name) > 1 ? ['close'] : [])])
    expect(said).toEqual([
      { level: 40, code: 'warehouse_unreachable', msg: 'housekeeping failed; retried in an hour' },
    ])
    Object.assign(world, { failures: {}, steps: [] })
    vi.advanceTimersByTime(HOUR)
    await turns()
    expect(names()).toEqual([...all, 'close'])
  },
)

test('a round that takes longer than an hour is followed by the next, and does not run at the same time; no process waits for a round', async () => {
  const set = vi.spyOn(globalThis, 'setInterval')
  const housekeeping = await open()
  expect(set.mock.results.map(({ value }) => (value as NodeJS.Timeout).hasRef())).toEqual([false])
  set.mockRestore()
  let end = () => {}
  world.slow = new Promise((resolve) => {
    end = resolve
  })
  world.steps = []
  vi.advanceTimersByTime(2 * HOUR)
  await turns()
  expect(names()).toEqual(['days'])
  end()
  await turns()
  const whole = ['days', 'open', 'bodies', 'counts', 'deliveries', 'close']
  expect(names()).toEqual([...whole, ...whole])
  await housekeeping[Symbol.asyncDispose]()
  vi.advanceTimersByTime(5 * HOUR)
  await turns()
  expect(names()).toHaveLength(2 * whole.length)
})
