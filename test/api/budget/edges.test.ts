/** Limits and divisions at their edges: silent holders, equal rates, rejections that come late, permits on their way. */
import { describe, expect, test } from 'vitest'
import { type Division, emptyDivision, strictestOf, swept } from '../../../src/api/budget/division.ts'
import { Part } from '../../../src/api/budget/exchange.ts'
import { requestsAround } from '../../../src/api/budget/explain.ts'
import { Limit } from '../../../src/api/budget/limit.ts'
import type { ModelState } from '../../../src/api/budget/limit-model.ts'

const SECOND = 1_000_000
const NOW = 1_000 * SECOND

const model = (count: number, seconds = 1): ModelState => ({
  ...{ count, window: seconds * SECOND, margin: 0, spread: 1.2, proven: null, contradictions: 0 },
  ...{ unsure: false, raise: 0, waitBeforeRaise: 30 * SECOND },
})
const holder = (over: object = {}) => ({
  ...{ until: 2 * NOW, since: 0, permits: 0, wants: null, urgent: 0, sends: [], isFixed: false },
  ...over,
})

/** A process `me`; its store has the same clock. */
function open(limit = new Limit(4)) {
  const part = new Part({
    ...{ name: 'me', limit, demand: () => ({ waiting: 1, urgent: 0 }) },
    clock: { now: () => NOW, sleep: async () => {} },
  })
  const change = (stored: Partial<Division>) => {
    part.begin(false)
    const { division } = part.change({ ...emptyDivision(), ...stored }, NOW)
    part.done()
    return division
  }
  return { limit, part, change }
}

test('a process that fell silent returns its permits and leaves no debt, whatever it sent recently', () => {
  const sends = [5, 4, 3, 2].map((ago) => [NOW - ago * SECOND, 3] as const)
  const a = holder({ permits: 7, until: NOW - 1, sends })
  const { pool, debt } = swept({ ...emptyDivision(), model: model(7, 10), holders: { a, b: holder() } }, NOW)
  expect([pool.reduce((sum, [, count]) => sum + count, 0), debt]).toEqual([7, 0])
})

test('the strictest limit is the one with the lowest rate; among equal rates, the shortest window', () => {
  const limits = [model(30, 2), model(20, 2), model(10, 1), model(600, 60)]
  const holders = Object.fromEntries(limits.map((limit, place) => [`h${place}`, holder({ limit })]))
  expect(strictestOf({ ...emptyDivision(), holders: { ...holders, none: holder() } })).toEqual(model(10, 1))
  expect(strictestOf({ ...emptyDivision(), holders: { none: holder() } })).toBeNull()
})

test('requests before a rejection are reported in 24 intervals each for the last seconds, the last minute and the last hour', () => {
  const limit = new Limit(4)
  for (let ago = 4_000; ago > 72; ago -= 20) limit.sent(NOW - ago * SECOND)
  for (let ago = 71.9; ago > 0; ago -= 0.01) limit.sent(NOW - ago * SECOND)
  const reported = requestsAround(limit, NOW, NOW + SECOND).map(([at]) => (NOW - at) / SECOND)
  const within = (from: number, to: number) => reported.filter((ago) => ago > from && ago < to).length
  expect([within(72, 4_000), within(12, 72), within(1.2, 12), within(0, 1.2)]).toEqual([24, 24, 24, 48])
})

describe('a process', () => {
  test('that takes over the rejection of a process that is gone keeps its own rejection, if it has one', () => {
    const limit = new Limit(4)
    limit.rejected(limit.sent(NOW - 10_000), NOW - 5_000, SECOND)
    const own = limit.episode
    const { part, change } = open(limit)
    const episode = {
      owner: 'gone',
      sentAt: NOW - 99_000,
      seenAt: NOW - 98_000,
      rejections: 3,
      retryAfter: null,
    }
    expect(change({ holders: { b: holder() }, episode }).episode).toEqual({ ...episode, owner: 'me' })
    expect([part.isOwner, limit.episode]).toEqual([true, own])
    const without = open()
    without.change({ holders: { b: holder() }, episode })
    expect(without.limit.episode).toEqual({
      ...{ sentAt: episode.sentAt, seenAt: NOW, rejections: 3, retryAfter: null },
    })
  })

  test('whose limit is configured keeps its rejection: a single request tests whether it is over', () => {
    const limit = new Limit(4, { requests: 9, seconds: 1 })
    limit.rejected(limit.sent(NOW - 10_000), NOW - 5_000, null)
    open(limit).change({ holders: { b: holder() } })
    expect(limit.episode).toMatchObject({ rejections: 1, retryAfter: null })
    // It also counts as a request that was sent.
    expect(limit.sentBetween(NOW - SECOND, NOW)).toBe(1)
  })

  test('waits until its permits become usable, even after the next exchange', () => {
    const { limit, change } = open()
    const division = change({ model: model(4), revision: 1, pool: [[NOW + SECOND, 4]] })
    expect([division.holders.me!.permits, limit.wait(NOW)]).toEqual([4, SECOND])
    change(division)
    expect([limit.share!.count, limit.wait(NOW), limit.wait(NOW + SECOND)]).toEqual([4, SECOND, 0])
  })
})

describe('a limit', () => {
  test('is not learned from the answer to a request that was sent before the rejection', () => {
    const limit = new Limit(4)
    const [first, second] = [limit.sent(NOW), limit.sent(NOW + 1)]
    limit.rejected(first, NOW + 10_000, null)
    limit.accepted(second, NOW + 20_000)
    expect([limit.episode?.rejections, limit.known]).toEqual([1, null])
    const later = NOW + 2 * SECOND
    expect(limit.wait(later)).toBe(0)
    limit.accepted(limit.sent(later), later + 10_000)
    expect([limit.episode, limit.known?.window]).toEqual([null, SECOND])
  })

  test('has a window longer than the last pause that was too short; the pause that was long enough does not count', () => {
    const limit = new Limit(4)
    for (let at = 0; at < 4; at += 0.25) limit.accepted(limit.sent(NOW + at * SECOND), NOW + at * SECOND)
    let now = NOW + 4 * SECOND
    for (let times = 0; times < 5; times++) {
      limit.rejected(limit.sent(now), now + 10_000, null)
      now = limit.pausedUntil + 10_000
    }
    // The pauses were of 1, 1, 3 and 5 s, and then of 20 s.
    expect((now - NOW) / SECOND).toBeCloseTo(34.1, 1)
    limit.accepted(limit.sent(now), now + 10_000)
    expect(limit.known?.window).toBe(15 * SECOND)
  })

  test('that another process configured is spread evenly, even over a long window', () => {
    const limit = new Limit(4)
    limit.isFixed = true
    limit.adopt({ ...model(60, 3_600), spread: 1 }, NOW)
    limit.accepted(limit.sent(NOW), NOW + 1_000)
    // A sixtieth of the hour with its margin, less a tenth of a second.
    expect(limit.wait(NOW + 1_000) / SECOND).toBeCloseTo(60.4, 0)
    expect(limit.pressedAt).toBe(NOW + 1_000)
  })
})
