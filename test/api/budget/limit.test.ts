import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { Limit } from '../../../src/api/budget/limit.ts'
import { fixedWindow, type Run, shared, simulate, slidingWindow, tokenBucket } from './simulation.ts'

const usual = { concurrency: 4, jitter: 0.2, header: true }

/** The two aims: at least 95 % of the permitted used, under 1 % of the sent wasted, two 429 being free. */
function expectAims(run: Run): void {
  expect(run.used).toBeGreaterThanOrEqual(0.95)
  if (run.rejected > 2) expect(run.wasted).toBeLessThan(0.01)
}

/** The shortest time in which `count` and one more were sent: one expectation, for a log may have 100,000 entries. */
function shortest(log: Run['log'], count: number): number {
  let least = Infinity
  for (let at = count; at < log.length; at += 1) least = Math.min(least, log[at]!.at - log[at - count]!.at)
  return least
}

describe('an unknown sliding window is found and used', () => {
  test('for any limit and latency that two requests in flight can reach, in sixty seconds', () => {
    const circumstances = fc
      .record({
        rate: fc.integer({ min: 5, max: 2000 }),
        latency: fc.double({ min: 1, max: 200, noNaN: true }),
        jitter: fc.double({ min: 0, max: 0.2, noNaN: true }),
        seed: fc.integer({ min: 1, max: 1_000_000 }),
        header: fc.boolean(),
      })
      // Requests must be able to reach the limit, and not overtake each other by a good part of their distance.
      .filter(({ rate, latency, jitter }) => rate * latency < 1500 && latency * jitter < 60 / rate + 4)
    fc.assert(
      fc.property(circumstances, ({ rate, ...rest }) => {
        expectAims(simulate({ ...usual, ...rest, limiter: slidingWindow(rate, 1), seconds: 60 }))
      }),
      { numRuns: 60, seed: 20260102 },
    )
  })

  test.each([
    [60, 60, 600],
    [600, 60, 60],
    [600, 60, 600],
    [100, 10, 60],
    [1000, 3600, 7200],
  ])('%i in %i s, over %i s', (count, window, seconds) => {
    for (const latency of [1, 20]) {
      expectAims(simulate({ ...usual, latency, limiter: slidingWindow(count, window), seconds }))
    }
  })

  test('within two 429 when nothing is known yet', () => {
    for (const latency of [1, 20, 100]) {
      expect(
        simulate({ ...usual, latency, limiter: slidingWindow(60, 60), seconds: 55 }).rejected,
      ).toBeLessThanOrEqual(2)
    }
  })

  test('without a word on how long to wait', () => {
    expectAims(simulate({ ...usual, latency: 5, header: false, limiter: slidingWindow(50, 1), seconds: 60 }))
    const minute = simulate({
      ...usual,
      latency: 5,
      header: false,
      limiter: slidingWindow(600, 60),
      seconds: 600,
    })
    expectAims(minute)
  })
})

describe('a limit of another kind is lived with', () => {
  test.each([
    ['a token bucket', () => tokenBucket(100, 50)],
    ['a small token bucket', () => tokenBucket(50, 50)],
    ['a counter that is reset each minute', () => fixedWindow(600, 60)],
  ])('%s', (_name, limiter) => {
    expectAims(simulate({ ...usual, latency: 10, limiter: limiter(), seconds: 300 }))
  })

  test.each([
    ['sinks', () => slidingWindow(50, 1, [[30, 20]])],
    ['rises', () => slidingWindow(50, 1, [[30, 100]])],
    ['is shared for a while', () => shared(slidingWindow(50, 1), 20, 30, 90)],
  ])('a limit that %s is followed', (_name, limiter) => {
    const run = simulate({ ...usual, latency: 5, limiter: limiter(), seconds: 600 })
    expect(run.used).toBeGreaterThan(0.92)
    expect(run.wasted).toBeLessThan(0.01)
  })
})

test('requests that are refused together count as one refusal: the service may ask to try again at once', () => {
  const pauses = [true, false].map((isTogether) => {
    const limit = new Limit(4)
    const sent = [0, 1, 2].map((at) => (isTogether ? limit.sent(at) : null))
    for (const [at, ticket] of sent.entries())
      limit.rejected(ticket ?? limit.sent(10_000 * at + 5), 10_000 * (at + 1), 0)
    return limit.pausedUntil
  })
  // The third time in a row, it is not believed.
  expect(pauses[0]).toBe(30_000)
  expect(pauses[1]).toBeGreaterThanOrEqual(1_030_000)
})

