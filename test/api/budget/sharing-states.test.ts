/** What one process of a budget may do while its store is away, while it explains a rejection, and after it has left. */
import type { Logger } from 'pino'
import { expect, test } from 'vitest'
import { type Division, emptyDivision } from '../../../src/api/budget/division.ts'
import { Limit } from '../../../src/api/budget/limit.ts'
import { openSharing } from '../../../src/api/budget/sharing.ts'
import { openSimulatedClock } from './processes.ts'

const SECOND = 1_000_000

/** A process that has `demand`, and a store that answers at once. */
function open(stored: Partial<Division> = {}) {
  const { clock, run } = openSimulatedClock()
  const limit = new Limit(4)
  const store = { division: { ...emptyDivision(), ...stored } as Division, isAway: false, updates: 0 }
  const demand = { waiting: 1, urgent: 0 }
  const sharing = openSharing({
    ...{ limit, clock, demand: () => demand, changed: () => {} },
    logger: { warn: () => {} } as unknown as Logger,
    store: {
      name: 'me',
      async update(change) {
        store.updates += 1
        if (store.isAway) throw new Error('away')
        store.division = change(store.division, clock.now()).division
      },
      listen: () => {},
      close: async () => {},
    },
  })
  const refuse = () => limit.rejected(limit.sent(clock.now()), clock.now(), 5 * SECOND)
  return { sharing, store, demand, limit, refuse, run: (s: number) => run(clock.now() + s * SECOND) }
}

const learned = {
  ...{ count: 4, window: SECOND, margin: 0, spread: 1.2, proven: null, contradictions: 0 },
  ...{ unsure: false, raise: 0, waitBeforeRaise: 30 * SECOND },
}
const other = { since: 1, wants: 0, urgent: 0, sends: [], isFixed: false, until: Number.MAX_SAFE_INTEGER }

test('while the store is away, a process uses its share; without a share, it sends on its own', async () => {
  const joined = open({ model: learned, revision: 1, pool: [[0, 4]] })
  joined.sharing.mayGo()
  await joined.run(0.1)
  joined.store.isAway = true
  await joined.run(3)
  expect([joined.sharing.mayGo(), joined.limit.share?.count]).toEqual([true, 4])
  const alone = open()
  alone.store.isAway = true
  alone.sharing.mayGo()
  await alone.run(0.1)
  expect([alone.sharing.mayGo(), alone.limit.share]).toEqual([true, null])
})

test('a process that waits for the explanation of its rejection goes on when the store is away', async () => {
  const { sharing, store, limit, refuse, run } = open({ holders: { a: { ...other, permits: 0 } } })
  sharing.mayGo()
  await run(0.1)
  refuse()
  store.isAway = true
  sharing.noteChange()
  expect(limit.isBlocked).toBe(true)
  await run(0.2)
  expect([limit.isBlocked, sharing.mayGo()]).toEqual([false, true])
})

test('a process that may not raise the limit does not report a different one', async () => {
  const { sharing, store, limit, run } = open({
    ...{ model: learned, revision: 1, pool: [[0, 2]], holders: { a: { ...other, permits: 2 } } },
  })
  sharing.mayGo()
  await run(0.1)
  limit.adopt({ ...learned, count: 9 }, 1_000 * SECOND)
  sharing.noteChange()
  await run(0.1)
  expect([limit.mayRaise, store.updates]).toEqual([false, 1])
})

test('a process stays until its rejection is explained, even if it has nothing to send, and then leaves', async () => {
  const { sharing, store, demand, refuse, run } = open({ holders: { a: { ...other, permits: 0 } } })
  sharing.mayGo()
  await run(0.1)
  refuse()
  sharing.noteChange()
  demand.waiting = 0
  await run(3)
  expect(store.division).toMatchObject({ episode: { owner: 'me' }, holders: { me: {} } })
  await run(6)
  expect([store.division.episode, Object.keys(store.division.holders)]).toEqual([null, ['a']])
})

test('a process that has left sends no requests until it has joined again', async () => {
  const { sharing, store, demand, run } = open()
  sharing.mayGo()
  await run(0.1)
  demand.waiting = 0
  await run(1)
  expect(store.division.holders).toEqual({})
  demand.waiting = 1
  expect(sharing.mayGo()).toBe(false)
  await run(0.1)
  expect([sharing.mayGo(), Object.keys(store.division.holders)]).toEqual([true, ['me']])
})
