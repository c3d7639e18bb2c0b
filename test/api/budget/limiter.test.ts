import { getEventListeners } from 'node:events'
import pino, { type Logger } from 'pino'
import { describe, expect, test } from 'vitest'
import { GAVE_UP, openLimiter, type Permit, TOO_LONG } from '../../../src/api/budget/limiter.ts'
import { systemClock } from '../../../src/core/clock.ts'
import { openHurriedClock } from '../support/hurried-clock.ts'

const call = (again = false) => ({ since: systemClock.now(), again })

const settled = () => new Promise((resolve) => setImmediate(resolve))

describe('a body in flight keeps its permit', () => {
  function crowd(concurrency: number) {
    const limiter = openLimiter({ concurrency, clock: systemClock, logger: pino({ level: 'silent' }) })
    const permits: Permit[] = []
    const enter = async () => {
      permits.push(await limiter.acquire([], call()))
    }
    return { permits, enter }
  }

  test('until it is cancelled, and frees only one permit, even if cancelled repeatedly', async () => {
    const { permits, enter } = crowd(2)
    await enter()
    await enter()
    const [first, second] = permits.map((permit) => permit.streaming())
    for (let more = 0; more < 4; more++) void enter()
    await settled()
    expect(permits).toHaveLength(2)
    first!()
    first!()
    await settled()
    expect(permits).toHaveLength(3)
    permits[2]!.accepted()
    await settled()
    expect(permits).toHaveLength(4)
    second!()
    await settled()
    expect(permits).toHaveLength(5)
  })

  test('and a body whose permit was returned keeps none', async () => {
    const { permits, enter } = crowd(1)
    await enter()
    permits[0]!.lost()
    permits[0]!.streaming()()
    await enter()
    void enter()
    await settled()
    expect(permits).toHaveLength(2)
  })
})

test('throttling is logged at once, then every ten seconds at most, with the number of 429 since', async () => {
  const clock = openHurriedClock()
  const lines: unknown[] = []
  const logger = { info: (...line: unknown[]) => void lines.push(line) } as unknown as Logger
  const rateLimit = { requests: 7, seconds: 1 }
  const limiter = openLimiter({ concurrency: 2, clock, logger, rateLimit, team: 'north' })
  for (const [seconds, retryAfter] of [
    [0, 1_000],
    [4, null],
    [6, 3_000],
    [9, 2_000],
  ] as const) {
    clock.skip(seconds * 1_000_000)
    const permit = await limiter.acquire([], { since: clock.now(), again: false })
    permit.throttled(retryAfter)
  }
  const line = (throttled: number, retryAfterMs: number) => [
    { team: 'north', throttled, retryAfterMs, permittedRate: 7 },
    'throttled',
  ]
  expect(lines).toEqual([line(1, 1_000), line(2, 3_000)])
  clock.skip(1_000_000)
  ;(await limiter.acquire([], { since: clock.now(), again: false })).throttled(1_000)
  expect(lines).toEqual([line(1, 1_000), line(2, 3_000), line(2, 1_000)])
})

test('retries go before fetches by id, and those before lists, each in the order of the calls', async () => {
  const limiter = openLimiter({ concurrency: 1, clock: systemClock, logger: pino({ level: 'silent' }) })
  let permit = await limiter.acquire([], call())
  const order: string[] = []
  const waiting = (
    [
      ['list 1', call()],
      ['fetch 1', { ...call(), urgent: true }],
      ['retry of a list', call(true)],
      ['list 2', call()],
      ['fetch 2', { ...call(), urgent: true }],
      ['retry of a fetch', { ...call(true), urgent: true }],
    ] as const
  ).map(async ([name, one]) => {
    permit = await limiter.acquire([], one)
    order.push(name)
  })
  for (const _ of waiting) {
    permit.accepted()
    await settled()
  }
  await Promise.all(waiting)
  expect(order).toEqual(['retry of a list', 'retry of a fetch', 'fetch 1', 'fetch 2', 'list 1', 'list 2'])
})

test('all waiting calls are rejected when the service asks for hours, and so are new ones', async () => {
  const limiter = openLimiter({ concurrency: 2, clock: systemClock, logger: pino({ level: 'silent' }) })
  const [first, second] = [await limiter.acquire([], call()), await limiter.acquire([], call())]
  const waiting = [false, true, false].map((again) =>
    limiter.acquire([], call(again)).catch((reason: unknown) => reason),
  )
  first.throttled(7_200_000)
  second.accepted()
  expect(await Promise.all(waiting)).toEqual([TOO_LONG, TOO_LONG, TOO_LONG])
  await expect(limiter.acquire([], call())).rejects.toBe(TOO_LONG)
})

