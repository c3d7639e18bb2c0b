/** What one rejection says about the limit, given the requests before it. Times are in microseconds. */
import { describe, expect, test } from 'vitest'
import { LimitModel, type ModelState } from '../../../src/api/budget/limit-model.ts'
import { SECOND } from '../../../src/api/budget/margin.ts'
import { Sends } from '../../../src/api/budget/sends.ts'

const KNOWN: ModelState = {
  ...{ count: 100, window: SECOND, margin: 0, spread: 1.2, proven: null, contradictions: 0, unsure: false },
  ...{ raise: 0, waitBeforeRaise: 30 * SECOND },
}

/** A model that knows this, and the requests that its process sends. */
function open(state: Partial<ModelState> | null, at = 0) {
  const sends = new Sends()
  const model = new LimitModel(sends)
  if (state !== null) model.adopt({ ...KNOWN, ...state }, at)
  return {
    model,
    /** Sends so many, evenly, in the second before this time. */
    send(many: number, before: number) {
      for (let each = many; each > 0; each--) sends.add(before - (each * SECOND) / (many + 1))
    },
    /** A request that was sent at this time is rejected. */
    reject(
      sentAt: number,
      { startedAt = 0, since = undefined as number | undefined, retryAfter = SECOND } = {},
    ) {
      const episode = { sentAt, seenAt: sentAt + 50_000, rejections: 1, retryAfter }
      model.learn(episode, { startedAt, since }, 0, SECOND)
      return model.state!
    },
  }
}

describe('the first rejection', () => {
  test('of a process that sends since less than a window names what it sent at most, and later ones what is likely', () => {
    const counts = [9.5, 2].map((startedAt) => {
      const { send, reject, model } = open(null)
      send(6, 10 * SECOND)
      // Sent while the rejection was on its way.
      send(1, 10.52 * SECOND)
      expect(model.state).toBeNull()
      return reject(10 * SECOND, { startedAt: startedAt * SECOND })
    })
    expect(counts).toMatchObject([
      { count: 7, window: SECOND },
      { count: 6, window: SECOND },
    ])
  })

  test('after a few requests has others behind it: more is tried soon', () => {
    const waits = [2, 30].map((many) => {
      const { send, reject } = open(null)
      send(many, 10 * SECOND)
      return reject(10 * SECOND).waitBeforeRaise / SECOND
    })
    expect(waits).toEqual([5, 30])
  })
})

describe('a rejection later', () => {
  test('with more requests in the window than the limit says that it was too low', () => {
    const { send, reject } = open({ count: 10 })
    send(15, 10 * SECOND)
    expect(reject(10 * SECOND)).toMatchObject({ count: 15, margin: 0 })
  })

  test('counts none of those that may have been in the window or not, in the millisecond around its ends', () => {
    const around = (at: number) => [-900, 900].map((off) => at + off)
    for (const unsure of [around(9 * SECOND), around(10 * SECOND)]) {
      const { model, reject, send } = open({ count: 10 })
      if (unsure[0]! > 9.5 * SECOND) send(15, 10 * SECOND)
      for (const at of unsure) send(1, at + SECOND / 2)
      if (unsure[0]! < 9.5 * SECOND) send(15, 10 * SECOND)
      expect([reject(10 * SECOND).count, model.state?.count]).toEqual([15, 15])
    }
  })

  test('with as many widens the unused part of the window, and lowers the limit only when that is widest', () => {
    const { send, reject } = open({ count: 100 })
    send(100, 10 * SECOND)
    const found = Array.from({ length: 6 }, () => reject(10 * SECOND).count)
    expect(found).toEqual([100, 100, 100, 100, 100, 98])
  })

  test('with fewer lowers the limit to what was in the window', () => {
    for (const [many, contradictions] of [
      [95, 0],
      [60, 1],
    ] as const) {
      const { send, reject } = open({ count: 100 })
      send(many, 10 * SECOND)
      expect(reject(10 * SECOND)).toMatchObject({ count: many, contradictions, spread: 1.2 })
    }
  })

  test('twice in a row is that of a token bucket: requests are spread evenly, and the limit sinks in steps', () => {
    for (const [again, since, expected] of [
      [12, 10, { contradictions: 2, spread: 1, count: 34 }],
      // The first one was long ago.
      [22, 10, { contradictions: 1, spread: 1.2, count: 40 }],
      // The limit was adopted after the request was sent.
      [12, 12.1, { contradictions: 1, spread: 1.2, count: 40 }],
    ] as const) {
      const { send, reject } = open({ count: 100 })
      send(60, 10 * SECOND)
      reject(10 * SECOND)
      send(40, again * SECOND)
      expect(reject(again * SECOND, { since: since * SECOND })).toMatchObject(expected)
    }
  })

  test('that asks for a pause longer than the window shows a longer window', () => {
    const { send, reject } = open({ count: 20 })
    send(20, 10 * SECOND)
    expect(reject(10 * SECOND, { retryAfter: 2 * SECOND }).window).toBe(2 * SECOND)
    expect(reject(10 * SECOND, { retryAfter: 9 * SECOND }).window).toBe(10 * SECOND)
    expect(reject(10 * SECOND, { retryAfter: SECOND }).window).toBe(10 * SECOND)
  })
})

