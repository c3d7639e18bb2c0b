/** What a limiter reports to those who share its budget, what it makes of its share, and what counts as an answer. */
import pino, { type Logger } from 'pino'
import { expect, test } from 'vitest'
import type { Division } from '../../../src/api/budget/division.ts'
import { Limit } from '../../../src/api/budget/limit.ts'
import type { ModelState } from '../../../src/api/budget/limit-model.ts'
import { openLimiter } from '../../../src/api/budget/limiter.ts'
import { Share } from '../../../src/api/budget/sends.ts'
import type { BudgetStore } from '../../../src/api/budget/sharing.ts'
import { systemClock } from '../../../src/core/clock.ts'
import { openHurriedClock } from '../support/hurried-clock.ts'
import { openSimulatedClock } from './processes.ts'

const SECOND = 1_000_000

const model = (count: number): ModelState => ({
  ...{ count, window: SECOND, margin: 0, spread: 1, proven: null, contradictions: 0 },
  ...{ unsure: false, raise: 0, waitBeforeRaise: 30 * SECOND },
})

/** A limiter whose store does what a test says, with the lines of its log. */
function open(update: BudgetStore['update']) {
  const lines: unknown[] = []
  const note = (...line: unknown[]) => void lines.push(line)
  const limiter = openLimiter({
    ...{ concurrency: 1, clock: systemClock, team: 'north' },
    logger: { warn: note, info: note } as unknown as Logger,
    store: { name: 'me', update, listen: () => {}, close: async () => {} },
  })
  const acquire = (again = false, urgent = false) =>
    limiter.acquire([], { since: systemClock.now(), again, urgent })
  return { limiter, acquire, lines }
}

test('the others hear how many urgent requests wait; repeated ones and lists are none of them', async () => {
  const stored: Division[] = []
  const { limiter, acquire } = open(async (change) => {
    await new Promise((resolve) => setImmediate(resolve))
    stored.push(change(null, systemClock.now()).division)
  })
  const waiting = [acquire(), acquire(false, true), acquire(true, true), acquire(false, true), acquire()]
  for (const [place, each] of [2, 1, 3, 0, 4].entries()) {
    ;(await waiting[each]!).accepted()
    if (place === 0) expect(stored[0]!.holders.me).toMatchObject({ urgent: 2, wants: null })
  }
  await limiter.close()
})

test('a store that fails is named in the log with the team and the kind of error, never its words', async () => {
  const { limiter, acquire, lines } = open(async () => {
    throw new TypeError('the words of the error')
  })
  ;(await acquire()).accepted()
  ;(await acquire()).accepted()
  await limiter.close()
  expect(lines).toEqual([[{ team: 'north', why: 'TypeError' }, 'the request budget cannot be shared now']])
})

test('a rejection is reported to the others at once, and not with the next exchange a second later', async () => {
  const { clock, run } = openSimulatedClock()
  let division: Division | null = null
  const limiter = openLimiter({
    ...{ concurrency: 1, clock, logger: pino({ level: 'silent' }) },
    store: {
      name: 'me',
      update: async (change) => {
        division = change(division, clock.now()).division
      },
      listen: () => {},
      close: async () => {},
    },
  })
  const acquire = () => limiter.acquire([], { since: clock.now(), again: false })
  const acquired = acquire()
  void acquire()
  await run(clock.now() + SECOND / 2)
  ;(await acquired).throttled(5_000)
  await run(clock.now() + SECOND / 10)
  expect(division).toMatchObject({ episode: { owner: 'me', rejections: 1, retryAfter: 5 * SECOND } })
})

test('requests are spread by the share of the process, or by all permits, and may come a little early', () => {
  const waits = (count: number | null, limit: Limit) => {
    if (count !== null) {
      limit.share = new Share(0)
      limit.share.reset(count)
    }
    limit.sent(SECOND)
    return limit.wait(SECOND)
  }
  // Ten in ten seconds, with 0.8 % unused; at most a tenth of a second early, or of a shorter window.
  const configured = () => new Limit(4, { requests: 10, seconds: 10 })
  expect(waits(null, configured())).toBe(10_080_000 / 10 - 100_000)
  expect(waits(2, configured())).toBe(10_080_000 / 2 - 100_000)
  const learned = (window: number) => {
    const limit = new Limit(4)
    limit.adopt({ ...model(4), window }, 0)
    return limit
  }
  expect(waits(null, learned(SECOND))).toBe(1_008_000 / 4 - 100_000)
  expect(waits(2, learned(SECOND))).toBe(1_008_000 / 2 - 100_000)
  expect(waits(null, learned(10 * SECOND))).toBe(10_080_000 / 4 - 1_000_000)
})

test('a learned limit is raised only by the process that is allowed to, however long all was quiet', () => {
  const raised = [false, true].map((mayRaise) => {
    const limit = new Limit(4)
    limit.adopt(model(40), 0)
    limit.mayRaise = mayRaise
    limit.pressedAt = 400 * SECOND
    limit.wait(400 * SECOND)
    return limit.known!.count
  })
  expect(raised).toEqual([40, 42])
})

test('a body that begins is an answer: it ends the silence of the service, and the patience of calls begins anew', async () => {
  const clock = openHurriedClock()
  const logger = pino({ level: 'silent' })
  const limiter = openLimiter({ concurrency: 2, clock, logger, giveUpAfterMs: 10_000 })
  const send = (since = clock.now()) => limiter.acquire([], { since, again: false })
  const lose = async (seconds: number) => {
    const permit = await send()
    clock.skip(seconds * 1_000_000)
    return permit.lost()
  }
  const since = clock.now()
  expect([await lose(4), await lose(4)]).toEqual([true, true])
  ;(await send()).streaming()()
  expect([await lose(4), await lose(4)]).toEqual([true, true])
  expect((await send(since)).throttled(0)).toBe(true)
})
