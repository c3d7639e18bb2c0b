/** One exchange of a process with the division of its team's budget: rejections, pauses, limits, and permits. */
import { beforeEach, describe, expect, test } from 'vitest'
import { type Division, emptyDivision, type Holder, LEASE } from '../../../src/api/budget/division.ts'
import { Part } from '../../../src/api/budget/exchange.ts'
import { Limit } from '../../../src/api/budget/limit.ts'
import type { ModelState } from '../../../src/api/budget/limit-model.ts'

const SECOND = 1_000_000
/** The store's clock is an hour ahead of ours. */
const AHEAD = 3_600 * SECOND

const model = (count: number, over: Partial<ModelState> = {}): ModelState => ({
  ...{ count, window: SECOND, margin: 0, spread: 1.2, proven: null, contradictions: 0 },
  ...{ unsure: false, raise: 0, waitBeforeRaise: 30 * SECOND, ...over },
})
const other = (over: Partial<Holder> = {}): Holder => ({
  ...{
    until: Number.MAX_SAFE_INTEGER,
    since: 1,
    permits: 0,
    wants: null,
    urgent: 0,
    sends: [],
    isFixed: false,
  },
  ...over,
})

let now: number
let demand: { waiting: number; urgent: number }
beforeEach(() => {
  now = 1_000 * SECOND
  demand = { waiting: 1, urgent: 0 }
})

/** A process `me`, and its exchanges with a division that a store has; the answer takes no time. */
function open(limit = new Limit(4)) {
  const part = new Part({
    name: 'me',
    limit,
    clock: { now: () => now, sleep: async () => {} },
    demand: () => demand,
  })
  const change = (stored: Partial<Division>, { isLeaving = false, later = 0 } = {}) => {
    part.begin(isLeaving)
    now += later
    const step = part.change({ ...emptyDivision(), ...stored }, now + AHEAD)
    part.done()
    return step
  }
  return { limit, part, change }
}
/** Sends requests, the last one rejected; returns the limit. */
function rejected(limit = new Limit(4), retryAfter: number | null = SECOND): Limit {
  const ticket = limit.sent(now - 10_000)
  limit.rejected(ticket, now, retryAfter)
  return limit
}

describe('a process that joins', () => {
  test('has a lease of two seconds and no permits, and wakes the others if there are any', () => {
    const alone = open().change({})
    expect(alone.division.holders.me).toMatchObject({
      until: now + AHEAD + LEASE,
      since: now + AHEAD,
      permits: 0,
    })
    expect(alone.notify).toBe(false)
    expect(open().change({ holders: { a: other() } }).notify).toBe(true)
  })

  test('stays in the order in which it joined, and keeps its permits', () => {
    const { part, change } = open()
    const { division } = change({ model: model(4), pool: [[0, 4]] })
    expect(division.holders.me!.permits).toBe(4)
    const joinedAt = division.holders.me!.since
    now += SECOND
    const again = change(division)
    expect(again.division.holders.me).toMatchObject({
      since: joinedAt,
      permits: 4,
      until: now + AHEAD + LEASE,
    })
    expect([again.notify, part.count]).toEqual([false, 4])
  })

  test('uses the permits of the pool from their time on, on its own clock', () => {
    const { limit, change } = open()
    change({ model: model(4), pool: [[now + AHEAD + SECOND, 4]] })
    expect(limit.share!.count).toBe(4)
    expect(limit.wait(now)).toBe(SECOND)
    expect(limit.wait(now + SECOND)).toBe(0)
  })
})

describe('what a process reports', () => {
  test('is that it wants any number while its requests wait, and else one more than it sent of late', () => {
    const { limit, change } = open()
    expect(change({}).division.holders.me).toMatchObject({ wants: null, urgent: 0, isFixed: false })
    demand = { waiting: 0, urgent: 0 }
    for (let sent = 0; sent < 3; sent++) limit.accepted(limit.sent(now), now)
    expect(change({}).division.holders.me!.wants).toBe(4)
    limit.pressedAt = now - 1_199_999
    expect(change({}).division.holders.me!.wants).toBe(null)
    limit.pressedAt = now - 1_200_000
    expect(change({}).division.holders.me!.wants).toBe(4)
    demand = { waiting: 3, urgent: 2 }
    expect(change({}).division.holders.me!.urgent).toBe(2)
  })

  test('are its requests of the last window, on the clock of the store', () => {
    const limit = new Limit(4)
    const { change } = open(limit)
    expect(change({ model: model(9) }).division.holders.me!.sends).toEqual([])
    for (const age of [5_000_000, 600_000, 500_000]) limit.accepted(limit.sent(now - age), now - age)
    const { sends } = change({ model: model(9), revision: 1 }).division.holders.me!
    expect(sends.reduce((sum, [, count]) => sum + count, 0)).toBe(2)
    for (const [at] of sends) expect(Math.abs(at - (now + AHEAD - 550_000))).toBeLessThan(150_000)
  })

  test('are all its requests around a rejection of another process', () => {
    const limit = new Limit(4)
    for (const age of [50_000_000, 600_000]) limit.accepted(limit.sent(now - age), now - age)
    const episode = { owner: 'a', sentAt: now + AHEAD, seenAt: now + AHEAD, rejections: 1, retryAfter: null }
    const { sends } = open(limit).change({ holders: { a: other() }, episode }).division.holders.me!
    expect(sends.map(([, count]) => count)).toEqual([1, 1])
    // The newest last: a process that vanishes has used its permits for these first.
    expect(sends[0]![0]).toBeLessThan(now + AHEAD - 40 * SECOND)
    expect(sends[1]![0]).toBeGreaterThan(now + AHEAD - SECOND)
  })
})

