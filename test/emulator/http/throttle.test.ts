import { describe, expect, it } from 'vitest'
import { parseRateLimit, SlidingWindow } from '../../../src/emulator/options.ts'
import { startEmulator } from '../../../src/emulator/server.ts'
import { callerOf } from '../caller.ts'

const SECOND = 1_000_000

describe('the rate limit', () => {
  it('admits the permitted number of calls in any window, and returns the exact wait to the others', () => {
    const window = new SlidingWindow()
    const limit = { requests: 3, seconds: 10 }
    const admit = (seconds: number) => window.admit(limit, seconds * SECOND) / SECOND
    expect([admit(0), admit(1), admit(2)]).toEqual([0, 0, 0])
    expect([admit(2.5), admit(9)]).toEqual([7.5, 1])
    expect([admit(10), admit(10.5), admit(11)]).toEqual([0, 0.5, 0])
  })

  it('that is changed counts the calls that were admitted before', () => {
    const window = new SlidingWindow()
    const admit = (requests: number, at: number) =>
      window.admit({ requests, seconds: 10 }, at * SECOND) / SECOND
    expect([0, 1, 2, 3, 4].map((at) => admit(5, at))).toEqual([0, 0, 0, 0, 0])
    expect([admit(5, 5), admit(2, 5), admit(1, 5), admit(6, 5)]).toEqual([5, 8, 9, 0])
    // Of the calls at 4 and 5 seconds two are permitted from now on.
    expect([admit(2, 13.5), admit(2, 14), admit(2, 14)]).toEqual([0.5, 0, 1])
  })

  it('is not lengthened by rejected calls', () => {
    const window = new SlidingWindow()
    const limit = { requests: 1, seconds: 1 }
    expect(window.admit(limit, 0)).toBe(0)
    for (let at = 1; at < 1000; at += 1) expect(window.admit(limit, at * 1000)).toBeGreaterThan(0)
    expect(window.admit(limit, SECOND)).toBe(0)
  })

  it('holds for a long series of calls at any pace', () => {
    const window = new SlidingWindow()
    const passed: number[] = []
    for (let at = 0; at < 30_000; at += 1) {
      const now = at * 700
      if (window.admit({ requests: 500, seconds: 1 }, now) === 0) passed.push(now)
    }
    for (let at = 500; at < passed.length; at += 1)
      expect(passed[at]! - passed[at - 500]!).toBeGreaterThanOrEqual(SECOND)
    expect(passed.length).toBe(21 * 500)
  })

  it('answers 429 with the sentence and Retry-After in whole seconds, rounded up', async () => {
    await using emulator = await startEmulator({ port: 0, rateLimit: { requests: 2, seconds: 30 } })
    const caller = callerOf(emulator)
    await caller.get('/v2/forms')
    await caller.get('/v2/packets')
    const { status, body, headers } = await caller.get('/v2/patients')
    expect({ status, body, wait: headers.get('retry-after') }).toEqual({
      status: 429,
      body: { detail: 'Request was throttled. Expected available in 30 seconds.' },
      wait: '30',
    })
  })

  it('applies to one team, is counted, and can be lifted while the emulator runs', async () => {
    await using emulator = await startEmulator({ port: 0, rateLimit: { requests: 1, seconds: 60 } })
    const [one, other] = [callerOf(emulator), callerOf(emulator, 0, 1)]
    const statuses = []
    for (const caller of [one, one, other]) statuses.push((await caller.get('/v2/forms')).status)
    expect(statuses).toEqual([200, 429, 200])
    expect(emulator.control.counters()).toEqual({ requests: 2, throttled: 1 })
    emulator.control.setRateLimit(null)
    expect((await one.get('/v2/forms')).status).toBe(200)
  })

  it('comes before faults, which neither apply to a refused call nor count it', async () => {
    const statusesOf = async (refused: number) => {
      await using emulator = await startEmulator({ port: 0, patients: 1, faults: 'http-500=0.5' })
      const { get } = callerOf(emulator)
      const statuses: number[] = []
      for (let nth = 0; nth < 12; nth += 1) {
        emulator.control.setRateLimit({ requests: nth + 1, seconds: 3600 })
        statuses.push((await get('/v2/forms')).status)
        for (let more = 0; more < refused; more += 1) expect((await get('/v2/forms')).status).toBe(429)
      }
      emulator.control.failNext('/v2/forms', 'html-502')
      expect((await get('/v2/forms')).status).toBe(429)
      emulator.control.setRateLimit(null)
      expect((await get('/v2/forms')).status).toBe(502)
      return statuses
    }
    const statuses = await statusesOf(0)
    expect(new Set(statuses)).toEqual(new Set([200, 500]))
    expect(await statusesOf(2)).toEqual(statuses)
  })

  it('counts no call of a method that a path does not support', async () => {
    await using emulator = await startEmulator({
      port: 0,
      patients: 1,
      rateLimit: { requests: 1, seconds: 60 },
    })
    const { send, get } = callerOf(emulator)
    const statuses: number[] = []
    for (const method of ['PUT', 'HEAD', 'OPTIONS', 'DELETE'])
      statuses.push((await send(method, '/v2/forms')).status)
    expect([...statuses, (await get('/v2/forms')).status]).toEqual([405, 405, 405, 405, 200])
    expect((await send('PUT', '/v2/forms', {}, {})).status).toBe(401)
  })

  it('does not count calls without credentials', async () => {
    await using emulator = await startEmulator({ port: 0, rateLimit: { requests: 1, seconds: 60 } })
    for (let at = 0; at < 3; at += 1) expect((await callerOf(emulator).get('/v2/forms', {})).status).toBe(401)
    expect((await callerOf(emulator).get('/v2/forms')).status).toBe(200)
  })
})

it.each([
  ['10/s', { requests: 10, seconds: 1 }],
  ['600/m', { requests: 600, seconds: 60 }],
  ['2.5/s', { requests: 1, seconds: 0.4 }],
  ['0.5', { requests: 1, seconds: 2 }],
])('%s is that rate, no part of a request lost', (text, limit) => {
  expect(parseRateLimit(text)).toEqual(limit)
})
