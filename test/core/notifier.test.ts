/** A wake-up that nobody misses: what rang after it was last heard ends the wait at once. */
import { expect, test } from 'vitest'
import { type Clock, systemClock } from '../../src/core/clock.ts'
import { openBell } from '../../src/core/notifier.ts'

const LONG = 3_600_000

test('a wait ends when it rings, for everybody who waits', async () => {
  const bell = openBell(systemClock)
  const heard = bell.rung
  const waits = Promise.all([bell.wait(heard, LONG), bell.wait(heard, LONG)])
  bell.ring()
  await waits
  expect(bell.rung).not.toBe(heard)
})

test('what rang since it was heard ends the wait before it begins', async () => {
  const bell = openBell(systemClock)
  const heard = bell.rung
  bell.ring()
  bell.ring()
  await bell.wait(heard, LONG)
})

test('a wait that nobody ends takes its time', async () => {
  const asked: number[] = []
  const clock: Clock = {
    now: () => 0,
    sleep: async (milliseconds) => {
      asked.push(milliseconds)
    },
  }
  const bell = openBell(clock)
  await bell.wait(bell.rung, 70)
  expect(asked).toEqual([70])
  await bell.wait(bell.rung, 80)
  expect(asked).toEqual([70, 80])
})