describe('a rejection', () => {
  const episode = { owner: 'a', sentAt: 0, seenAt: 0, rejections: 1, retryAfter: null }

  test('stops all, and is explained by the process that met it, once the others have reported', () => {
    const used = new Limit(4)
    used.accepted(used.sent(now - 500_000), now - 490_000)
    const { limit, part, change } = open(rejected(used))
    const { division, notify } = change({ holders: { a: other() } })
    expect(division.episode).toEqual({
      ...{
        owner: 'me',
        sentAt: now + AHEAD - 10_000,
        seenAt: now + AHEAD,
        rejections: 1,
        retryAfter: SECOND,
      },
    })
    expect(division.pausedUntil).toBe(now + AHEAD + SECOND)
    expect([notify, part.isOwner, limit.isBlocked]).toEqual([true, true, true])
    now += SECOND
    const learned = change({
      ...division,
      holders: { ...division.holders, a: other({ sends: [[now + AHEAD - SECOND - 20_000, 5]] }) },
    })
    // Its own rejected request was not counted; the other one, and those of the others in the window, were.
    expect(learned.division).toMatchObject({
      episode: null,
      explainedUntil: now + AHEAD,
      model: { count: 6 },
    })
    expect([learned.notify, learned.isMine, part.isOwner, limit.isBlocked]).toEqual([
      true,
      true,
      false,
      false,
    ])
  })

  test('waits for the reports of the others also where no pause was asked for', () => {
    const { part, change } = open(rejected(new Limit(4), 0))
    const { division } = change({})
    now += 149_999
    expect(change(division).division.episode).not.toBe(null)
    expect(part.isOwner).toBe(true)
  })

  test('that another process explains stops this one until it is over, and its own is forgotten with it', () => {
    const { limit, part, change } = open(rejected())
    const { division } = change({ holders: { a: other() }, episode })
    expect([limit.isBlocked, part.isOwner, division.episode!.owner]).toEqual([true, false, 'a'])
    change({ ...division, episode: null, explainedUntil: now + AHEAD, model: model(7), revision: 1 })
    expect([limit.isBlocked, limit.episode, limit.known!.count]).toEqual([false, null, 7])
  })

  test('of a request that was sent before the last one was explained is none', () => {
    const { limit, change } = open(rejected())
    expect(change({ explainedUntil: now + AHEAD - 10_000 }).division.episode).toBe(null)
    expect(limit.episode).toBe(null)
    expect(open(rejected()).change({ explainedUntil: now + AHEAD - 10_001 }).division.episode).not.toBe(null)
  })

  test('whose process is gone is taken over by one that has something to send', () => {
    const { part, change } = open()
    demand = { waiting: 0, urgent: 0 }
    expect(change({ holders: {}, episode }).division.episode!.owner).toBe('a')
    expect(change({ holders: { a: other() }, episode }).division.episode!.owner).toBe('a')
    demand = { waiting: 1, urgent: 0 }
    expect(change({ holders: { a: other() }, episode }).division.episode!.owner).toBe('a')
    expect(change({ holders: { b: other() }, episode }).division.episode!.owner).toBe('me')
    expect(part.isOwner).toBe(true)
  })

  test('that a request must test is left to others by a process with nothing to send', () => {
    const { limit, part, change } = open(rejected(new Limit(4), null))
    const { division } = change({ holders: { a: other() } })
    now += 2 * SECOND
    const waits = change(division)
    expect([waits.division.episode!.owner, part.isOwner]).toEqual(['me', true])
    demand = { waiting: 0, urgent: 0 }
    const left = change(waits.division)
    expect([left.division.episode!.owner, left.notify, part.isOwner, limit.isBlocked]).toEqual([
      '',
      true,
      false,
      true,
    ])
  })

  test('that a request tests stays with its process while that request is in flight, though none waits', () => {
    const { limit, part, change } = open(rejected(new Limit(4), null))
    const { division } = change({ holders: { a: other() } })
    now += 2 * SECOND
    const waits = change(division)
    demand = { waiting: 0, urgent: 0 }
    limit.sent(now)
    const tested = change(waits.division)
    expect([tested.division.episode!.owner, part.isOwner, limit.isBlocked]).toEqual(['me', true, false])
  })

  test('says nothing while a limit is configured', () => {
    const { limit, change } = open(rejected(new Limit(4, { requests: 9, seconds: 1 })))
    const { division } = change({ holders: { a: other() } })
    expect([division.episode, limit.isBlocked]).toEqual([null, false])
    expect(division.pausedUntil).toBe(now + AHEAD + SECOND)
    const learning = open(rejected())
    learning.limit.isBlocked = true
    const shared = { model: model(9), isFixed: true, holders: { a: other({ isFixed: true }) } }
    expect(learning.change(shared).division.episode).toBe(null)
    expect([learning.limit.episode, learning.limit.isBlocked]).toEqual([null, false])
    now += SECOND
    rejected(learning.limit)
    learning.change(shared)
    expect(learning.limit.episode).toBe(null)
  })
})

