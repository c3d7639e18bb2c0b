/** How a body is read: which are slow, on a clock that the test moves, which end early, and what is reserved for them. */
import type { IncomingMessage } from 'node:http'
import { PassThrough } from 'node:stream'
import { expect, test } from 'vitest'
import { openBodies, type RawBody } from '../../../src/ingest/http/body.ts'
import type { Reservation } from '../../../src/ingest/http/in-flight.ts'

const LIMITS = { body: 1_000_000, graceMs: 1_000, bytesPerSecond: 100 }

const settled = () => new Promise((resolve) => setImmediate(resolve))

/** A clock that stands still until `pass`, which ends one sleep. */
function stepwise() {
  let micros = 0
  let sleeping: { readonly milliseconds: number; readonly wake: () => void }[] = []
  const clock = {
    now: () => micros,
    sleep: (milliseconds: number) =>
      new Promise<void>((wake) => {
        sleeping.push({ milliseconds, wake })
      }),
  }
  return {
    clock,
    isAsleep: () => sleeping.length > 0,
    /** Ends each sleep, `late` milliseconds after its time. */
    async pass(late = 0) {
      const ending = sleeping
      sleeping = []
      micros += (Math.max(0, ...ending.map(({ milliseconds }) => milliseconds)) + late) * 1_000
      for (const { wake } of ending) wake()
      await settled()
    },
  }
}

const RESERVATION: Reservation = {
  grow: () => true,
  hold: () => true,
  accept: () => true,
  onDisplaced: () => {},
  release: () => {},
}

function open(limits: Partial<typeof LIMITS> = {}) {
  const time = stepwise()
  const bodies = openBodies({ ...LIMITS, ...limits }, time.clock)
  /** A body that has begun to arrive; `result` is null until it is read. */
  const begin = async (first: string, reservation: Reservation | null = RESERVATION, declared?: number) => {
    const headers = declared === undefined ? {} : { 'content-length': String(declared) }
    const socket = { destroyed: false }
    const request = Object.assign(new PassThrough({ highWaterMark: 2_000_000 }), { headers, socket })
    const body = { request, result: null as RawBody | null }
    void bodies.read(request as unknown as IncomingMessage, reservation).then((result) => {
      body.result = result
    })
    request.write(first)
    await settled()
    return body
  }
  return { ...time, begin }
}

test('a body is slow below the least rate after the time of grace, and not at it', async () => {
  const { begin, pass } = open()
  const still = await begin('')
  const below = await begin('x'.repeat(99))
  const at = await begin('x'.repeat(100))
  for (let look = 0; look < 4; look++) await pass()
  expect([still.result, below.result, at.result]).toEqual([null, null, null])
  await pass()
  expect([still.result, below.result, at.result]).toEqual(['slow', null, null])
  for (let look = 0; look < 3; look++) await pass()
  expect([below.result, at.result]).toEqual(['slow', null])
  at.request.end('y')
  await settled()
  await settled()
  expect(String(at.result)).toBe(`${'x'.repeat(100)}y`)
})

test('a slow body also ends if none had arrived for a time before it', async () => {
  const { begin, pass, isAsleep } = open()
  for (let time = 0; time < 3; time++) {
    const slow = await begin('x')
    for (let look = 0; look < 5; look++) await pass()
    expect(slow.result).toBe('slow')
    while (isAsleep()) await pass()
  }
})

test('after a pause of the process itself a body has until the next look', async () => {
  const { begin, pass } = open()
  const paused = await begin('x')
  await pass(5_000)
  expect(paused.result).toBe(null)
  await pass()
  expect(paused.result).toBe('slow')
})

