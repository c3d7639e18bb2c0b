/** A wake-up that is never missed: a notification since the last look ends the next wait at once. */
import { expect, test } from 'vitest'
import { type Clock, openNotifier, systemClock } from '../../src/core/clock.ts'

const LONG = 3_600_000

test('a notification ends the waits of everybody', async () => {
  const notifier = openNotifier(systemClock)
  const seen = notifier.count
  const waits = Promise.all([notifier.wait(seen, LONG), notifier.wait(seen, LONG)])
  notifier.notify()
  await waits
  expect(notifier.count).not.toBe(seen)
})

test.each([1, 2])('%i notifications since the last look end the wait before it begins', async (times) => {
  const notifier = openNotifier(systemClock)
  const seen = notifier.count
  for (let time = 0; time < times; time++) notifier.notify()
  await notifier.wait(seen, LONG)
})

test('a wait without notification takes its time', async () => {
  const asked: number[] = []
  const signals: (AbortSignal | undefined)[] = []
  const clock: Clock = {
    now: () => 0,
    sleep: async (milliseconds, signal) => {
      asked.push(milliseconds)
      signals.push(signal)
    },
  }
  const notifier = openNotifier(clock)
  await notifier.wait(notifier.count, 70)
  expect(asked).toEqual([70])
  await notifier.wait(notifier.count, 80)
  expect(asked).toEqual([70, 80])
  notifier.notify()
  // Nobody waits any more.
  expect(signals.map((signal) => signal?.aborted)).toEqual([false, false])
})
