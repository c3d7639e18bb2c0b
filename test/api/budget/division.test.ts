/** What the processes of a team agree on about its limit: who has how many permits, and from when they may be used. */
import { describe, expect, test } from 'vitest'
import {
  type Division,
  emptyDivision,
  exchangeOf,
  fairShares,
  type Holder,
  inOrder,
  LEASE,
  spanOf,
  swept,
  withFreed,
  withModel,
  withoutModel,
  withoutPermits,
} from '../../../src/api/budget/division.ts'
import type { ModelState } from '../../../src/api/budget/limit-model.ts'

const SECOND = 1_000_000

const limit = (count: number, window = SECOND, margin = 0): ModelState => ({
  ...{ count, window, margin, spread: 1.2, proven: null, contradictions: 0 },
  ...{ unsure: false, raise: 0, waitBeforeRaise: SECOND },
})
const holder = (over: Partial<Holder> = {}): Holder => ({
  ...{ until: 1_000 * SECOND, since: 0, permits: 0, wants: null, urgent: 0, sends: [], isFixed: false },
  ...over,
})
const division = (over: Partial<Division> = {}): Division => ({ ...emptyDivision(), ...over })

test('the learned limit is kept while a process has another one configured, for the processes that stay when it leaves', () => {
  const learned = withModel(emptyDivision(), limit(50), false, 0)
  const configured = withModel(learned, limit(20), true, 0)
  expect([configured.model!.count, configured.isFixed, configured.learned!.count]).toEqual([20, true, 50])
  const again = withModel(configured, configured.learned!, false, 0)
  expect([again.model!.count, again.isFixed, again.learned!.count]).toEqual([50, false, 50])
  expect([learned, configured, again].map(({ revision }) => revision)).toEqual([1, 2, 3])
})

test('when a configured limit is gone and none is learned, nobody has permits or owes any', () => {
  const episode = { owner: 'b', sentAt: 1, seenAt: 2, rejections: 1, retryAfter: null }
  const shared = {
    model: limit(5),
    isFixed: true,
    revision: 4,
    pool: [[1, 2]] as const,
    debt: 1,
    pausedUntil: 7,
    episode,
  }
  const sends = [[1, 2]] as const
  const gone = withoutModel(
    division({ ...shared, holders: { a: holder({ permits: 3, sends }), b: holder() } }),
  )
  const holders = { a: holder({ sends }), b: holder() }
  expect(gone).toEqual(division({ revision: 5, pausedUntil: 7, holders }))
})

test('a request counts for its window, two hundredths more and the margin, and never more than a twentieth more', () => {
  const spans = [0, 10_000, 30_000, 100_000].map((margin) => spanOf(limit(9, SECOND, margin)))
  expect(spans).toEqual([1_020_000, 1_030_000, 1_050_000, 1_050_000])
})

describe('a process that is silent', () => {
  const episode = { owner: 'b', sentAt: 1, seenAt: 2, rejections: 1, retryAfter: null }
  const model = limit(20, 10 * SECOND)
  const span = spanOf(model)
  const at = 100 * SECOND
  const silent = (over: Partial<Holder>) => holder({ until: at, ...over })
  const shared = { model, learned: model, pausedUntil: 7, episode, revision: 4 }

  test('has its permits until the end of its lease', () => {
    const all = division({ ...shared, holders: { a: silent({ permits: 7 }) } })
    expect(swept(all, at)).toBe(all)
    expect(swept(all, at + 1).holders).toEqual({})
  })

  test('leaves what it cannot have used at once, and the rest when what used it leaves the window', () => {
    // Newest first: it has used seven permits of late; three of them perhaps since its last word.
    const sends = [
      [at - 9 * SECOND, 3],
      [at - 8 * SECOND, 2],
    ] as const
    const few = division({ ...shared, holders: { a: silent({ permits: 7, sends }), b: holder() } })
    expect(swept(few, at + 1).pool).toEqual([
      [at - 9 * SECOND + span, 2],
      [at - 8 * SECOND + span, 2],
      [at + span, 3],
    ])
    const many = division({ ...shared, holders: { a: silent({ permits: 10, sends }), b: holder() } })
    expect(swept(many, at + 1).pool).toEqual([
      [at - LEASE, 1],
      [at - 9 * SECOND + span, 3],
      [at - 8 * SECOND + span, 2],
      [at + span, 4],
    ])
  })

  test('may have used no more than it had', () => {
    const brief = limit(20)
    const all = division({ ...shared, model: brief, holders: { a: silent({ permits: 5 }), b: holder() } })
    expect(swept(all, at + 1).pool).toEqual([[at + spanOf(brief), 5]])
  })

  test('leaves nothing where no limit is known', () => {
    const all = division({ ...shared, model: null, holders: { a: silent({ permits: 5 }), b: holder() } })
    expect(swept(all, at + 1).pool).toEqual([])
  })

  test('takes a pause and a rejection with it only if nobody else is there', () => {
    const alone = swept(division({ ...shared, holders: { a: silent({}) } }), at + 1)
    expect(alone).toMatchObject({ pausedUntil: 0, episode: null, model, learned: model, revision: 4 })
    const others = swept(division({ ...shared, holders: { a: silent({}), b: holder() } }), at + 1)
    expect(others).toMatchObject({ pausedUntil: 7, episode, holders: { b: {} } })
    expect(Object.keys(others.holders)).toEqual(['b'])
  })
})