test('once the hours that the service asked for are over, calls wait for the limit again as before', async () => {
  const clock = openHurriedClock()
  const rateLimit = { requests: 2, seconds: 1 }
  const limiter = openLimiter({ concurrency: 2, clock, logger: pino({ level: 'silent' }), rateLimit })
  const send = () => limiter.acquire([], { since: clock.now(), again: false })
  const SECOND = 1_000_000
  ;(await send()).throttled(7_200_000)
  clock.skip(7_199 * SECOND)
  await expect(send()).rejects.toBe(TOO_LONG)
  clock.skip(SECOND)
  const begun = clock.now()
  for (let times = 0; times < 5; times++) (await send()).accepted()
  expect((clock.now() - begun) / SECOND).toBeGreaterThan(1.5)
  expect((clock.now() - begun) / SECOND).toBeLessThan(4)
})

test('requests without an answer end the patience of the team; an answer, or a long pause, begins it anew', async () => {
  const SECOND = 1_000_000
  const clock = openHurriedClock()
  const limiter = openLimiter({
    concurrency: 2,
    clock,
    logger: pino({ level: 'silent' }),
    giveUpAfterMs: 10_000,
  })
  const lose = async (seconds: number) => {
    const permit = await limiter.acquire([], { since: clock.now(), again: false })
    await clock.sleep(seconds * 1000)
    return permit.lost()
  }
  expect([await lose(4), await lose(4)]).toEqual([true, true])
  expect(await lose(4)).toBe(false)
  ;(await limiter.acquire([], { since: clock.now(), again: false })).accepted()
  // The pause before this request does not excuse it: the request before the pause had no answer either.
  expect(await lose(4)).toBe(true)
  await clock.sleep(5_000)
  expect(await lose(6)).toBe(false)
  ;(await limiter.acquire([], { since: clock.now(), again: false })).accepted()
  expect(await lose(9)).toBe(true)
  const begun = clock.now()
  await clock.sleep(60_000)
  expect(clock.now() - begun).toBeGreaterThanOrEqual(60 * SECOND)
  expect(await lose(9)).toBe(true)
  expect(await lose(10)).toBe(false)
})

