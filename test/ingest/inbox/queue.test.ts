/** The waiting events: how many a statement takes, in which order, and how each of them ends. */
import { describe, expect, it } from 'vitest'
import { IntakeError } from '../../../src/core/errors.ts'
import { readEvent } from '../../../src/ingest/inbox/event.ts'
import { openQueue } from '../../../src/ingest/inbox/queue.ts'

const REASON = new IntakeError('too late', { code: 'timeout', verdict: 'retry' })
/** An event with a body of so many bytes. */
const event = (id: string, bytes: number) =>
  readEvent(1, Buffer.from(JSON.stringify({ id, source: 'patient' }).padEnd(bytes)))

/** A queue of events with bodies of these sizes, named a, b, …, with the deadlines 10, 20, … */
function queueOf(...sizes: readonly number[]) {
  const queue = openQueue()
  const ended: Record<string, string> = {}
  for (const [at, size] of sizes.entries()) {
    const id = String.fromCharCode(97 + at)
    queue.add(event(id, size), (at + 1) * 10).then(
      (outcome) => {
        ended[id] = outcome
      },
      ({ message }) => {
        ended[id] = message
      },
    )
  }
  const take = (events: number, bytes: number) =>
    queue
      .take(events, bytes)
      .map(({ event: { eventId } }) => eventId)
      .join('')
  return { queue, ended, take }
}

describe('a statement takes', () => {
  it.each([
    ['as many events as it may', [50, 50, 50], 2, 1_000, 'ab'],
    ['all, where they are as many', [50, 50], 2, 1_000, 'ab'],
    ['as many bytes as it may, to the last', [50, 50, 50], 9, 100, 'ab'],
    ['none that is a byte too long', [50, 51, 50], 9, 100, 'a'],
    ['one of any size', [500, 50], 9, 100, 'a'],
    ['one at least', [50, 50], 0, 0, 'a'],
    ['nothing where nothing waits', [], 9, 100, ''],
  ])('%s', (_, sizes, events, bytes, taken) => {
    const { queue, take } = queueOf(...sizes)
    expect(take(events, bytes)).toBe(taken)
    expect([queue.size, queue.length]).toEqual([sizes.length, sizes.length - taken.length])
  })

  it('those that were put back first, in their order, and not those that ended meanwhile', async () => {
    const { queue, ended, take } = queueOf(50, 50, 50, 50)
    const group = queue.take(3, 1_000)
    queue.settle(group[1]!, 'stored')
    queue.putBack(group)
    expect(take(9, 1_000)).toBe('acd')
    await Promise.resolve()
    expect(ended).toEqual({ b: 'stored' })
  })
})

it('an event fails at its deadline, queued or in a statement, and no earlier', async () => {
  const { queue, ended, take } = queueOf(50, 50, 50)
  expect(take(1, 1_000)).toBe('a')
  queue.expire(9, REASON)
  expect(queue.size).toBe(3)
  queue.expire(20, REASON)
  await Promise.resolve()
  expect(ended).toEqual({ a: 'too late', b: 'too late' })
  expect([queue.size, queue.length, take(9, 1_000)]).toEqual([1, 1, 'c'])
})

it('when all queued events fail, those in a statement continue', async () => {
  const { queue, ended } = queueOf(50, 50)
  const [first] = queue.take(1, 1_000)
  queue.failQueued(REASON)
  queue.settle(first!, 'stored')
  await Promise.resolve()
  expect(ended).toEqual({ a: 'stored', b: 'too late' })
  expect([queue.size, queue.length]).toEqual([0, 0])
})

it('the same bytes wait once: the others are duplicates of it when it is stored, and may be sent again when it failed', async () => {
  const queue = openQueue()
  const same = event('a', 50)
  const outcomes = [queue.add(same, 10), queue.add(same, 20)]
  expect([queue.size, queue.length]).toEqual([1, 1])
  queue.settle(queue.take(1, 100)[0]!, 'stored')
  expect(await Promise.all(outcomes)).toEqual(['stored', 'duplicate'])
  const removed = [queue.add(same, 10), queue.add(same, 20)]
  queue.settle(queue.take(1, 100)[0]!, 'removed')
  expect(await Promise.all(removed)).toEqual(['removed', 'removed'])
  const failing = [queue.add(same, 10), queue.add(same, 20)]
  queue.failQueued(REASON)
  await Promise.all(failing.map((each) => expect(each).rejects.toBe(REASON)))
  void queue.add(same, 30)
  expect([queue.size, queue.length]).toEqual([1, 1])
})