describe('a pause', () => {
  test('of one process is one of all', () => {
    const { limit, change } = open()
    change({ pausedUntil: now + AHEAD + 7 * SECOND })
    expect(limit.pausedUntil).toBe(now + 7 * SECOND)
    expect(change({ pausedUntil: now + AHEAD + 7 * SECOND }).notify).toBe(false)
  })

  test('that is over, or hardly longer than the known one, wakes nobody', () => {
    const { limit, change } = open()
    limit.pause(now - 1)
    const holders = { me: other({ permits: 0 }) }
    expect(change({ holders }).notify).toBe(false)
    limit.pause(now + 5_000)
    expect(change({ holders }).division.pausedUntil).toBe(0)
    limit.pause(now + 5_001)
    expect(change({ holders })).toMatchObject({
      notify: true,
      division: { pausedUntil: now + AHEAD + 5_001 },
    })
  })
})

describe('a limit', () => {
  test('that another process learned, or configured, is taken over; one that is configured here is not changed', () => {
    const { limit, change } = open()
    change({ model: model(7), revision: 1 })
    expect(limit.known!.count).toBe(7)
    change({ model: model(8), revision: 1 })
    expect(limit.known!.count).toBe(7)
    const fixed = new Limit(4, { requests: 9, seconds: 1 })
    open(fixed).change({ model: model(7), revision: 1, isFixed: true })
    expect(fixed.known!.count).toBe(9)
  })

  test('that is configured is in force for all, and wakes nobody if it is already', () => {
    const { change } = open(new Limit(4, { requests: 9, seconds: 2 }))
    const { division } = change({ model: model(7), learned: model(7), revision: 1 })
    expect(division).toMatchObject({ isFixed: true, revision: 2, learned: { count: 7 } })
    expect(division.holders.me!.isFixed).toBe(true)
    expect(division.model).toMatchObject({ count: 9, window: 2 * SECOND })
    expect(change(division).division.revision).toBe(2)
    expect(change({ ...division, isFixed: false }).division.revision).toBe(3)
    expect(change({ ...division, model: model(9) }).division.revision).toBe(3)
    expect(change({ ...division, model: model(8, { window: 2 * SECOND }) }).division.revision).toBe(3)
  })

  test('that was learned is in force again when nobody has another one configured', () => {
    const fixed = { model: model(3), learned: model(7), isFixed: true, revision: 1 }
    const configured = open().change({ ...fixed, holders: { a: other({ isFixed: true }) } })
    expect(configured.division).toMatchObject({ isFixed: true, model: { count: 3 }, revision: 1 })
    const free = open().change({ ...fixed, holders: { a: other() } })
    expect(free.division).toMatchObject({ isFixed: false, model: { count: 7 }, revision: 2 })
    const unknown = open()
    const { division } = unknown.change({ ...fixed, learned: null })
    expect(division).toMatchObject({ isFixed: false, model: null, learned: null, revision: 2 })
    expect([unknown.limit.known, unknown.limit.isFixed]).toEqual([null, false])
  })

  test('is raised by the process that joined first, and published by it', () => {
    const early = open()
    early.change({ model: model(7), revision: 1, holders: { a: other({ since: now + 2 * AHEAD }) } })
    expect(early.limit.mayRaise).toBe(true)
    const late = open()
    late.change({ model: model(7), revision: 1, holders: { a: other({ since: 1 }) } })
    expect(late.limit.mayRaise).toBe(false)
    // Taken over once: what this process learns from then on is its own.
    late.change({ model: model(8), revision: 1, holders: { a: other({ since: 1 }) } })
    expect(late.limit.known!.count).toBe(7)
    const fixed = open()
    fixed.change({
      model: model(7),
      revision: 1,
      isFixed: true,
      holders: { a: other({ isFixed: true, since: now + 2 * AHEAD }) },
    })
    expect(fixed.limit.mayRaise).toBe(false)
    early.limit.adopt(model(9), now)
    const { division, notify } = early.change({ model: model(7), revision: 1 })
    expect([division.model!.count, division.revision, notify]).toEqual([9, 2, true])
    late.limit.adopt(model(9), now)
    expect(late.change({ model: model(7), revision: 1 }).division.model!.count).toBe(7)
  })

  test('that another process has changed meanwhile is not overwritten by a raise', () => {
    const { limit, change } = open()
    change({ model: model(7), revision: 1 })
    limit.adopt(model(9), now)
    expect(change({ model: model(5), revision: 2 }).division.model!.count).toBe(5)
    expect(limit.known!.count).toBe(5)
  })

  test('that is known here only is published', () => {
    const { limit, change } = open()
    limit.adopt(model(9), now)
    const { division, notify } = change({})
    expect([division.model!.count, division.learned!.count, notify]).toEqual([9, 9, true])
  })
})