describe('a call that is throttled', () => {
  const MINUTE = 60_000_000

  function open(giveUpAfterMs?: number, concurrency = 2) {
    const clock = openHurriedClock()
    return {
      clock,
      limiter: openLimiter({ concurrency, clock, logger: pino({ level: 'silent' }), giveUpAfterMs }),
    }
  }

  test('waits while the service accepts any request of the team, and is abandoned fifteen minutes later', async () => {
    const { clock, limiter } = open()
    const mine = { since: clock.now(), again: false }
    const other = async () => (await limiter.acquire([], { since: clock.now(), again: false })).accepted()
    for (const seconds of [0, 600, 1_200, 1_800]) {
      clock.skip(mine.since + seconds * 1_000_000 - clock.now())
      expect((await limiter.acquire([], mine)).throttled(1_000)).toBe(true)
      await other()
    }
    const acceptedAt = clock.now()
    const last = await limiter.acquire([], mine)
    clock.skip(acceptedAt + 15 * MINUTE - 500_000 - clock.now())
    expect(last.throttled(1_000)).toBe(true)
    const over = await limiter.acquire([], mine)
    expect(clock.now()).toBeGreaterThan(acceptedAt + 15 * MINUTE)
    expect(over.throttled(1_000)).toBe(false)
  })

  test('counts from its own start: earlier idle hours do not count as waiting', async () => {
    const { clock, limiter } = open()
    ;(await limiter.acquire([], { since: clock.now(), again: false })).accepted()
    clock.skip(600 * MINUTE)
    expect((await limiter.acquire([], { since: clock.now(), again: false })).throttled(1_000)).toBe(true)
  })

  test('is abandoned together with calls that have waited as long, and leaves the others waiting', async () => {
    const { clock, limiter } = open(60_000, 1)
    const old = { since: clock.now(), again: true }
    const permit = await limiter.acquire([], old)
    clock.skip(MINUTE)
    const ends: string[] = []
    const ended = (name: string) => [() => ends.push(`${name} sent`), () => ends.push(`${name} gave up`)]
    clock.stop()
    const waiting = limiter.acquire([], old)
    void waiting.then(...ended('old'))
    void limiter.acquire([], { since: clock.now(), again: false }).then(...ended('new'))
    expect(permit.throttled(50_000)).toBe(false)
    await expect(waiting).rejects.toBe(GAVE_UP)
    expect(ends.filter((end) => end.startsWith('new'))).toEqual([])
    clock.go()
    await expect.poll(() => ends).toContain('new sent')
  })

  test('is sent once more after a pause as long as its patience', async () => {
    const { clock, limiter } = open(60_000)
    const mine = { since: clock.now(), again: false }
    expect((await limiter.acquire([], mine)).throttled(60_000)).toBe(true)
    const again = await limiter.acquire([], { ...mine, again: true })
    expect(again.throttled(60_000)).toBe(false)
  })

  test('waits no longer than its patience, also where the pause that nobody asked for is longer', async () => {
    const { clock, limiter } = open(10_000)
    for (let times = 0; times < 4; times++) {
      const permit = await limiter.acquire([], { since: clock.now(), again: false })
      permit.throttled(null)
    }
    // The next pause is one of five seconds, and the one after it of twenty.
    ;(await limiter.acquire([], { since: clock.now(), again: false })).throttled(null)
    const since = clock.now()
    await expect(limiter.acquire([], { since, again: false })).rejects.toBe(GAVE_UP)
    expect((clock.now() - since) / 1_000_000).toBeCloseTo(10, 0)
  })

  test('by "at once" repeatedly is not resent without a pause', async () => {
    const { clock, limiter } = open()
    const mine = { since: clock.now(), again: true }
    let sent = 0
    while ((await limiter.acquire([], mine)).throttled(0)) sent += 1
    expect(sent).toBeLessThan(20)
    expect(clock.now()).toBeGreaterThanOrEqual(mine.since + 15 * MINUTE)
  })

  test('leaves no timer behind when the last waiting call is aborted: it would keep the process alive', async () => {
    const pauses: AbortSignal[] = []
    const sleep = (_: number, signal?: AbortSignal) => {
      pauses.push(signal!)
      return systemClock.sleep(60_000, signal)
    }
    const clock = { ...systemClock, sleep }
    const limiter = openLimiter({ concurrency: 2, clock, logger: pino({ level: 'silent' }) })
    ;(await limiter.acquire([], call())).throttled(600_000)
    const aborts = [new AbortController(), new AbortController()]
    const waiting = aborts.map(({ signal }) => limiter.acquire([signal], call()).catch(() => 'gone'))
    aborts[0]!.abort()
    expect(pauses.at(-1)!.aborted).toBe(false)
    aborts[1]!.abort()
    expect(await Promise.all(waiting)).toEqual(['gone', 'gone'])
    expect(pauses.every((pause) => pause.aborted)).toBe(true)
  })

  test('no longer listens to its signals once it was admitted, turned away or aborted', async () => {
    const limiter = openLimiter({ concurrency: 1, clock: systemClock, logger: pino({ level: 'silent' }) })
    const { signal } = new AbortController()
    const abort = new AbortController()
    const waits = () => getEventListeners(signal, 'abort').length
    const permit = await limiter.acquire([signal], call())
    expect(waits()).toBe(0)
    const later = [
      limiter.acquire([signal], call()),
      limiter.acquire([signal, abort.signal], call()),
      limiter.acquire([signal], call()),
    ].map((waiting) => waiting.catch((reason: unknown) => reason))
    expect(waits()).toBe(3)
    abort.abort('aborted')
    expect([waits(), await later[1]]).toEqual([2, 'aborted'])
    permit.throttled(7_200_000)
    expect([waits(), await later[0], await later[2]]).toEqual([0, TOO_LONG, TOO_LONG])
  })

  test('ends at once when it is aborted', async () => {
    const limiter = openLimiter({ concurrency: 2, clock: systemClock, logger: pino({ level: 'silent' }) })
    const abort = new AbortController()
    ;(await limiter.acquire([], call())).throttled(600_000)
    const waiting = limiter.acquire([abort.signal], call(true))
    abort.abort(new Error('stopped'))
    await expect(waiting).rejects.toThrow('stopped')
  })
})
