/** When one process exchanges permits with the store: at once, after a pause, four times a second, or not at all. */
import type { Logger } from 'pino'
import { expect, test } from 'vitest'
import { type Division, emptyDivision } from '../../../src/api/budget/division.ts'
import { Limit } from '../../../src/api/budget/limit.ts'
import { openSharing } from '../../../src/api/budget/sharing.ts'
import type { Clock } from '../../../src/core/clock.ts'
import { openSimulatedClock } from './processes.ts'

const SECOND = 1_000_000

/** A process that has `demand`, and a store that answers after a millisecond. */
function open(stored: Partial<Division> = {}, limit = new Limit(4)) {
  const { clock, run } = openSimulatedClock()
  const store = {
    division: { ...emptyDivision(), ...stored } as Division,
    isAway: false,
    hangs: false,
    updates: 0,
    closes: 0,
    notify: () => {},
  }
  const demand = { waiting: 1, urgent: 0 }
  const timers = { open: 0 }
  const counted: Clock = {
    now: clock.now,
    sleep(milliseconds, signal) {
      timers.open += 1
      return clock.sleep(milliseconds, signal).finally(() => {
        timers.open -= 1
      })
    },
  }
  const sharing = openSharing({
    ...{ limit, clock: counted, demand: () => demand, changed: () => {} },
    logger: { warn: () => {} } as unknown as Logger,
    store: {
      name: 'me',
      async update(change) {
        store.updates += 1
        await clock.sleep(1)
        if (store.hangs) await new Promise(() => {})
        if (store.isAway) throw new Error('away')
        store.division = change(store.division, clock.now()).division
      },
      listen: (listener) => {
        store.notify = listener
      },
      close: async () => {
        store.closes += 1
      },
    },
  })
  const refuse = () => limit.rejected(limit.sent(clock.now()), clock.now(), 5 * SECOND)
  return { sharing, store, demand, limit, timers, refuse, run: (s: number) => run(clock.now() + s * SECOND) }
}

const other = { since: 1, wants: null, urgent: 0, sends: [], isFixed: false, until: Number.MAX_SAFE_INTEGER }
const model = { count: 4, window: SECOND, margin: 0, spread: 1.2, proven: null, contradictions: 0 }
const learned = { ...model, unsure: false, raise: 0, waitBeforeRaise: 30 * SECOND }

test('a rejection is reported fifty milliseconds after the last exchange, and no sooner', async () => {
  const { sharing, store, refuse, run } = open()
  sharing.mayGo()
  await run(0.002)
  refuse()
  sharing.noteChange()
  await run(0.045)
  expect(store.updates).toBe(1)
  await run(0.01)
  expect(store.updates).toBe(2)
  // The limiter looks at each change; what was reported is not reported again.
  for (let times = 0; times < 5; times++) {
    sharing.noteChange()
    await run(0.1)
  }
  expect(store.updates).toBe(2)
})

test('a store that is away is asked once a second while requests wait, and then no more', async () => {
  const { sharing, store, demand, run } = open()
  store.isAway = true
  sharing.mayGo()
  await run(3.5)
  expect(store.updates).toBe(4)
  demand.waiting = 0
  await run(5)
  expect(store.updates).toBeLessThanOrEqual(5)
})

test.each<[string, Partial<Division>, number, number]>([
  [
    'another explains a rejection',
    { episode: { owner: 'a', sentAt: 0, seenAt: 0, rejections: 1, retryAfter: null } },
    ...([1, 8] as const),
  ],
  ['its share is too small for the requests that wait', { model: learned }, 1, 8],
  ['its share is too small, but nothing waits', { model: learned }, 0, 2],
])('while %s, permits are asked for as often as is useful', async (_, stored, waiting, often) => {
  const { sharing, store, demand, limit, run } = open({ ...stored, holders: { a: { ...other, permits: 4 } } })
  sharing.mayGo()
  await run(0.01)
  limit.sent(1_000 * SECOND)
  demand.waiting = waiting
  await run(1.5)
  const before = store.updates
  await run(2)
  expect(Math.abs(store.updates - before - often)).toBeLessThanOrEqual(1)
})

