/** Signals that go off after a time, or with another. */
import { getEventListeners, once } from 'node:events'
import { expect, test } from 'vitest'
import { deadlineIn } from '../../src/core/deadline.ts'
import { collecting } from '../support/garbage.ts'

const LONG_MS = 600_000

test('goes off when the time is up, though garbage is collected before', async () => {
  using _ = collecting()
  const outer = new AbortController()
  // Nothing but what is waited on is kept, as of a request that is under way.
  const wait = () => once(deadlineIn(1_000, [outer.signal]).signal, 'abort')
  const begun = performance.now()
  await wait()
  expect(performance.now() - begun).toBeGreaterThan(990)
  expect(outer.signal.aborted).toBe(false)
})

test('says whether it was the time, which an error of the caller’s may tell', async () => {
  using late = deadlineIn(1, [], () => 'too late')
  await once(late.signal, 'abort')
  expect([late.isOver(), late.signal.reason]).toEqual([true, 'too late'])
  using plain = deadlineIn(1, [])
  await once(plain.signal, 'abort')
  expect(plain.signal.reason).toMatchObject({ name: 'TimeoutError' })
})

test('goes off with any of the others, also one that went off before, and for its reason', () => {
  const [one, other] = [new AbortController(), new AbortController()]
  using deadline = deadlineIn(LONG_MS, [one.signal, other.signal])
  other.abort('enough')
  one.abort('and this')
  expect([deadline.isOver(), deadline.signal.reason]).toEqual([false, 'enough'])
  using after = deadlineIn(LONG_MS, [other.signal])
  expect(after.signal.reason).toBe('enough')
})

test('stopped, it follows the others alone; let go, nothing, and leaves no listener', async () => {
  const outer = new AbortController()
  const stopped = deadlineIn(1, [outer.signal])
  stopped.stop()
  const free = deadlineIn(1, [outer.signal])
  expect(getEventListeners(outer.signal, 'abort')).toHaveLength(2)
  free.letGo()
  expect(getEventListeners(outer.signal, 'abort')).toHaveLength(1)
  using later = deadlineIn(20, [])
  await once(later.signal, 'abort')
  outer.abort('enough')
  expect([stopped.signal.reason, free.signal.aborted]).toEqual(['enough', false])
  expect(getEventListeners(outer.signal, 'abort')).toHaveLength(0)
})
