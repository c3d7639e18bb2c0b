/** What the limit of a process still allows after an exchange: what others learned, and what it learned itself. */
import { expect, test } from 'vitest'
import { type Division, emptyDivision } from '../../../src/api/budget/division.ts'
import { Part } from '../../../src/api/budget/exchange.ts'
import { Limit } from '../../../src/api/budget/limit.ts'
import type { ModelState, RateLimit } from '../../../src/api/budget/limit-model.ts'

const SECOND = 1_000_000
const NOW = 1_000 * SECOND

const model = (count: number, seconds = 1): ModelState => ({
  ...{ count, window: seconds * SECOND, margin: 0, spread: 1.2, proven: null, contradictions: 0 },
  ...{ unsure: false, raise: 0, waitBeforeRaise: 30 * SECOND },
})

/** A process; the clock of the store is `ahead` of its own. */
function open(configured?: RateLimit, waiting = 1, ahead = 0) {
  const limit = new Limit(4, configured)
  const time = { now: NOW }
  const clock = { now: () => time.now, sleep: async () => {} }
  const part = new Part({ name: 'me', limit, clock, demand: () => ({ waiting, urgent: 0 }) })
  const exchange = (stored: Partial<Division>) => {
    part.begin(false)
    const { division, notify } = part.change({ ...emptyDivision(), ...stored }, time.now + ahead)
    part.done()
    return { ...division, notify }
  }
  return { limit, time, exchange, part }
}

test('requests are reported on the clock of the store, however long ago the exchange before was', () => {
  const ahead = 3_600 * SECOND
  const { limit, time, exchange } = open(undefined, 1, ahead)
  let stored = exchange({ model: model(7), revision: 1 })
  for (let times = 0; times < 3; times++) {
    time.now += 10 * SECOND
    limit.sent(time.now)
    stored = exchange(stored)
    const { sends, until } = stored.holders.me!
    expect(sends.map(([, count]) => count)).toEqual([1])
    expect(Math.abs(sends[0]![0] - time.now - ahead)).toBeLessThan(SECOND / 5)
    expect(until).toBe(time.now + ahead + 2 * SECOND)
  }
})

test('a rejection of what was sent before this process published a raise is explained, not passed over', () => {
  const { limit, time, exchange } = open()
  const stored = exchange({ model: model(7), revision: 1 })
  limit.adopt(model(9), NOW)
  time.now += SECOND
  const ticket = limit.sent(time.now)
  time.now += 1_000
  expect(exchange(stored)).toMatchObject({ model: { count: 9 }, revision: 2 })
  limit.rejected(ticket, time.now + 1_000, SECOND)
  expect(limit.episode).toMatchObject({ sentAt: ticket.sentAt, rejections: 1, retryAfter: SECOND })
})

test('a rejection without a pause is waited for although the others have changed the limit that is configured here', () => {
  const { limit, time, exchange } = open({ requests: 9, seconds: 1 })
  const ticket = limit.sent(time.now)
  time.now += 1_000
  exchange({ model: model(9), isFixed: true, revision: 1 })
  limit.rejected(ticket, time.now, null)
  expect(limit.pausedUntil).toBe(time.now + SECOND)
})

test('a limit that another process found to be higher is used at once, whatever the lower one made a request wait', () => {
  const limit = new Limit(4)
  limit.adopt(model(1, 60), NOW)
  limit.accepted(limit.sent(NOW), NOW)
  const later = NOW + SECOND
  expect(limit.wait(later)).toBeGreaterThan(40 * SECOND)
  limit.adopt(model(100, 60), later)
  expect(limit.wait(later)).toBe(0)
})

test('a limit that another process has configured lower spaces the next request from the last one', () => {
  const { limit, exchange } = open({ requests: 60, seconds: 60 })
  const other = { since: 1, wants: 0, urgent: 0, sends: [], isFixed: true, until: 2 * NOW, permits: 0 }
  const stored = exchange({})
  limit.accepted(limit.sent(NOW), NOW)
  exchange({
    ...stored,
    holders: { ...stored.holders, a: { ...other, limit: { ...model(30, 60), spread: 1 } } },
  })
  expect(limit.known!.count).toBe(30)
  expect(limit.wait(NOW)).toBeGreaterThan(1.9 * SECOND)
  expect(limit.wait(NOW + 2 * SECOND)).toBe(0)
})

test('after a write that another process was faster than, the limit in force is the one of the division as it is', () => {
  const strict = { ...model(5), spread: 1 }
  const a = {
    since: 1,
    wants: 0,
    urgent: 0,
    sends: [],
    isFixed: true,
    until: NOW + SECOND,
    permits: 0,
    limit: strict,
  }
  for (const configured of [{ requests: 20, seconds: 1 }, undefined]) {
    const { limit, time, exchange, part } = open(configured)
    const stored = exchange({ model: strict, isFixed: true, holders: { a }, revision: 1 })
    expect(limit.known!.count).toBe(5)
    time.now = NOW + SECOND + 1
    part.begin(false)
    // The lease of the strictest has ended, …
    expect(part.change(stored, time.now).division.revision).toBe(stored.revision + 1)
    expect(limit.known?.count).toBe(configured?.requests)
    // … but it was renewed before this process wrote so.
    const renewed = { ...stored.holders, a: { ...a, until: time.now + 2 * SECOND } }
    const { division } = part.change({ ...stored, holders: renewed }, time.now)
    part.done()
    expect(division).toMatchObject({
      revision: stored.revision,
      isFixed: true,
      model: { count: 5 },
      learned: null,
    })
    expect([limit.known!.count, limit.isFixed]).toEqual([5, true])
  }
})

