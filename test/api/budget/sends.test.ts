/** Times of requests in a ring, and the permits of one process: which of them may be used, and when. */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { merged, Sends, Share } from '../../../src/api/budget/sends.ts'

const sendsAt = (...times: readonly number[]): Sends => {
  const sends = new Sends()
  for (const time of times) sends.add(time)
  return sends
}

describe('requests', () => {
  /** The content as a list. */
  const listed = (sends: Sends) =>
    Array.from({ length: sends.size }, (_, at) => sends.newest(sends.size - at)!)

  test('are added, removed, moved and forgotten as in a sorted list', () => {
    const time = fc.integer({ min: 0, max: 40 })
    const step = fc.oneof(
      fc.record({ kind: fc.constant('add' as const), at: time, to: time }),
      fc.record({ kind: fc.constantFrom('add', 'remove', 'postpone', 'forget'), at: time, to: time }),
    )
    fc.assert(
      fc.property(fc.array(step, { maxLength: 40 }), time, time, (steps, from, to) => {
        const sends = new Sends()
        let list: number[] = []
        for (const { kind, at, to: later } of steps) {
          const newest = list.findLastIndex((each) => each <= at)
          if (kind === 'add') list.push(Math.max(at, list.at(-1) ?? 0))
          if (kind === 'remove' && newest >= 0) list.splice(newest, 1)
          if (kind === 'postpone' && newest >= 0)
            list = list.map((each, index) => (index >= newest ? Math.max(each, later) : each))
          if (kind === 'forget') list = list.filter((each) => each > at)
          if (kind === 'add') sends.add(at)
          if (kind === 'remove') sends.remove(at)
          if (kind === 'postpone') sends.postpone(at, later)
          if (kind === 'forget') sends.forgetUpTo(at)
          expect(listed(sends)).toEqual(list)
        }
        expect(sends.between(from, to)).toBe(list.filter((each) => each > from && each <= to).length)
        expect([sends.newest(0), sends.newest(list.length + 1)]).toEqual([undefined, undefined])
      }),
      { numRuns: 300 },
    )
  })

  test('are kept in order when the ring grows after its beginning was forgotten', () => {
    const sends = new Sends()
    for (let time = 0; time < 200; time++) sends.add(time)
    sends.forgetUpTo(99)
    for (let time = 200; time < 500; time++) sends.add(time)
    expect(listed(sends)).toEqual(Array.from({ length: 400 }, (_, at) => at + 100))
  })

  test('are the newest 131,072 at most', () => {
    const sends = new Sends()
    for (let time = 0; time < 131_074; time++) sends.add(time)
    expect([sends.size, sends.newest(131_072), sends.newest(1)]).toEqual([131_072, 2, 131_073])
  })
})