describe('a process that leaves', () => {
  test('gives back its permits, and wakes those who stay', () => {
    const { limit, part, change } = open()
    const { division } = change({ model: model(4), pool: [[0, 4]], holders: { a: other({ wants: 0 }) } })
    now += 1_000
    limit.accepted(limit.sent(now), now)
    now += 100_000
    const left = change(division, { isLeaving: true })
    expect(Object.keys(left.division.holders)).toEqual(['a'])
    expect(left.division.pool.reduce((sum, [, count]) => sum + count, 0)).toBe(4)
    // The used one is free when its request leaves the window.
    expect(left.division.pool.at(-1)![0]).toBeGreaterThan(now + AHEAD + 800_000)
    expect([left.notify, part.isOwner]).toEqual([true, false])
  })

  test('leaves a rejection to others; the last one takes it and a pause with it', () => {
    const { part, change } = open(rejected())
    const { division } = change({ holders: { a: other() } })
    const { division: left } = change(division, { isLeaving: true })
    expect([left.episode!.owner, left.pausedUntil]).toEqual(['', division.pausedUntil])
    expect(part.isOwner).toBe(false)
    const { division: me } = open(rejected()).change({})
    const last = open().change({ ...me, holders: {} }, { isLeaving: true })
    expect(last).toMatchObject({ notify: false, division: { holders: {}, pausedUntil: 0, episode: null } })
    const foreign = { owner: 'a', sentAt: 0, seenAt: 0, rejections: 1, retryAfter: null }
    const stays = open().change({ holders: { a: other() }, episode: foreign }, { isLeaving: true })
    expect(stays.division.episode).toEqual(foreign)
  })
})

test('permits that others lack are given up, which wakes them; and what is short is known', () => {
  const { limit, part, change } = open()
  const { division } = change({ model: model(4), pool: [[0, 4]] })
  const asked = change({ ...division, holders: { ...division.holders, a: other({ since: now + AHEAD }) } })
  expect([asked.division.holders.me!.permits, limit.share!.count, asked.notify]).toEqual([2, 2, true])
  expect(part.isShort).toBe(false)
  const poor = open()
  poor.change({ model: model(4), holders: { a: other({ permits: 4 }) } })
  expect(poor.part.isShort).toBe(true)
})

test('permits that the division has given to a process, without an exchange of its own, are its share', () => {
  const { limit, change } = open()
  change({ model: model(4), revision: 1, holders: { me: other({ permits: 3 }) } })
  expect(limit.share!.count).toBe(3)
})

test('a change that is made again, because another process was faster, begins with the share as it was', () => {
  const { limit, part } = open()
  part.begin(false)
  const stored = { ...emptyDivision(), model: model(4), pool: [[0, 4]] as const }
  part.change(stored, now + AHEAD)
  const { division } = part.change({ ...stored, pool: [[0, 3]] }, now + AHEAD)
  part.done()
  expect([division.holders.me!.permits, limit.share!.count]).toEqual([3, 3])
})

test('the clock of the store is known as exactly as its quickest answer, which counts less with time', () => {
  const { limit, change } = open()
  const seen = () => limit.pausedUntil - now
  const pause = () => ({ pausedUntil: now + AHEAD + 100 * SECOND })
  // Half of the time until the answer is for its way back.
  change(pause(), { later: 200_000 })
  expect(seen()).toBe(100 * SECOND - 200_000 - 100_000)
  // A slower one says less, until the quick one is old.
  change(pause(), { later: 220_000 })
  expect(seen()).toBe(100 * SECOND - 220_000 - 100_000)
  change(pause(), { later: 220_000 })
  expect(seen()).toBe(100 * SECOND - 220_000 - 110_000)
})
