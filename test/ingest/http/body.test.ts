/** Which bodies count as slow, on a clock that the test moves. */
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

function open() {
  const time = stepwise()
  const bodies = openBodies(LIMITS, time.clock)
  /** A body that has begun to arrive; `result` is null until it is read. */
  const begin = async (first: string) => {
    const request = Object.assign(new PassThrough(), { headers: {} })
    const body = { request, result: null as RawBody | null }
    void bodies.read(request as unknown as IncomingMessage, RESERVATION).then((result) => {
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