test('a rejection while the store is away blocks nothing, for nobody would explain it', async () => {
  const { sharing, store, limit, refuse, run } = open()
  sharing.mayGo()
  await run(0.5)
  store.isAway = true
  await run(3)
  refuse()
  sharing.noteChange()
  expect([limit.isBlocked, sharing.mayGo()]).toEqual([false, true])
})

test('a rejection blocks nothing where the limit is configured: the pause is enough', async () => {
  const { sharing, limit, refuse, run } = open({}, new Limit(4, { requests: 9, seconds: 1 }))
  sharing.mayGo()
  await run(0.5)
  refuse()
  sharing.noteChange()
  expect(limit.isBlocked).toBe(false)
})

test('a rejection blocks until it is explained, and its explanation blocks nothing', async () => {
  const { sharing, limit, refuse, run } = open()
  sharing.mayGo()
  await run(0.5)
  refuse()
  sharing.noteChange()
  expect(limit.isBlocked).toBe(true)
  Object.assign(limit, { episode: null, isBlocked: false })
  sharing.noteChange()
  expect(limit.isBlocked).toBe(false)
})

test('a process that has sent nothing yet has nothing to report, whatever its limit', async () => {
  const { sharing, store, demand, run } = open({}, new Limit(4, { requests: 9, seconds: 1 }))
  demand.waiting = 0
  sharing.noteChange()
  await run(3)
  expect(store.updates).toBe(0)
})

test('a process that ends while it joins leaves again, and no timer keeps it alive', async () => {
  const { sharing, store, timers, run } = open()
  sharing.mayGo()
  const closed = sharing.close()
  await run(0.1)
  await closed
  expect([store.updates, store.division.holders]).toEqual([2, {}])
  const joined = open()
  joined.sharing.mayGo()
  await joined.run(0.5)
  expect(joined.timers.open).toBe(1)
  const left = joined.sharing.close()
  await joined.run(0.1)
  await left
  expect([timers.open, joined.timers.open]).toEqual([0, 0])
})

test('a process whose store hangs sends no more a fifth of a second before the others take its permits, and goes on alone later', async () => {
  const { sharing, store, run } = open()
  sharing.mayGo()
  await run(0.01)
  store.hangs = true
  const permitted: boolean[] = []
  for (const seconds of [1.78, 0.02, 1.18, 0.02]) {
    await run(seconds)
    permitted.push(sharing.mayGo())
  }
  // The lease is of two seconds from the last exchange; the one that hangs began a second after it, and is given up after two.
  expect(permitted).toEqual([true, false, false, true])
})

test('a process that waits for the end of a long pause is heard of every second, so that nobody takes its permits', async () => {
  const { sharing, store, limit, run } = open()
  sharing.mayGo()
  await run(0.5)
  limit.pause(1_000 * SECOND + 60 * SECOND)
  limit.rejected(limit.sent(1_000 * SECOND + SECOND / 2), 1_000 * SECOND + SECOND / 2, 60 * SECOND)
  sharing.noteChange()
  await run(1)
  for (let seconds = 0; seconds < 10; seconds++) {
    const before = store.updates
    await run(1.1)
    expect(store.updates - before).toBeGreaterThanOrEqual(1)
    expect(store.division.holders.me).toBeDefined()
  }
})

test('a process whose store fails as it leaves ends all the same, and closes its store', async () => {
  const { sharing, store, run } = open()
  sharing.mayGo()
  await run(0.5)
  store.isAway = true
  let ended = false
  const closed = sharing.close().then(() => {
    ended = true
  })
  await run(0.1)
  await closed
  expect([ended, store.closes]).toEqual([true, 1])
})

test('a notification is heard by a process that shares the budget now: not before, and not after it has left', async () => {
  const { store, sharing, demand, run } = open()
  store.notify()
  await run(3)
  expect(store.updates).toBe(0)
  sharing.mayGo()
  await run(0.2)
  store.notify()
  await run(0.01)
  expect(store.updates).toBe(2)
  demand.waiting = 0
  await run(5)
  const before = store.updates
  expect(store.division.holders).toEqual({})
  store.notify()
  await run(3)
  expect(store.updates).toBe(before)
})
