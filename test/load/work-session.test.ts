/** How the session of a worker is opened: named, limited and locked before it listens; and closed where it cannot be used. */
import { hostname } from 'node:os'
import { beforeEach, expect, test, vi } from 'vitest'
import { openWorkSession } from '../../src/load/claims.ts'

const world = vi.hoisted(() => ({ steps: [] as unknown[], fails: '' }))

vi.mock('../../src/warehouse/connect.ts', async (original) => ({
  ...(await original<object>()),
  async openSession(options: object) {
    world.steps.push(options)
    return {
      db: 'its database',
      client: { query: async (text: string) => note(text) },
      close: async () => note('closed'),
    }
  },
}))
vi.mock('../../src/warehouse/locks.ts', async (original) => ({
  ...(await original<object>()),
  lockForSession: async (...asked: unknown[]) => note(asked.join(' ')),
}))

const note = vi.hoisted(() => (step: string) => {
  world.steps.push(step)
  if (world.fails !== '' && step.startsWith(world.fails)) throw new Error(`${world.fails} failed`)
})

beforeEach(() => Object.assign(world, { steps: [], fails: '' }))

const OWNER = `${hostname()}:${process.pid}:aaaaaaa1`
const SESSION = {
  ...{ url: 'postgres://w', purpose: 'work', worker: 'aaaaaaa1', lockTimeoutMs: 3_000 },
  planner: ['idle_in_transaction_session_timeout=8000'],
}
const LOCK = `its database worker ${OWNER}`
const LISTEN = 'listen intake_slices'

test('the lock of a worker names host, process and worker, and is taken before the session listens', async () => {
  const { owner, session } = await openWorkSession('postgres://w', 'aaaaaaa1')
  expect([owner, session.db]).toEqual([OWNER, 'its database'])
  expect(world.steps).toEqual([SESSION, LOCK, LISTEN])
})

test('a session that is of a run is named otherwise, so that it does not count as a worker, and has its own limit', async () => {
  await openWorkSession('postgres://w', 'aaaaaaa1', { isOfRun: true, idleMs: 50 })
  expect(world.steps).toEqual([
    { ...SESSION, purpose: 'backfill', planner: ['idle_in_transaction_session_timeout=50'] },
    ...[LOCK, LISTEN],
  ])
})

test.each([
  ['the lock', 'its', [SESSION, LOCK, 'closed']],
  ['listening', 'listen', [SESSION, LOCK, LISTEN, 'closed']],
])('a session that cannot be used is closed: %s failed', async (_, step, steps) => {
  world.fails = step
  await expect(openWorkSession('postgres://w', 'aaaaaaa1')).rejects.toThrow(`${step} failed`)
  expect(world.steps).toEqual(steps)
})
