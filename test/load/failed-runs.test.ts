/** How a run that failed is ended by its process, which other processes may still keep waiting. */
import { beforeEach, expect, test, vi } from 'vitest'
import { IntakeError } from '../../src/core/errors.ts'
import { storeFailure } from '../../src/load/runs.ts'

const world = vi.hoisted(() => ({
  asked: [] as unknown[],
  /** Whether the run goes on without its process, and after how many tries it is closed. */
  goesOn: false,
  closesAfter: 1,
  fails: null as string | null,
}))

/** Notes the step, which may fail. */
const note = vi.hoisted(() => (step: unknown) => {
  world.asked.push(step)
  if (world.fails !== null && JSON.stringify(step).includes(world.fails))
    throw new Error('the warehouse is away')
})

vi.mock('../../src/warehouse/connect.ts', async (original) => ({
  ...(await original<object>()),
  async openSession(options: object) {
    note(options)
    return { db: 'db', [Symbol.asyncDispose]: async () => note('closes its session') }
  },
}))
vi.mock('../../src/load/claims.ts', async (original) => ({
  ...(await original<object>()),
  async goesOn(_db: unknown, runId: string) {
    note(['goes on?', runId])
    return world.goesOn
  },
}))
vi.mock('../../src/load/lost-slices.ts', async (original) => ({
  ...(await original<object>()),
  async closeAbandoned(_db: unknown, runId: string, end: object) {
    note(['closes', runId, end])
    world.closesAfter -= 1
    return world.closesAfter <= 0
  },
  cancelSlices: async (_db: unknown, runId: string, _which: unknown, why: string) =>
    note(['cancels', runId, why]),
}))
vi.mock('../../src/core/clock.ts', async (original) => {
  const { systemClock } = await original<{ systemClock: object }>()
  return { systemClock: { ...systemClock, sleep: async (pause: number) => note(['waits', pause]) } }
})

beforeEach(() => Object.assign(world, { asked: [], goesOn: false, closesAfter: 1, fails: null }))

const SESSION = { url: 'postgres://w', purpose: 'end of a run' }
const CLOSED = 'closes its session'
const failure = (hint?: string) =>
  new IntakeError('no disk', { code: 'internal', verdict: 'stop', ...(hint === undefined ? {} : { hint }) })
const store = (status: 'failed' | 'interrupted', hint?: string) =>
  storeFailure('postgres://w', '7', status, failure(hint))

test('a run that failed is closed with its message and hint, unless workers continue it', async () => {
  await store('failed', 'make room')
  const end = { status: 'failed', error: 'no disk — make room' }
  expect(world.asked).toEqual([SESSION, ['goes on?', '7'], ['closes', '7', end], CLOSED])
  Object.assign(world, { asked: [], goesOn: true })
  await store('failed', 'make room')
  expect(world.asked).toEqual([SESSION, ['goes on?', '7'], CLOSED])
})

test('a run that was stopped is closed also if workers continue it', async () => {
  Object.assign(world, { goesOn: true })
  await store('interrupted')
  expect(world.asked).toEqual([SESSION, ['closes', '7', { status: 'interrupted', error: 'no disk' }], CLOSED])
})

test('a run that others still keep is closed after five tries at most, and its streams are canceled before each', async () => {
  const end = { status: 'interrupted', error: 'no disk' }
  const again = [
    ['cancels', '7', 'no disk'],
    ['waits', 200],
    ['closes', '7', end],
  ]
  world.closesAfter = 3
  await store('interrupted')
  expect(world.asked).toEqual([SESSION, ['closes', '7', end], ...again, ...again, CLOSED])
  Object.assign(world, { asked: [], closesAfter: 100 })
  await store('interrupted')
  const tries = world.asked.filter((step) => Array.isArray(step) && step[0] === 'closes')
  expect([tries.length, world.asked.at(-1)]).toEqual([5, CLOSED])
})

test.each(['postgres://w', 'goes on?', 'closes', 'cancels', CLOSED])(
  'a warehouse that is away then (%j) hides no error of the run',
  async (fails) => {
    Object.assign(world, { fails, closesAfter: 2 })
    await expect(store('failed')).resolves.toBeUndefined()
  },
)