describe('the limit is raised', () => {
  const quiet = (model: LimitModel, at: number, pressedAt = at) => {
    model.raiseWhenQuiet(at * SECOND, pressedAt * SECOND)
    return model.state!.count
  }

  test('in growing steps after half a minute without a rejection, while requests wait, each once the one before has shown', () => {
    const { model } = open({ count: 100 })
    expect([quiet(model, 29.9), quiet(model, 31, 29.5), quiet(model, 32)]).toEqual([100, 100, 105])
    expect([quiet(model, 32.9), quiet(model, 33.1), quiet(model, 34.2, 32), quiet(model, 34.3)]).toEqual([
      105, 115, 115, 138,
    ])
    expect(model.state).toMatchObject({ proven: 115, raise: 0.2 })
  })

  test('at most to twice as much in one step', () => {
    const { model } = open({ count: 100 })
    quiet(model, 31)
    const counts = Array.from({ length: 6 }, (_, at) => quiet(model, 34 + 3 * at))
    expect(counts).toEqual([115, 138, 193, 347, 694, 1_388])
    expect(model.state).toMatchObject({ proven: 694, raise: 1 })
  })

  test('only after the unused part of the window was narrowed, and later where one request is much of it', () => {
    const widened = open({ count: 100, margin: 4_000 })
    expect([quiet(widened.model, 31), quiet(widened.model, 32)]).toEqual([100, 100])
    expect(widened.model.state).toMatchObject({ margin: 0 })
    expect([quiet(widened.model, 60), quiet(widened.model, 61.1)]).toEqual([100, 105])
    const few = open({ count: 2 })
    expect([quiet(few.model, 149), quiet(few.model, 151)]).toEqual([2, 3])
  })

  test('soon where it may be one too low', () => {
    const { model } = open({ count: 20, unsure: true })
    expect([quiet(model, 9), quiet(model, 11)]).toEqual([20, 21])
    const known = open({ count: 26 })
    known.model.markUnsure()
    expect(known.model.state!.unsure).toBe(false)
  })

  test('and returns to what was proven when the raise is refused, to wait twice as long then', () => {
    const { model, send, reject } = open({ count: 100 })
    expect(quiet(model, 31)).toBe(105)
    send(104, 40 * SECOND)
    expect(reject(40 * SECOND)).toMatchObject({
      ...{ count: 104, proven: null, raise: 0, waitBeforeRaise: 60 * SECOND },
    })
    expect([quiet(model, 99), quiet(model, 101)]).toEqual([104, 109])
  })
})
