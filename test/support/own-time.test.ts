/** A time limit applies to the work, not to the machine. */
import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { startOwnTime } from './own-time.ts'

beforeEach(() => void vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] }))
afterEach(() => void vi.useRealTimers())

it('counts what passes while the process runs, and one tick of a pause', () => {
  let wall = 1_000
  const run = (milliseconds: number) => {
    for (let passed = 0; passed < milliseconds; passed += 10) {
      wall += 10
      vi.advanceTimersByTime(10)
    }
  }
  using time = startOwnTime(() => wall)
  run(2_000)
  expect(time.milliseconds).toBe(2_000)
  wall += 700
  vi.advanceTimersByTime(10)
  expect(time.milliseconds).toBe(2_050)
  wall += 4
  expect(time.milliseconds).toBe(2_054)
  run(300)
  expect(time.milliseconds).toBe(2_354)
})