test('a refusal of a request that was sent before the limit was learned says nothing about it, but its pause is kept', () => {
  const limit = new Limit(4)
  const [first, late] = [limit.sent(0), limit.sent(1)]
  limit.rejected(first, 10_000, 1_000_000)
  limit.resume(1_010_000)
  const learned = limit.known
  expect(learned).not.toBeNull()
  limit.rejected(late, 1_100_000, 2_000_000)
  expect([limit.known, limit.episode, limit.pausedUntil]).toEqual([learned, null, 3_100_000])
})

describe('a configured limit', () => {
  /** Requests `count` apart arrive at least `seconds` apart. */
  function expectKept(run: Run, count: number, seconds: number): void {
    expect(shortest(run.log, count)).toBeGreaterThan(seconds * 1_000_000)
  }

  test('is kept, used and never answered 429, whatever the latency', () => {
    const circumstances = fc
      .record({
        rate: fc.integer({ min: 1, max: 2000 }),
        latency: fc.double({ min: 1, max: 200, noNaN: true }),
        jitter: fc.double({ min: 0, max: 0.2, noNaN: true }),
        seed: fc.integer({ min: 1, max: 1_000_000 }),
        header: fc.boolean(),
      })
      .filter(({ rate, latency, jitter }) => rate * latency < 1500 && latency * jitter < 60 / rate + 4)
    fc.assert(
      fc.property(circumstances, ({ rate, ...rest }) => {
        const configured = { requests: rate, seconds: 1 }
        const limiter = slidingWindow(rate, 1)
        const run = simulate({ ...usual, ...rest, configured, limiter, seconds: 60 })
        expect(run.rejected).toBe(0)
        expect(run.used).toBeGreaterThanOrEqual(0.95)
        expectKept(run, rate, 1)
      }),
      { numRuns: 60, seed: 20260102 },
    )
  })

  test.each([
    [1, 1, 60],
    [60, 60, 600],
    [600, 60, 600],
    [1000, 3600, 7200],
    [100_000, 3600, 4000],
  ])(
    'of %i in %i s is kept over %i s, by a service that would permit more too',
    (requests, window, seconds) => {
      const configured = { requests, seconds: window }
      for (const factor of [1, 10]) {
        const limiter = slidingWindow(requests * factor, window)
        const run = simulate({ ...usual, latency: 20, configured, limiter, seconds })
        expect(run.rejected).toBe(0)
        expect(run.used * factor).toBeGreaterThanOrEqual(0.95)
        expectKept(run, requests, window)
      }
    },
  )

  test.each([
    ['a token bucket', () => tokenBucket(50, 50)],
    ['a counter that is reset each second', () => fixedWindow(50, 1)],
  ])('suits %s', (_name, limiter) => {
    const configured = { requests: 50, seconds: 1 }
    const run = simulate({ ...usual, latency: 10, configured, limiter: limiter(), seconds: 300 })
    expect(run.rejected).toBe(0)
    expect(run.used).toBeGreaterThanOrEqual(0.95)
  })

  test.each([
    [600, 60],
    [5000, 3600],
    [20, 1],
    [300, 1],
  ])(
    'of %i in %i s is spread evenly from the first request, so that a process may follow another',
    (requests, seconds) => {
      const limit = new Limit(64, { requests, seconds })
      let sent = 0
      for (let second = 1; second <= 30; second++) {
        for (let now = (second - 1) * 1_000_000; now < second * 1_000_000; now += 1000) {
          if (limit.wait(now) > 0) continue
          limit.accepted(limit.sent(now), now)
          sent += 1
        }
        // One at once, and what a tenth of a second permits.
        const even = (requests / seconds) * second
        expect(sent).toBeGreaterThanOrEqual(Math.floor(0.95 * even))
        expect(sent).toBeLessThanOrEqual(1 + even + (requests / seconds) * 0.1)
      }
    },
  )

  test('pauses for a 429, which counts as a request and changes nothing', () => {
    const SECOND = 1_000_000
    fc.assert(
      fc.property(
        fc.array(fc.constantFrom('ok', 'lost', '429', '429 with wait'), { minLength: 50, maxLength: 300 }),
        fc.integer({ min: 1, max: 40 }),
        (answers, requests) => {
          const limit = new Limit(4, { requests, seconds: 1 })
          const sends: number[] = []
          let now = 0
          let notBefore = 0
          for (const answer of answers) {
            for (let wait = limit.wait(now); wait > 0; wait = limit.wait(now)) now += Math.ceil(wait)
            expect(now).toBeGreaterThanOrEqual(notBefore)
            const ticket = limit.sent(now)
            sends.push(now)
            now += 5000
            if (answer === 'ok') limit.accepted(ticket, now)
            else if (answer === 'lost') limit.lost()
            else if (answer === '429 with wait') {
              limit.rejected(ticket, now, 2 * SECOND)
              notBefore = now + 2 * SECOND
            } else {
              limit.rejected(ticket, now, null)
              notBefore = now + SECOND
            }
            expect(limit.rate).toBe(requests)
          }
          for (const [at, later] of sends.slice(requests).entries()) {
            expect(later - sends[at]!).toBeGreaterThanOrEqual(SECOND)
          }
        },
      ),
    )
  })
})

