import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { canonicalTime, openServiceClock } from '../../src/api/service-clock.ts'

const SECOND = 1_000_000
const NOW = Date.UTC(2026, 0, 2, 3, 4, 5) * 1000

describe('observedAt is a lower bound on the service’s clock', () => {
  test('for any offset, latency and time of reading', () => {
    const moment = fc.record({
      startedAt: fc.integer({ min: NOW, max: NOW + 100 * SECOND }),
      there: fc.integer({ min: 1, max: 3 * SECOND }),
      back: fc.integer({ min: 1, max: 3 * SECOND }),
    })
    fc.assert(
      fc.property(
        fc.integer({ min: -1000 * SECOND, max: 1000 * SECOND }),
        fc.array(moment, { minLength: 1, maxLength: 5 }),
        moment,
        (offset, samples, later) => {
          const clock = openServiceClock()
          for (const { startedAt, there, back } of samples) {
            const serviceDate = Math.floor((startedAt + there + offset) / SECOND) * 1000
            clock.sample({ startedAt, receivedAt: startedAt + there + back, serviceDate })
          }
          const readAt = canonicalTime(later.startedAt + later.there + offset)
          expect(clock.observedAt(later.startedAt) < readAt).toBe(true)
        },
      ),
    )
  })
})

describe('the offset', () => {
  test('is narrowed by each sample and never changes once fixed', () => {
    const clock = openServiceClock()
    clock.sample({ startedAt: NOW, receivedAt: NOW + 900_000, serviceDate: NOW / 1000 })
    clock.sample({
      startedAt: NOW + SECOND,
      receivedAt: NOW + SECOND + 10_000,
      serviceDate: NOW / 1000 + 1000,
    })
    expect(clock.offset()).toBe(-10_000)
    clock.sample({ startedAt: NOW, receivedAt: NOW, serviceDate: NOW / 1000 + 60_000 })
    expect(clock.offset()).toBe(-10_000)
    expect(clock.skewSeconds()).toBe(0)
  })

  test('is zero without a Date header', () => {
    const clock = openServiceClock()
    clock.sample({ startedAt: NOW, receivedAt: NOW + 1, serviceDate: null })
    expect(clock.observedAt(NOW + 123_456)).toBe('2026-01-02T03:04:05.123456Z')
    expect(clock.skewSeconds()).toBe(0)
  })

  test('is exact if two answers leave only one possible offset', () => {
    const clock = openServiceClock()
    clock.sample({ startedAt: NOW, receivedAt: NOW + 5 * SECOND, serviceDate: NOW / 1000 })
    clock.sample({ startedAt: NOW, receivedAt: NOW, serviceDate: NOW / 1000 + 1_000 })
    expect([clock.offset(), clock.skewSeconds()]).toEqual([SECOND, 1])
  })

  test('is the least of contradictory bounds', () => {
    const clock = openServiceClock()
    clock.sample({ startedAt: NOW, receivedAt: NOW, serviceDate: NOW / 1000 })
    clock.sample({ startedAt: NOW, receivedAt: NOW, serviceDate: NOW / 1000 - 300_000 })
    clock.sample({ startedAt: NOW, receivedAt: NOW, serviceDate: NOW / 1000 - 100_000 })
    expect(clock.offset()).toBe(-300 * SECOND)
    expect(clock.skewSeconds()).toBe(0)
  })

  test.each([
    [90, 88],
    [-90, -89],
  ])('reports of a skew of %i s what is certain after two seconds for the answer: %i', (skew, reported) => {
    const clock = openServiceClock()
    const receivedAt = NOW + 2 * SECOND
    clock.sample({ startedAt: NOW, receivedAt, serviceDate: NOW / 1000 + skew * 1000 })
    expect(clock.skewSeconds()).toBe(reported)
  })
})

test('a time keeps its microseconds, before 1970 too', () => {
  expect(canonicalTime(0)).toBe('1970-01-01T00:00:00.000000Z')
  expect(canonicalTime(-1)).toBe('1969-12-31T23:59:59.999999Z')
  expect(canonicalTime(1_767_323_045_000_007)).toBe('2026-01-02T03:04:05.000007Z')
  expect(canonicalTime(1_999.9)).toBe('1970-01-01T00:00:00.001999Z')
})
