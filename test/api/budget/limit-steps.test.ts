/** The limit of one process, step by step: pauses, rejections in a row, and the requests in flight. */
import { describe, expect, test } from 'vitest'
import { Limit } from '../../../src/api/budget/limit.ts'
import type { ModelState } from '../../../src/api/budget/limit-model.ts'

const SECOND = 1_000_000
const AT = 1_000 * SECOND

const learned = (count: number): ModelState => ({
  ...{ count, window: SECOND, margin: 0, spread: 1.2, proven: null, contradictions: 0, unsure: false },
  ...{ raise: 0, waitBeforeRaise: 30 * SECOND },
})

/** How many requests may be sent at once. */
function together(limit: Limit, now: number): number {
  let sent = 0
  while (limit.wait(now) === 0) {
    limit.sent(now)
    sent += 1
  }
  return sent
}

/** Sends `count` requests, a millisecond apart; each is accepted at once. */
function accept(limit: Limit, many: number): void {
  for (let each = 0; each < many; each++) limit.accepted(limit.sent(AT + each * 1_000), AT + each * 1_000)
}

describe('a pause', () => {
  test('is the longest that a rejection asked for, whichever arrives last', () => {
    const limit = new Limit(4)
    const tickets = [10, 2, null].map((retryAfter, place) => ({ retryAfter, ticket: limit.sent(AT + place) }))
    for (const { retryAfter, ticket } of tickets)
      limit.rejected(ticket, AT + SECOND, retryAfter === null ? null : retryAfter * SECOND)
    expect(limit.pausedUntil).toBe(AT + 11 * SECOND)
    // All three were sent before the first of them was seen to be rejected: they are one.
    expect(limit.episode).toEqual({
      ...{ sentAt: AT, seenAt: AT + SECOND, rejections: 1, retryAfter: 10 * SECOND },
    })
    limit.pause(AT + 5 * SECOND)
    expect([limit.wait(AT + SECOND), limit.inFlight]).toEqual([10 * SECOND, 0])
  })

  test('after a late rejection of a request that was sent before the limit was learned is what the service asks for, or none', () => {
    const limit = new Limit(4)
    const [first, late, later] = [limit.sent(AT), limit.sent(AT + 1), limit.sent(AT + 2)]
    limit.rejected(first, AT + 10_000, SECOND)
    limit.resume(AT + 2 * SECOND)
    expect(limit.known).not.toBeNull()
    limit.rejected(late, AT + 3 * SECOND, null)
    expect(limit.pausedUntil).toBe(AT + 3 * SECOND)
    limit.rejected(later, AT + 3 * SECOND, 4 * SECOND)
    expect([limit.pausedUntil, limit.episode]).toEqual([AT + 7 * SECOND, null])
  })

  test('that the service did not ask for grows with each rejection in a row, and is followed by a single request', () => {
    const limit = new Limit(4)
    const pauses: number[] = []
    let now = AT
    for (let times = 0; times < 4; times++) {
      const ticket = limit.sent(now)
      expect(limit.wait(now)).toBe(times === 0 ? 0 : Number.POSITIVE_INFINITY)
      now += 10_000
      limit.rejected(ticket, now, null)
      pauses.push((limit.pausedUntil - now) / SECOND)
      now = limit.pausedUntil
      expect(limit.wait(now)).toBe(0)
    }
    expect(pauses).toEqual([1, 1, 3, 5])
    expect(limit.episode?.rejections).toBe(4)
    expect(together(limit, now)).toBe(1)
  })

  test('follows the Retry-After of the latest rejection', () => {
    const limit = new Limit(4)
    limit.rejected(limit.sent(AT), AT + 10_000, 5 * SECOND)
    limit.rejected(limit.sent(AT + 20_000), AT + 30_000, 2 * SECOND)
    expect(limit.episode).toMatchObject({ rejections: 2, retryAfter: 2 * SECOND })
    limit.rejected(limit.sent(AT + 40_000), AT + 50_000, null)
    expect(limit.episode).toMatchObject({ rejections: 3, retryAfter: null })
  })

  test('of zero seconds is accepted twice in a row only; an accepted request restarts the count', () => {
    const pauses = [false, true].map((isAccepted) => {
      const limit = new Limit(4)
      return [0, 1, 2].map((place) => {
        const now = AT + place * 100_000
        limit.isBlocked = true
        if (isAccepted && place === 2) limit.accepted(limit.sent(now - 60_000), now - 50_000)
        limit.rejected(limit.sent(now), now + 10_000, 0)
        return Math.max(0, limit.pausedUntil - now - 10_000)
      })
    })
    expect(pauses).toEqual([
      [0, 0, 3 * SECOND],
      [0, 0, 0],
    ])
  })
})

describe('requests in flight', () => {
  test('are limited to two again once no limit is known', () => {
    const limit = new Limit(8)
    accept(limit, 400)
    limit.adopt(learned(5_000), AT + 2 * SECOND)
    expect(limit.rate).toBe(5_000)
    limit.adopt(null, AT + 3 * SECOND)
    expect([limit.rate, together(limit, AT + 3 * SECOND)]).toEqual([null, 2])
  })

  test('are as many as earned, up to the concurrency, and each end makes room for one', () => {
    const limit = new Limit(7)
    accept(limit, 320)
    expect(together(limit, AT + SECOND)).toBe(6)
    limit.lost()
    expect(together(limit, AT + SECOND)).toBe(1)
    limit.rejected({ sentAt: AT + SECOND }, AT + 2 * SECOND, SECOND)
    expect(limit.inFlight).toBe(5)
  })
})
