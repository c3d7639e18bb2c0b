import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { type Emulator, startEmulator } from '../../../src/emulator/server.ts'
import { callerOf } from '../caller.ts'

let emulator: Emulator
beforeAll(async () => {
  emulator = await startEmulator({ port: 0, patients: 3 })
})
afterEach(() => emulator.control.setFaults(''))
afterAll(() => emulator.close())

const statuses = async (path: string, count: number) => {
  const found: number[] = []
  for (let at = 0; at < count; at += 1) found.push((await callerOf(emulator).get(path)).status)
  return found
}

/** How many refusals stood in a row, each time. */
const runs = (found: readonly number[]) =>
  found
    .join()
    .split(/(?:^|,)200(?:,|$)|,200,/)
    .flatMap((run) => run.match(/(?:429,?)+/g) ?? [])
    .map((run) => run.match(/429/g)!.length)

describe('throttle-burst', () => {
  it('refuses the given number of requests in a row, each with Retry-After', async () => {
    emulator.control.setFaults('throttle-burst=0.03:4')
    const found = await statuses('/v2/patients', 300)
    const lengths = runs(found).slice(0, -1)
    expect(lengths.length).toBeGreaterThan(2)
    for (const length of lengths) expect(length % 4).toBe(0)
    expect(found.filter((status) => status === 200).length).toBeGreaterThan(100)
    // The argument is the number of requests, not of seconds.
    emulator.control.setFaults('throttle-burst=1:7')
    expect((await callerOf(emulator).get('/v2/patients')).headers.get('retry-after')).toBe('1')
    emulator.control.setFaults('throttle-burst')
    const { status, headers } = await callerOf(emulator).get('/v2/patients')
    expect([status, headers.get('retry-after')]).toEqual([429, '1'])
  })

  it('refuses only requests of its resource, and ends when faults are changed', async () => {
    emulator.control.setFaults('throttle-burst@forms=50')
    expect(await statuses('/v2/forms', 1)).toEqual([429])
    expect(await statuses('/v2/patients', 1)).toEqual([200])
    emulator.control.setFaults('throttle-burst@forms=0:50')
    expect(await statuses('/v2/forms', 2)).toEqual([200, 200])
  })
})