describe('the model', () => {
  test('paces nothing before the first 429', () => {
    const limit = new Limit(4)
    let now = 0
    for (let i = 0; i < 10_000; i++) {
      expect(limit.wait(now)).toBe(0)
      const ticket = limit.sent(now)
      now += 1000
      limit.accepted(ticket, now)
    }
    expect(limit.rate).toBeNull()
  })

  test('lets all of the concurrency in once a hundred requests went well', () => {
    const limit = new Limit(4)
    for (let i = 0; i < 100; i++) limit.accepted(limit.sent(i * 1000), i * 1000 + 500)
    for (let i = 0; i < 4; i++) {
      expect(limit.wait(200_000)).toBe(0)
      limit.sent(200_000)
    }
    expect(limit.wait(200_000)).toBe(Number.POSITIVE_INFINITY)
  })

  test.each([
    [0, 2],
    [99, 2],
    [100, 4],
    [249, 4],
    [250, 5],
    [999, 19],
    [1_000, 20],
    [5_000, 20],
  ])('after %i accepted requests, and none refused, %i are in flight at once', (accepted, together) => {
    const limit = new Limit(20)
    for (let i = 0; i < accepted; i++) limit.accepted(limit.sent(i * 1000), i * 1000 + 500)
    for (let i = 0; i < together; i++) {
      expect(limit.wait(6_000_000)).toBe(0)
      limit.sent(6_000_000)
    }
    expect(limit.wait(6_000_000)).toBe(Number.POSITIVE_INFINITY)
  })

  test('sends nothing until Retry-After is over', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 600 }), fc.integer({ min: 0, max: 300 }), (seconds, before) => {
        const limit = new Limit(8)
        let now = 0
        for (let i = 0; i < before; i++) {
          const ticket = limit.sent(now)
          now += 2000
          limit.accepted(ticket, now)
        }
        const ticket = limit.sent(now)
        now += 2000
        limit.rejected(ticket, now, seconds * 1_000_000)
        const reopens = now + seconds * 1_000_000
        for (let at = now; at < reopens; at += (seconds * 1_000_000) / 7)
          expect(limit.wait(at)).toBeGreaterThan(0)
        expect(limit.wait(reopens + 1_000_000)).toBeLessThan(Number.POSITIVE_INFINITY)
      }),
    )
  })

  test.each([
    [1, 3 * 86_400, 5],
    [1, 3_600, 5],
    [30, 3 * 86_400, 70],
    [30, 3_600, 70],
  ])(
    'with Retry-After %i after a silence of %i s is no limit of requests since the silence began',
    (retryAfter, silence, most) => {
      const limit = new Limit(4)
      limit.accepted(limit.sent(0), 10_000)
      const later = silence * 1_000_000
      limit.accepted(limit.sent(later), later + 10_000)
      limit.rejected(limit.sent(later + 20_000), later + 30_000, retryAfter * 1_000_000)
      const sent: number[] = []
      for (let now = later + 30_000; sent.length < 3; ) {
        const wait = limit.wait(now)
        now += wait
        if (wait > 0) continue
        limit.accepted(limit.sent(now), now + 10_000)
        sent.push((now - later) / 1_000_000)
      }
      expect(sent[0]).toBeGreaterThanOrEqual(retryAfter)
      // One request in each window of the length that Retry-After suggests.
      expect(sent[2]! / 3).toBeLessThan(most)
    },
  )

  test('never stops for good: after any history of answers a request passes in time', () => {
    const step = fc.constantFrom('ok', 'lost', '429', '429 with wait')
    fc.assert(
      fc.property(fc.array(step, { maxLength: 200 }), (steps) => {
        const limit = new Limit(4)
        let now = 0
        for (const answer of steps) {
          for (let asked = 0; ; asked++) {
            const wait = limit.wait(now)
            if (wait === 0) break
            expect(wait).toBeLessThan(Number.POSITIVE_INFINITY)
            expect(asked).toBeLessThan(20)
            now += Math.ceil(wait)
          }
          const ticket = limit.sent(now)
          now += 5000
          if (answer === 'ok') limit.accepted(ticket, now)
          else if (answer === 'lost') limit.lost()
          else limit.rejected(ticket, now, answer === '429' ? null : 2_000_000)
        }
      }),
    )
  })
})