test('permits that return pay the debt first, in their order', () => {
  const paid = withFreed(division({ debt: 3, pool: [[9, 1]] }), [
    [1, 2],
    [2, 2],
  ])
  expect([paid.debt, paid.pool]).toEqual([
    0,
    [
      [2, 1],
      [9, 1],
    ],
  ])
  expect(withFreed(division({ debt: 3 }), [[1, 2]])).toMatchObject({ debt: 1, pool: [] })
})

describe('another limit', () => {
  const known = { model: limit(10), learned: limit(10), revision: 1 }

  test('that is greater is usable at once', () => {
    expect(withModel(division(known), limit(13), false, 5)).toMatchObject({ debt: 0, pool: [[5, 3]] })
    expect(withModel(division({ ...known, debt: 1 }), limit(13), false, 5)).toMatchObject({
      ...{ debt: 0, pool: [[5, 2]], revision: 2 },
    })
  })

  test('that is the same frees nothing', () => {
    expect(withModel(division(known), limit(10), false, 5)).toMatchObject({ debt: 0, pool: [], revision: 2 })
  })

  test('that is smaller is taken from the pool, and the rest is owed', () => {
    const pool = [
      [1, 1],
      [2, 2],
    ] as const
    expect(withModel(division({ ...known, pool }), limit(6), false, 5)).toMatchObject({ debt: 1, pool: [] })
    expect(withModel(division({ ...known, pool, debt: 1 }), limit(9), false, 5)).toMatchObject({
      ...{ debt: 0, pool: [[2, 1]] },
    })
  })

  test.each([
    ['the first one', null],
    ['of another window', limit(10, 2 * SECOND)],
  ])('%s leaves to each what it used in the last window', (_, model) => {
    const [now, span] = [50 * SECOND, spanOf(limit(9))]
    const sends = [
      [now - span, 2],
      [now - span + 1, 3],
      [now, 1],
    ] as const
    const holders = { a: holder({ sends, permits: 9 }), b: holder({ permits: 1 }) }
    const shared = withModel(division({ model, holders, pool: [[1, 8]], debt: 7 }), limit(9), false, now)
    expect([shared.holders.a!.permits, shared.holders.b!.permits]).toEqual([4, 0])
    expect(shared).toMatchObject({ pool: [[now, 5]], debt: 0, revision: 1 })
    expect(withModel(division({ model, holders }), limit(4), false, now)).toMatchObject({ pool: [], debt: 0 })
    expect(withModel(division({ model, holders }), limit(3), false, now)).toMatchObject({ pool: [], debt: 1 })
  })
})

test('processes are in the order of joining, and those that joined at once in that of their names', () => {
  const [early, late] = [holder({ since: 1 }), holder({ since: 2 })]
  expect(inOrder({ b: early, c: early, a: late, aa: early })).toEqual(['aa', 'b', 'c', 'a'])
})