test('a body whose connection ended after its answer is watched no longer', async () => {
  const { begin, pass, isAsleep } = open()
  const displaced = await begin('x', { ...RESERVATION, onDisplaced: (end) => end() })
  await pass()
  expect(isAsleep()).toBe(true)
  displaced.request.socket.destroyed = true
  await pass()
  expect([isAsleep(), displaced.request.destroyed]).toEqual([false, false])
  // One without an answer hears of the end of its connection.
  const waiting = await begin('x')
  waiting.request.socket.destroyed = true
  await pass()
  expect([isAsleep(), waiting.result]).toEqual([true, null])
  waiting.request.destroy()
  await settled()
  await pass()
  expect([isAsleep(), waiting.result]).toEqual([false, 'aborted'])
})

test('a body whose result is known is read on, and its connection ends when it becomes slow', async () => {
  const { begin, pass } = open()
  const large = await begin('x'.repeat(LIMITS.body + 1))
  expect([large.result, large.request.destroyed]).toEqual(['too_large', false])
  // A rate that is high enough for some minutes, and then no more.
  for (let look = 0; look < 8; look++) await pass()
  expect(large.request.destroyed).toBe(false)
  const displaced = await begin('x', { ...RESERVATION, onDisplaced: (end) => end() })
  expect(displaced.result).toBe('overload')
  for (let look = 0; look < 5; look++) await pass()
  expect([displaced.request.destroyed, displaced.result]).toEqual([true, 'overload'])
})

test('a body that is not kept is read to its end, more slowly after 128 KiB', async () => {
  const { begin } = open()
  const body = await begin('x'.repeat(128 * 1024), null)
  expect(body.request.isPaused()).toBe(false)
  body.request.write('x')
  await settled()
  expect([body.request.isPaused(), body.result]).toEqual([true, null])
  body.request.end()
  await expect.poll(() => body.result).toEqual(Buffer.alloc(0))
  const kept = await begin('x'.repeat(128 * 1024 + 1))
  expect(kept.request.isPaused()).toBe(false)
  // One that made room for others is not kept from then on.
  let displace = () => {}
  const displaced = await begin('x'.repeat(128 * 1024), {
    ...{ ...RESERVATION, onDisplaced: (end: () => void) => (displace = end) },
  })
  displace()
  displaced.request.write('x')
  await settled()
  expect(displaced.request.isPaused()).toBe(true)
})

test.each([
  [2_000, 1, 'read'],
  [2_001, 63, 'malformed'],
  [2_001, 64, 'read'],
])('a body of %i parts of %i bytes each is %s', async (count, size, outcome) => {
  const { begin } = open()
  const body = await begin('')
  for (let part = 0; part < count; part++) body.request.write('x'.repeat(size))
  body.request.end()
  await settled()
  await settled()
  expect(Buffer.isBuffer(body.result) ? 'read' : body.result).toBe(outcome)
})

test.each<[string, number | undefined, readonly number[], readonly number[]]>([
  ['of one part, with its length, nothing: it is checked first', 10, [10], []],
  ['in parts, first its bytes, then 4 KiB', undefined, [10, 1], [10, 4_086]],
  ['no more than it declares', 3_000, [10, 1], [10, 2_990]],
  ['twice its bytes once it has more', undefined, [10, 1, 4_086], [10, 4_086, 4_098]],
  ['twice its bytes where it declared fewer', 11, [10, 5_000], [10, 10_010]],
  ['no more than a body may have', undefined, [10, 7_000], [10, 11_990]],
])('a body reserves %s', async (_, declared, parts, reserved) => {
  const grown: number[] = []
  const { begin } = open({ body: 12_000 })
  const reservation: Reservation = { ...RESERVATION, grow: (bytes) => grown.push(bytes) > 0 }
  const [first, ...rest] = parts.map((size) => 'x'.repeat(size))
  const body = await begin(first!, reservation, declared)
  for (const part of rest) body.request.write(part)
  body.request.end()
  await settled()
  await settled()
  expect(String(body.result)).toBe(parts.map((size) => 'x'.repeat(size)).join(''))
  expect(grown).toEqual(reserved)
})
