/** Guesses about a service's window, and the part of it that is left unused. */
import { describe, expect, test } from 'vitest'
import { blindPause, guessWindow, Margin, SECOND, windowWithin } from '../../../src/api/budget/margin.ts'
import { Sends } from '../../../src/api/budget/sends.ts'

describe('the length of a window', () => {
  test.each([
    [0, 1, 1],
    [1, 2, 2],
    [1, 60, 2],
    [3, 4, 5],
    [59, 60, 60],
    [60, 100, 120],
    [90_000.5, 100_000, 90_000.5],
  ])('longer than %d s and at most %d s is a usual one if there is any: %d s', (above, upTo, expected) => {
    expect(windowWithin(above * SECOND, upTo * SECOND)).toBe(expected * SECOND)
  })

  /** Requests each `apart` seconds, from 0 until 20 s. */
  const sends = (apart: (at: number) => number) => {
    const all = new Sends()
    for (let at = 0; at <= 20; at += apart(at)) all.add(at * SECOND)
    return all
  }
  const even = sends(() => 0.25)
  const growing = sends((at) => (at < 19 ? 0.5 : 0.1))
  test.each([
    ['of a second, where the rate had grown', growing, 1, 1, 12, 16, 1],
    ['longer, where it had not', even, 1, 1, 12, 16, 15],
    ['of a second, where no usual length explains the pause', even, 1, 1, 10.5, 11, 1],
    ['of a second, soon after the beginning', even, 1, 1, 3, 6, 1],
    ['longer, where a longer pause was asked for', growing, 2, 1, 12, 16, 15],
    ['longer, where the pause did not suffice', growing, 1, 2, 12, 16, 15],
    ['as after a pause of a second, where none was asked for', growing, null, 1, 12, 16, 1],
  ])('is guessed to be %s', (_, requests, pause, rejections, above, upTo, expected) => {
    const retryAfter = pause === null ? null : pause * SECOND
    const refused = { sentAt: 20 * SECOND, retryAfter, rejections }
    expect(guessWindow(refused, requests, above * SECOND, upTo * SECOND)).toBe(expected * SECOND)
  })
})

test('without a word on how long to wait, pauses grow up to five minutes', () => {
  const pauses = Array.from({ length: 11 }, (_, at) => blindPause(at + 1) / SECOND)
  expect(pauses).toEqual([1, 1, 3, 5, 20, 30, 60, 120, 300, 300, 300])
})

describe('the unused part of a window', () => {
  test('is 0.8 % where answers take equally long, and up to 2 % where they do not', () => {
    const margin = new Margin()
    for (let each = 0; each < 40; each++) margin.measure(50_000)
    expect(margin.of(SECOND)).toBeCloseTo(8_000)
    for (let each = 0; each < 600; each++) margin.measure(each % 2 === 0 ? 10_000 : 200_000)
    expect(margin.of(SECOND)).toBeCloseTo(20_000)
  })

  test('widens by a hundredth up to a twentieth, and then no more; it narrows by halves, to nothing at last', () => {
    const margin = new Margin()
    const widths: number[] = []
    while (margin.widen(SECOND)) widths.push(Math.round(margin.of(SECOND)))
    expect(widths).toEqual([18_000, 28_000, 38_000, 48_000, 50_000])
    const narrow: number[] = []
    while (margin.narrow(SECOND)) narrow.push(margin.extra)
    expect(narrow).toEqual([25_000, 12_500, 6_250, 3_125, 0])
  })

  test('is a twentieth of the window at most, however often it widened and narrowed before', () => {
    const margin = new Margin()
    const widest = () => {
      while (margin.widen(SECOND));
      return margin.extra
    }
    const extras = [widest(), margin.narrow(SECOND) && widest(), margin.narrow(SECOND) && widest()]
    margin.narrow(SECOND)
    expect([...extras, widest()]).toEqual([50_000, 45_000, 42_500, 50_000])
    expect(margin.narrow(SECOND) && margin.extra).toBe(25_000)
    // Of a shorter window the same widening is a larger share.
    expect([margin.of(SECOND), margin.of(SECOND / 5)]).toEqual([33_000, 10_000])
    expect([margin.widen(SECOND / 5), margin.widen(SECOND), margin.extra]).toEqual([false, true, 35_000])
  })

  test('two requests overtake each other by a millisecond at least, by two deviations, and by a tenth of the window at most', () => {
    const margin = new Margin()
    for (let each = 0; each < 40; each++) margin.measure(50_000)
    expect(margin.jitter(SECOND)).toBe(1_000)
    for (let each = 0; each < 600; each++) margin.measure(each % 2 === 0 ? 40_000 : 80_000)
    expect(margin.jitter(SECOND)).toBeCloseTo(40_000, -4)
    expect(margin.jitter(SECOND / 10)).toBe(10_000)
  })

  test('follows the mean and the deviation of the latest answers; each answer has a weight of at least 1/32', () => {
    const margin = new Margin()
    const found = [100_000, 104_000, 102_000, 110_000].map((roundTrip) => {
      margin.measure(roundTrip)
      return [margin.meanRoundTrip, margin.of(SECOND), margin.jitter(SECOND)]
    })
    expect(found).toEqual([
      [100_000, 8_000, 1_000],
      [102_000, 9_000, 2_000],
      [102_000, 8_500, 1_000],
      [104_000, 9_000, 2_000],
    ])
    for (let each = 4; each < 100; each++) margin.measure(104_000)
    margin.measure(104_330)
    expect(margin.meanRoundTrip).toBeCloseTo(104_010, 6)
  })

  test('one long pause of the process is no jitter of the network', () => {
    const margin = new Margin()
    for (let each = 0; each < 20; each++) margin.measure(50_000)
    margin.measure(20 * SECOND)
    expect(margin.of(10 * SECOND)).toBeLessThan(80_100)
    expect(margin.of(10 * SECOND)).toBeGreaterThan(80_000)
  })
})

test('a late answer moves its request by a tenth of the window at most', () => {
  const margin = new Margin()
  for (let each = 0; each < 40; each++) margin.measure(50_000)
  const late = (now: number) => margin.countedAt(0, now, SECOND)
  expect(late(70_000)).toBeCloseTo(16_000)
  expect(late(5 * SECOND)).toBe(100_000)
})