describe('a share', () => {
  const SPAN = 100

  function shareOf(...permits: readonly (readonly [number, number])[]): Share {
    const share = new Share(0)
    share.take(permits)
    return share
  }

  test('without permits permits nothing', () => {
    expect([new Share(0).count, new Share(0).due(5, sendsAt(), SPAN)]).toEqual([0, Number.POSITIVE_INFINITY])
  })

  test('permits as many requests in a window as it has permits that have arrived', () => {
    const share = shareOf([5, 2], [9, 1])
    expect([share.count, share.due(4, sendsAt(), SPAN)]).toEqual([3, 5])
    expect(share.due(5, sendsAt(), SPAN)).toBe(5)
    expect(share.due(7, sendsAt(6), SPAN)).toBe(7)
    // Both are used: the next one arrives before they leave the window.
    expect(share.due(8, sendsAt(6, 7), SPAN)).toBe(9)
    expect(share.due(9, sendsAt(6, 7), SPAN)).toBe(9)
    expect(share.due(9, sendsAt(6, 7, 8), SPAN)).toBe(106)
  })

  test('has nothing to do with requests that were sent with permits that are given back', () => {
    const sends = sendsAt(3, 4)
    const share = shareOf([0, 2])
    expect(share.due(5, sends, SPAN)).toBe(103)
    share.give(2, 10, sends, SPAN)
    share.take([[20, 2]])
    expect(share.due(20, sends, SPAN)).toBe(20)
    sends.add(10)
    expect(share.due(20, sends, SPAN)).toBe(20)
    sends.add(11)
    sends.add(12)
    expect(share.due(20, sends, SPAN)).toBe(111)
  })

  test('gives back unused permits first, then those that have not arrived, the latest first, then used ones', () => {
    const sends = sendsAt(1, 2)
    const give = (count: number) => {
      const share = shareOf([0, 5], [50, 2], [60, 1])
      return [share.give(count, 10, sends, SPAN), share.count]
    }
    expect(give(3)).toEqual([[[10, 3]], 5])
    expect(give(4)).toEqual([
      [
        [10, 3],
        [60, 1],
      ],
      4,
    ])
    expect(give(5)).toEqual([
      [
        [10, 3],
        [50, 1],
        [60, 1],
      ],
      3,
    ])
    expect(give(7)).toEqual([
      [
        [10, 3],
        [50, 2],
        [60, 1],
        [101, 1],
      ],
      1,
    ])
    // No more than it has.
    expect(give(99)).toEqual([
      [
        [10, 3],
        [50, 2],
        [60, 1],
        [101, 1],
        [102, 1],
      ],
      0,
    ])
    expect(give(0)).toEqual([[], 8])
  })

  test('keeps those that it did not give back', () => {
    const sends = sendsAt(1, 2, 3, 4, 5)
    const share = shareOf([0, 5], [50, 2], [60, 1])
    share.give(2, 10, sends, SPAN)
    expect([share.count, share.due(10, sends, SPAN), share.due(50, sends, SPAN)]).toEqual([6, 50, 50])
    sends.add(50)
    expect(share.due(51, sends, SPAN)).toBe(101)
  })

  test('has used those of requests in the window only', () => {
    const share = shareOf([0, 2])
    expect(share.give(2, 201, sendsAt(100, 101, 102), SPAN)).toEqual([
      [201, 1],
      [202, 1],
    ])
  })

  test('that is reset has permits for the requests that were sent', () => {
    const share = new Share(50)
    share.take([[90, 3]])
    share.reset(2)
    expect(share.count).toBe(2)
    expect(share.due(60, sendsAt(10, 20), SPAN)).toBe(110)
    expect(share.due(60, sendsAt(10), SPAN)).toBe(60)
  })

  test('that is copied changes by itself', () => {
    const share = new Share(50)
    share.take([
      [60, 1],
      [90, 3],
    ])
    const copy = share.copy()
    expect(copy.due(70, sendsAt(65), SPAN)).toBe(90)
    copy.give(4, 70, sendsAt(), SPAN)
    expect([share.count, copy.count]).toEqual([4, 0])
    expect(share.due(70, sendsAt(65), SPAN)).toBe(90)
    // Of the time before the share, requests were sent with other permits.
    expect(share.copy().due(70, sendsAt(40), SPAN)).toBe(70)
  })
})

describe('a list of permits', () => {
  test('is ascending, has one entry for each time, and none without permits', () => {
    expect(
      merged([
        [9, 1],
        [2, 2],
        [5, 0],
        [9, 3],
      ]),
    ).toEqual([
      [2, 2],
      [9, 4],
    ])
  })

  test('has at most 32 entries, each usable when the latest of its permits is', () => {
    const of = (length: number) => Array.from({ length }, (_, at) => [at, 1] as const)
    expect(merged(of(32))).toEqual(of(32))
    expect(merged(of(33))).toEqual([
      ...Array.from({ length: 16 }, (_, at) => [2 * at + 1, 2] as const),
      [32, 1],
    ])
  })
})