describe('fair shares', () => {
  const shares = (count: number, holders: Division['holders'], now = 0) =>
    Object.fromEntries(fairShares(division({ model: limit(count), holders }), now))

  test('give each what it wants, and the rest evenly to those who want more', () => {
    expect(shares(10, { a: holder(), b: holder({ wants: 2 }), c: holder() })).toEqual({ a: 4, b: 2, c: 4 })
    expect(shares(10, { a: holder({ wants: 3 }), b: holder({ wants: 2 }) })).toEqual({ a: 3, b: 2 })
  })

  test('give one more to each in turn, for ten seconds', () => {
    const two = { a: holder(), b: holder() }
    expect(shares(3, two)).toEqual({ a: 2, b: 1 })
    expect(shares(3, two, 10 * SECOND - 1)).toEqual({ a: 2, b: 1 })
    expect(shares(3, two, 10 * SECOND)).toEqual({ a: 1, b: 2 })
    expect(shares(1, two, 10 * SECOND)).toEqual({ a: 0, b: 1 })
  })

  test('serve urgent requests first, but leave one to everybody', () => {
    expect(shares(10, { a: holder(), b: holder({ urgent: 6 }) })).toEqual({ a: 3, b: 7 })
    expect(shares(10, { a: holder(), b: holder({ urgent: 60 }) })).toEqual({ a: 1, b: 9 })
    expect(shares(10, { a: holder(), b: holder({ urgent: 6, wants: 3 }) })).toEqual({ a: 7, b: 3 })
  })

  test('are nothing where no limit is known', () => {
    expect(Object.fromEntries(fairShares(division({ holders: { a: holder() } }), 0))).toEqual({ a: 0 })
  })
})

describe('an exchange', () => {
  const AHEAD = 2 * SECOND
  const exchange = (over: Partial<Division>, count = 10, now = 0) =>
    exchangeOf(division({ model: limit(count), ...over }), 'a', now)

  test('gives a process that is alone all of the pool, whatever it wants', () => {
    const holders = { a: holder({ permits: 2, wants: 3 }) }
    expect(exchange({ holders, pool: [[0, 8]] })).toEqual({ give: 0, take: [[0, 8]], isShort: false })
    const rich = { a: holder({ permits: 8, wants: 3 }) }
    expect(exchange({ holders: rich, pool: [[0, 2]] })).toMatchObject({ give: 0, take: [[0, 2]] })
  })

  test('leaves in the pool what others lack', () => {
    const holders = { a: holder({ permits: 2 }), b: holder() }
    expect(exchange({ holders, pool: [[0, 8]] })).toEqual({ give: 0, take: [[0, 3]], isShort: false })
    const served = { a: holder({ permits: 2 }), b: holder({ permits: 4, wants: 4 }) }
    expect(exchange({ holders: served, pool: [[0, 4]] })).toMatchObject({ take: [[0, 4]] })
  })

  test('gives back what others lack and the pool does not have', () => {
    const holders = { a: holder({ permits: 8 }), b: holder() }
    expect(exchange({ holders, pool: [[0, 2]] })).toEqual({ give: 3, take: [], isShort: true })
    expect(exchange({ holders, pool: [[0, 4]] })).toMatchObject({ give: 1, take: [] })
  })

  test('pays what is owed, and no more than is beyond the fair share', () => {
    const holders = { a: holder({ permits: 8 }) }
    expect(exchange({ holders, debt: 3 }, 5)).toEqual({ give: 3, take: [], isShort: false })
    expect(exchange({ holders, debt: 2 }, 5)).toMatchObject({ give: 2 })
    expect(exchange({ holders, debt: 9 }, 5)).toMatchObject({ give: 3 })
  })

  test('takes what is usable within two seconds, the earliest first', () => {
    const now = 7 * SECOND
    const holders = { a: holder({ permits: 1 }) }
    const pool = [
      [1, 2],
      [now + AHEAD, 2],
      [now + AHEAD + 1, 6],
    ] as const
    expect(exchange({ holders, pool }, 10, now)).toEqual({ give: 0, take: pool.slice(0, 2), isShort: true })
  })

  test('takes no more than its part, from however many entries of the pool', () => {
    const holders = { a: holder({ permits: 1 }), b: holder() }
    const pool = [
      [1, 3],
      [2, 3],
      [3, 3],
    ] as const
    const take = [
      [1, 3],
      [2, 1],
    ]
    expect(exchange({ holders, pool })).toEqual({ give: 0, take, isShort: false })
  })
})

test('permits that were taken are no longer in the pool', () => {
  const pool = [
    [1, 3],
    [2, 2],
    [3, 1],
  ] as const
  const taken = [
    [1, 1],
    [2, 2],
  ] as const
  expect(withoutPermits(pool, taken)).toEqual([
    [1, 2],
    [3, 1],
  ])
})
