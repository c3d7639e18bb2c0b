/** How a rejection changes a known limit, and what a limit does that it adopted from another process. */
import { describe, expect, test } from 'vitest'
import { Limit } from '../../../src/api/budget/limit.ts'
import { LimitModel, type ModelState } from '../../../src/api/budget/limit-model.ts'
import { SECOND } from '../../../src/api/budget/margin.ts'
import { Sends, Share } from '../../../src/api/budget/sends.ts'

const KNOWN: ModelState = {
  ...{ count: 10, window: SECOND, margin: 0, spread: 1.2, proven: null, contradictions: 0, unsure: false },
  ...{ raise: 0, waitBeforeRaise: 30 * SECOND },
}
const SENT_AT = 10 * SECOND

/** The state after a rejection, with so many requests in the window and so many while the answer was on its way. */
function rejected(state: Partial<ModelState>, many: number, late = 0): ModelState {
  const sends = new Sends()
  for (let each = many; each > 0; each--) sends.add(SENT_AT - (each * SECOND) / (many + 1))
  for (let each = 0; each < late; each++) sends.add(SENT_AT + 20_000 + each)
  const model = new LimitModel(sends)
  model.adopt({ ...KNOWN, ...state }, 0)
  const episode = { sentAt: SENT_AT, seenAt: SENT_AT + 50_000, rejections: 1, retryAfter: SECOND }
  model.learn(episode, { startedAt: 0, since: undefined }, 0, SECOND)
  return model.state!
}

describe('a rejection', () => {
  test('that confirms the limit widens the margin, and leaves the limit certain', () => {
    for (const [many, late] of [
      [10, 0],
      [9, 0],
      [10, 3],
    ] as const) {
      expect(rejected({}, many, late)).toEqual({ ...KNOWN, margin: 10_000 })
    }
  })

  test('that lowers a small limit leaves it unsure if the window may have contained more requests', () => {
    expect(rejected({ count: 20 }, 10, 2)).toMatchObject({ count: 10, unsure: true, contradictions: 1 })
    expect(rejected({ count: 20 }, 10)).toMatchObject({ count: 10, unsure: false })
    expect(rejected({ count: 60 }, 26, 2)).toMatchObject({ count: 26, unsure: false })
    expect(rejected({ count: 12, proven: 10 }, 10, 2)).toMatchObject({ count: 10, unsure: false })
  })

  test('of a raised limit doubles the wait before the next raise, up to fifteen minutes', () => {
    const waits = [30, 400, 500, 900].map((seconds) => {
      const { waitBeforeRaise } = rejected({ proven: 9, waitBeforeRaise: seconds * SECOND }, 10)
      return waitBeforeRaise / SECOND
    })
    expect(waits).toEqual([60, 800, 900, 900])
  })
})

describe('a limit that another process has learned', () => {
  test('in the middle of a raise is raised again only after a whole window, and the time of its answers, have passed', () => {
    const model = new LimitModel(new Sends())
    model.margin.measure(200_000)
    model.adopt({ ...KNOWN, count: 100, proven: 95, raise: 0.05 }, SENT_AT)
    const counts = [0.5, 1.3, 1.4, 1.41].map((seconds) => {
      const at = SENT_AT + seconds * SECOND
      model.raiseWhenQuiet(at, at)
      return model.count
    })
    // The window, 0.8 % of it, and two round trips.
    expect(counts).toEqual([100, 100, 100, 110])
    expect(model.state).toMatchObject({ proven: 100, raise: 0.1 })
  })

  test('is not made unsure by requests that other processes report; a limit learned here is', () => {
    const unsure = [null, KNOWN].map((known) => {
      const limit = new Limit(16)
      if (known !== null) limit.adopt(known, 0)
      limit.others = [[SENT_AT - SECOND / 4, 2]]
      for (let each = 8; each > 0; each--) limit.accepted(limit.sent(SENT_AT - each * 100_000), SENT_AT)
      limit.rejected(limit.sent(SENT_AT), SENT_AT + 50_000, SECOND)
      limit.resume(SENT_AT + 2 * SECOND)
      return limit.known!.unsure
    })
    expect(unsure).toEqual([true, false])
  })
})

test('a silence during a rejection does not shorten the window that is learned from it', () => {
  const limit = new Limit(4)
  for (let at = 0; at < 10; at += 0.25) limit.accepted(limit.sent(at * SECOND), at * SECOND)
  limit.rejected(limit.sent(SENT_AT), SENT_AT + 10_000, null)
  const later = SENT_AT + 90 * SECOND
  expect(limit.wait(later)).toBe(0)
  limit.accepted(limit.sent(later), later + 10_000)
  expect(limit.known?.window).toBe(15 * SECOND)
})

test('requests sent before a share was granted do not count as uses of its permits', () => {
  const sends = new Sends()
  for (const at of [10, 20, 130]) sends.add(at)
  const share = new Share(100)
  share.take([[100, 4]])
  expect(share.give(4, 150, sends, 1_000)).toEqual([
    [150, 3],
    [1_130, 1],
  ])
})