test('a process whose requests do not wait wants what it sent in a window of any length, and one more', () => {
  const { limit, exchange } = open(undefined, 0)
  const stored = exchange({ model: model(9, 10), revision: 1 })
  for (const age of [11, 9, 5]) limit.accepted(limit.sent(NOW - age * SECOND), NOW - age * SECOND)
  limit.pressedAt = NOW - 1.3 * SECOND
  expect(exchange(stored).holders.me!.wants).toBe(3)
  // One that waited just now would use any number.
  limit.pressedAt = NOW - 1.1 * SECOND
  expect(exchange(stored).holders.me!.wants).toBe(null)
})

test('permits that pay for a lower limit wake nobody: no other process has more to use', () => {
  const { exchange } = open()
  const me = { since: 1, wants: null, urgent: 0, sends: [], isFixed: false, until: NOW + SECOND, permits: 4 }
  const paid = exchange({ model: model(2), revision: 1, debt: 2, holders: { me } })
  expect(paid).toMatchObject({ debt: 0, notify: false, holders: { me: { permits: 2 } } })
})

test('what a process reports of its requests is the more exact the nearer they are to the rejection, on the clock of all', () => {
  const ahead = 3_600 * SECOND
  const { limit, exchange } = open(undefined, 1, ahead)
  const ages = [80, 40, 6, 0.6, 0.1]
  for (const age of ages) limit.accepted(limit.sent(NOW - age * SECOND), NOW - age * SECOND)
  const others = {
    a: {
      since: 1,
      wants: null,
      urgent: 0,
      sends: [],
      isFixed: false,
      until: Number.MAX_SAFE_INTEGER,
      permits: 0,
    },
  }
  const reported = (stored: Partial<Division>) =>
    exchange({ holders: others, ...stored }).holders.me!.sends.map(([at, count]) => [
      (at - NOW - ahead) / SECOND,
      count,
    ])
  expect(reported({ model: model(9, 8), revision: 1 })).toEqual([])
  // Of the last window in eight parts, as long as nothing was refused.
  const usual = reported({ model: model(9, 8), revision: 1 })
  expect(usual.map(([at, count]) => [Math.round(at! * 2) / 2, count])).toEqual([
    [-5.5, 1],
    [-0.5, 2],
  ])
  const episode = {
    owner: 'a',
    sentAt: NOW + ahead - 0.5 * SECOND,
    seenAt: NOW + ahead,
    rejections: 1,
    retryAfter: null,
  }
  const around = reported({ model: model(9, 8), revision: 1, episode })
  const within = [82, 2.5, 0.5, 0.025, 0.125]
  expect(around.map(([, count]) => count)).toEqual(ages.map(() => 1))
  for (const [place, age] of ages.entries())
    expect(Math.abs(around[place]![0]! + age)).toBeLessThanOrEqual(within[place]!)
})

const holder = { since: 1, wants: null, urgent: 0, sends: [], isFixed: false, until: 2 * NOW, permits: 0 }

test.each([
  [0, 2, true],
  [2, 2, false],
  [4, 0, false],
])(
  'a process that gives permits to one that lacks them wakes it: %i of four are its',
  async (has, left, wakes) => {
    const { exchange } = open()
    const holders = { me: { ...holder, permits: 4 - has }, a: { ...holder, since: 2, permits: has } }
    const after = exchange({ model: model(4), revision: 1, holders })
    expect([after.holders.me!.permits, after.notify]).toEqual([left, wakes])
  },
)

test('the time of a division is that of the attempt that was stored, and not of the first', () => {
  const { part, time } = open()
  part.begin(false)
  expect(part.readAt).toBe(NOW)
  for (const seconds of [1, 3]) {
    time.now = NOW + seconds * SECOND
    part.change(emptyDivision(), time.now)
    expect(part.readAt).toBe(time.now)
  }
})

test('a process that leaves while it explains a rejection leaves that to others, and explains it no more', () => {
  const { limit, part, time } = open()
  limit.rejected(limit.sent(NOW), NOW, 5 * SECOND)
  const division = { ...emptyDivision(), model: model(4), revision: 1, holders: { a: holder } }
  part.begin(false)
  const { division: joined } = part.change(division, time.now)
  part.done()
  expect([part.isOwner, joined.episode?.owner]).toEqual([true, 'me'])
  part.begin(true)
  const { division: left, notify } = part.change(joined, time.now)
  expect([part.isOwner, left.episode?.owner, Object.keys(left.holders), notify]).toEqual([
    false,
    '',
    ['a'],
    true,
  ])
})

test('clocks that drift apart are compared anew, although the store answers more slowly since', () => {
  const { limit, part, time } = open()
  limit.adopt(model(7), NOW)
  const offsets = [10, 12, 12, 12, 12, 12].map((milliseconds, seconds) => {
    time.now += 10 * SECOND
    limit.accepted(limit.sent(time.now), time.now)
    part.begin(false)
    time.now += milliseconds * 1_000
    const stored = { ...emptyDivision(), model: model(7), revision: 1 }
    const { sends } = part.change(stored, time.now + seconds * SECOND).division.holders.me!
    part.done()
    return Math.round((sends.at(-1)![0] - time.now) / SECOND)
  })
  expect(offsets.map(Math.abs)).toEqual([0, 0, 0, 0, 4, 5])
})
