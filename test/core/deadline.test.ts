/** Signals that abort after a time, or with another signal. */
import { getEventListeners, once } from 'node:events'
import { expect, test } from 'vitest'
import { deadlineIn } from '../../src/core/clock.ts'
import { collecting } from '../support/garbage.ts'

const LONG_MS = 600_000

test('aborts when the time is over, even after garbage collection', async () => {
  using _ = collecting()
  const outer = new AbortController()
  // Only the awaited promise is reachable, as for a request in flight.
  const wait = () => once(deadlineIn(1_000, [outer.signal]).signal, 'abort')
  const begun = performance.now()
  await wait()
  expect(performance.now() - begun).toBeGreaterThan(990)
  expect(outer.signal.aborted).toBe(false)
})

test('distinguishes its timeout from an abort of the caller', async () => {
  using late = deadlineIn(1, [], () => 'too late')
  await once(late.signal, 'abort')
  expect([late.isOver(), late.signal.reason]).toEqual([true, 'too late'])
  using plain = deadlineIn(1, [])
  await once(plain.signal, 'abort')
  expect(plain.signal.reason).toMatchObject({ name: 'TimeoutError' })
})

test('aborts with any of the others, also with an earlier one, and with its reason', () => {
  const [one, other] = [new AbortController(), new AbortController()]
  using deadline = deadlineIn(LONG_MS, [one.signal, other.signal])
  other.abort('enough')
  one.abort('and this')
  expect([deadline.isOver(), deadline.signal.reason]).toEqual([false, 'enough'])
  using after = deadlineIn(LONG_MS, [other.signal])
  expect(after.signal.reason).toBe('enough')
  expect(getEventListeners(other.signal, 'abort')).toEqual([])
})

test('is not over if another signal aborted before its time', async () => {
  const outer = new AbortController()
  using deadline = deadlineIn(1, [outer.signal])
  outer.abort('enough')
  using later = deadlineIn(20, [])
  await once(later.signal, 'abort')
  expect([deadline.isOver(), deadline.signal.reason]).toEqual([false, 'enough'])
})

test('stopped, it follows only the others; released, nothing, and leaves no listener', async () => {
  const outer = new AbortController()
  const stopped = deadlineIn(1, [outer.signal])
  stopped.stop()
  const other = new AbortController()
  const free = deadlineIn(1, [outer.signal, other.signal])
  expect(getEventListeners(outer.signal, 'abort')).toHaveLength(2)
  free.release()
  expect(getEventListeners(outer.signal, 'abort')).toHaveLength(1)
  expect(getEventListeners(other.signal, 'abort')).toHaveLength(0)
  using later = deadlineIn(20, [])
  await once(later.signal, 'abort')
  outer.abort('enough')
  expect([stopped.signal.reason, free.signal.aborted]).toEqual(['enough', false])
  expect(getEventListeners(outer.signal, 'abort')).toHaveLength(0)
})
