/** When a failed attempt is repeated: how often, how soon, and never later than a run can wait. */
import { expect, test } from 'vitest'
import { MAX_PAUSE_MS, pauseBefore } from '../../../src/api/http/backoff.ts'

const longest = () => 1

test('a failure is tried again five times, a silent host three times, and one that would fail again never', () => {
  const attempts = (again: 'never' | 'backoff' | 'soon') => {
    let tries = 1
    while (pauseBefore(again, tries, null, longest) !== null) tries += 1
    return tries
  }
  expect([attempts('never'), attempts('soon'), attempts('backoff')]).toEqual([1, 4, 6])
})

test('pauses double from half a second', () => {
  const pauses = [1, 2, 3, 4, 5].map((tries) => pauseBefore('backoff', tries, null, longest))
  expect(pauses).toEqual([500, 1000, 2000, 4000, 8000])
})

test('a pause is drawn between nothing and its longest', () => {
  expect(pauseBefore('backoff', 3, null, () => 0)).toBe(0)
  expect(pauseBefore('backoff', 3, null, () => 0.25)).toBe(500)
})

test('a pause that the service asks for is kept, up to fifteen minutes; a longer one ends the call', () => {
  expect(MAX_PAUSE_MS).toBe(900_000)
  expect(pauseBefore('backoff', 1, 7_000, longest)).toBe(7_000)
  expect(pauseBefore('soon', 1, 0, longest)).toBe(0)
  expect(pauseBefore('backoff', 1, 900_000, longest)).toBe(900_000)
  expect(pauseBefore('backoff', 1, 900_001, longest)).toBeNull()
  expect(pauseBefore('backoff', 6, 7_000, longest)).toBeNull()
})
