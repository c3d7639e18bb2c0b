/** The timers of a limiter: one at most, set for as long as a call has to wait, and none that nobody needs. */
import pino from 'pino'
import { expect, test } from 'vitest'
import { GAVE_UP, type LimiterOptions, openLimiter, TOO_LONG } from '../../../src/api/budget/limiter.ts'
import { systemClock } from '../../../src/core/clock.ts'

const SECOND = 1_000_000

/** A limiter whose time passes only as the test says; `pauses` are those that are neither over nor aborted. */
function open(options: Partial<LimiterOptions> = {}) {
  let now = 1_000 * SECOND
  let pauses: { readonly milliseconds: number; readonly end: () => void }[] = []
  let [most, started] = [0, 0]
  const clock = {
    now: () => now,
    sleep: (milliseconds: number, signal?: AbortSignal) =>
      new Promise<void>((end, fail) => {
        const pause = { milliseconds, end }
        pauses.push(pause)
        started += 1
        most = Math.max(most, pauses.length)
        signal?.addEventListener('abort', () => {
          pauses = pauses.filter((each) => each !== pause)
          fail(signal.reason)
        })
      }),
  }
  const limiter = openLimiter({
    ...{ concurrency: 2, clock, logger: pino({ level: 'silent' }), rateLimit: { requests: 2, seconds: 10 } },
    ...options,
  })
  const turn = () => new Promise((resolve) => setImmediate(resolve))
  const acquire = (signals: readonly AbortSignal[] = [], kind = {}) =>
    limiter.acquire(signals, { since: now, again: false, ...kind })
  /** Lets the present pause pass, which must be the only one. */
  const pass = async (meanwhile = () => {}) => {
    const [pause] = pauses.splice(0, 1)
    now += pause!.milliseconds * 1_000
    pause!.end()
    meanwhile()
    await turn()
    return pause!.milliseconds
  }
  const waits = () => pauses.map(({ milliseconds }) => milliseconds)
  return { acquire, pass, waits, turn, mostPauses: () => most, started: () => started }
}

test('many calls wait for one timer, which is set anew for each of them', async () => {
  const { acquire, pass, waits, turn, mostPauses } = open()
  const granted: number[] = []
  const calls = Array.from({ length: 6 }, async (_, place) => {
    const permit = await acquire()
    granted.push(place)
    permit.accepted()
  })
  await turn()
  const before = granted.length
  expect([before < 6, waits().length]).toEqual([true, 1])
  while (waits().length > 0) expect(await pass()).toBeGreaterThan(0)
  await Promise.all(calls)
  expect(granted).toEqual([0, 1, 2, 3, 4, 5])
  expect([mostPauses(), waits()]).toEqual([1, []])
})

test('a call needs one pause only, and a timer that was replaced just as it ended does nothing', async () => {
  const { acquire, pass, waits, turn, started } = open({ rateLimit: { requests: 11, seconds: 10 } })
  ;(await acquire()).accepted()
  const second = acquire()
  await turn()
  // 816.4 ms: an eleventh of the window with its margin, less what may be sent early.
  expect(waits()).toEqual([817])
  let third: ReturnType<typeof acquire> | undefined
  await pass(() => {
    third = acquire()
  })
  await second
  expect([started(), waits().length]).toEqual([2, 1])
  await pass()
  await third
  expect([started(), waits()]).toEqual([2, []])
})

test('a call that is aborted leaves a timer only if another waits', async () => {
  const { acquire, pass, waits, turn } = open()
  for (let place = 0; place < 2; place++) {
    const call = acquire()
    if (waits().length > 0) await pass()
    ;(await call).accepted()
  }
  const [first, second] = [new AbortController(), new AbortController()]
  const calls = [first, second].map(({ signal }) => acquire([signal]).catch((reason: unknown) => reason))
  await turn()
  expect(waits()).toHaveLength(1)
  first.abort('first')
  await turn()
  expect(waits()).toHaveLength(1)
  second.abort('second')
  expect(await Promise.all(calls)).toEqual(['first', 'second'])
  expect(waits()).toEqual([])
})

test.each([{}, { urgent: true }, { again: true }])(
  'the last call that waits is woken, whichever is aborted before: %o stays',
  async (stays) => {
    for (const aborted of [{}, { urgent: true }, { again: true }]) {
      const { acquire, pass, waits, turn } = open()
      ;(await acquire()).accepted()
      const abort = new AbortController()
      const calls = [acquire([], stays), acquire([abort.signal], aborted).catch(() => 'aborted')]
      await turn()
      abort.abort()
      expect([await calls[1], waits().length]).toEqual(['aborted', 1])
      await pass()
      ;((await calls[0]) as { accepted(): void }).accepted()
      expect(waits()).toEqual([])
    }
  },
)

test('all that wait are turned away from a pause that is too long: lists, fetches by id and repeated ones', async () => {
  const { acquire } = open({ concurrency: 1, giveUpAfterMs: 4_000 })
  const permit = await acquire()
  const calls = [{}, { urgent: true }, { again: true }].map((kind) =>
    acquire([], kind).catch((reason: unknown) => reason),
  )
  expect(permit.throttled(4_001)).toBe(true)
  expect(await Promise.all(calls)).toEqual([TOO_LONG, TOO_LONG, TOO_LONG])
})

test('a pause that is longer than the patience of the team is waited for no longer than that', async () => {
  const { acquire, pass, waits, turn } = open({
    ...{ giveUpAfterMs: 4_000, concurrency: 1, rateLimit: { requests: 1, seconds: 3_600 } },
  })
  ;(await acquire()).accepted()
  const call = acquire().catch((reason: unknown) => reason)
  await turn()
  expect(waits()).toEqual([4_000])
  await pass()
  expect(await call).toBe(GAVE_UP)
  expect(waits()).toEqual([])
})

test('a body that is being read keeps its place, even when another is closed whose permit had already been given back', async () => {
  const { acquire, turn } = open({ concurrency: 1, rateLimit: { requests: 100, seconds: 1 } })
  const lost = await acquire()
  lost.lost()
  const over = lost.streaming()
  over()
  over()
  let isIn = false
  const next = async () => {
    const permit = await acquire()
    isIn = true
    return permit
  }
  const reading = await acquire()
  const leave = reading.streaming()
  const waiting = next()
  await turn()
  expect(isIn).toBe(false)
  leave()
  ;(await waiting).accepted()
  expect(isIn).toBe(true)
})

test('a limiter is closed when its store is, however often it is closed', async () => {
  const happened: string[] = []
  const store = {
    ...{ name: 'own', update: async () => {}, listen: () => {} },
    close: async () => {
      await new Promise((resolve) => setImmediate(resolve))
      happened.push('closed')
    },
  }
  const logger = pino({ level: 'silent' })
  const limiter = openLimiter({ concurrency: 1, clock: systemClock, logger, store })
  await limiter.close()
  expect(happened).toEqual(['closed'])
  await limiter.close()
  expect(happened).toEqual(['closed'])
})
