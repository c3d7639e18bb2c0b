/** Our own clock: whole microseconds that never go back, and pauses that an abort ends. */
import { getEventListeners } from 'node:events'
import { expect, test } from 'vitest'
import { lastTimeOf, systemClock } from '../../src/core/clock.ts'

test('returns whole microseconds of the time of day, and never goes back', () => {
  let before = 0
  for (let nth = 0; nth < 1_000; nth++) {
    const now = systemClock.now()
    expect(Number.isSafeInteger(now)).toBe(true)
    expect(now).toBeGreaterThanOrEqual(before)
    before = now
  }
  // The machine's clock may have been set since this process began, but not by a year.
  expect(Math.abs(before / 1_000 - Date.now())).toBeLessThan(365 * 86_400_000)
})

test('a pause takes its time, and leaves no listener', async () => {
  const stop = new AbortController()
  const begun = systemClock.now()
  await systemClock.sleep(30, stop.signal)
  // A timer may fire a millisecond early.
  expect(systemClock.now() - begun).toBeGreaterThanOrEqual(29_000)
  expect(getEventListeners(stop.signal, 'abort')).toEqual([])
  await systemClock.sleep(0)
})

test('an abort ends a pause with its reason, and an earlier abort prevents it', async () => {
  const stop = new AbortController()
  const reason = new Error('enough')
  const sleeping = systemClock.sleep(3_600_000, stop.signal)
  stop.abort(reason)
  await expect(sleeping).rejects.toBe(reason)
  await expect(systemClock.sleep(3_600_000, stop.signal)).rejects.toBe(reason)
  expect(getEventListeners(stop.signal, 'abort')).toEqual([])
})

test('the last scheduled time that is after one time and not after another', () => {
  const at = (day: number, hour: number, minute: number) => new Date(2026, 5, day, hour, minute)
  // In no order, and on odd days only.
  const times = { hours: [5, 1], minutes: [30, 0, 45], matches: (time: Date) => time.getDate() % 2 === 1 }
  const last = (after: Date, upTo: Date) => lastTimeOf(times, after, upTo)
  expect(last(at(1, 0, 0), at(3, 5, 31))).toEqual(at(3, 5, 30))
  expect(last(at(1, 0, 0), at(3, 5, 30))).toEqual(at(3, 5, 30))
  expect(last(at(1, 0, 0), at(3, 1, 44))).toEqual(at(3, 1, 30))
  expect(last(at(1, 0, 0), at(3, 1, 59))).toEqual(at(3, 1, 45))
  expect(last(at(1, 0, 0), at(3, 0, 59))).toEqual(at(1, 5, 45))
  expect(last(at(1, 5, 45), at(3, 0, 59))).toBe(null)
  expect(last(at(1, 5, 44), at(2, 23, 59))).toEqual(at(1, 5, 45))
  expect(last(at(3, 5, 30), at(1, 5, 30))).toBe(null)
  expect(last(new Date(2024, 5, 1), at(2, 12, 0))).toEqual(at(1, 5, 45))
})

test('a scheduled time is one of the zone of the process, and one that its clocks leave out is not due', () => {
  const zone = process.env.TZ
  process.env.TZ = 'Europe/Berlin'
  try {
    const last = (hours: number[], after: string, upTo: string) =>
      lastTimeOf(
        { hours, minutes: [30], matches: () => true },
        new Date(after),
        new Date(upTo),
      )?.toISOString()
    expect(last([2], '2026-06-01T00:00Z', '2026-06-01T12:00Z')).toBe('2026-06-01T00:30:00.000Z')
    // On 29 March 2026 two o'clock is followed by three o'clock in summer time, at 01:00 UTC.
    expect(last([2], '2026-03-28T02:00Z', '2026-03-29T12:00Z')).toBeUndefined()
    expect(last([2], '2026-03-28T00:00Z', '2026-03-29T12:00Z')).toBe('2026-03-28T01:30:00.000Z')
    expect(last([1, 2], '2026-03-28T12:00Z', '2026-03-29T12:00Z')).toBe('2026-03-29T00:30:00.000Z')
    expect(last([2, 3], '2026-03-28T12:00Z', '2026-03-29T12:00Z')).toBe('2026-03-29T01:30:00.000Z')
  } finally {
    if (zone === undefined) delete process.env.TZ
    else process.env.TZ = zone
  }
})
