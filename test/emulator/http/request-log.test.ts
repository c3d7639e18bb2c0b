/** The log of requests, by which tests count what a client sent and how it was answered. */
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest'
import { RequestLog, type RequestRecord } from '../../../src/emulator/http/exchange.ts'
import { type Emulator, startEmulator } from '../../../src/emulator/server.ts'
import { type Caller, callerOf } from '../caller.ts'

let emulator: Emulator
let caller: Caller

beforeAll(async () => {
  emulator = await startEmulator({ port: 0, patients: 1 })
  caller = callerOf(emulator)
})
beforeEach(() => emulator.control.resetCounters())
afterAll(() => emulator.close())

const logged = () => emulator.control.requests().map(({ method, url, status }) => [method, url, status])

it('has each request with its answer, refused ones and unknown paths too', async () => {
  await caller.get('/v2/forms?page=1')
  await caller.get('/v2/forms', {})
  await caller.send('POST', '/v2/forms', {})
  await caller.get('/nothing')
  await caller.get('/v2/forms/%zz')
  emulator.control.failNext('/v2/forms', 'http-500')
  emulator.control.failNext('/v2/forms', 'cut-json')
  emulator.control.failNext('/v2/forms', 'throttle=1:3')
  await caller.get('/v2/forms/x')
  await caller.get('/v2/forms')
  const { headers } = await caller.get('/v2/forms')
  expect(headers.get('retry-after')).toBe('3')
  expect(logged()).toEqual([
    ['GET', '/v2/forms?page=1', 200],
    ['GET', '/v2/forms', 401],
    ['POST', '/v2/forms', 405],
    ['GET', '/nothing', 404],
    ['GET', '/v2/forms/%zz', 404],
    ['GET', '/v2/forms/x', 500],
    ['GET', '/v2/forms', 200],
    ['GET', '/v2/forms', 429],
  ])
})

it('has the team of the credentials, and whether there were any, right or wrong', async () => {
  const key = { 'X-API-KEY': caller.credentials['X-API-KEY']! }
  await caller.get('/v2/forms', key)
  await caller.get('/v2/forms', { 'X-API-SECRET': 'x' })
  await caller.get('/v2/forms', {})
  await callerOf(emulator, 0, 1).get('/v2/forms')
  const { name } = emulator.environments[0]!.teams[1]!
  expect(emulator.control.requests().map(({ team, withCredentials }) => [team, withCredentials])).toEqual([
    [null, true],
    [null, true],
    [null, false],
    [name, true],
  ])
  expect(emulator.control.counters(name)).toEqual({ requests: 1, throttled: 0 })
  expect(emulator.control.counters()).toEqual({ requests: 0, throttled: 0 })
})

it('has the newest ten thousand requests, and counts them all', () => {
  const log = new RequestLog()
  for (let at = 0; at < 25_000; at += 1)
    log.open({ at, team: at % 5 === 0 ? 'a' : null, status: 0 } as RequestRecord)
  log.throttled('a')
  log.throttled('b')
  expect(log.records().map(({ at }) => at)).toEqual(Array.from({ length: 10_000 }, (_, nth) => 15_000 + nth))
  expect(['a', 'b', 'c'].map((team) => log.counters(team))).toEqual([
    { requests: 5000, throttled: 1 },
    { requests: 0, throttled: 1 },
    { requests: 0, throttled: 0 },
  ])
})

it('has the real time of each request, in microseconds, whatever the time of the service', async () => {
  const before = Date.now() - 1000
  emulator.control.advance(86_400_000)
  await caller.get('/v2/forms')
  await caller.get('/nothing')
  const times = emulator.control.requests().map(({ at }) => at / 1000)
  expect(times).toHaveLength(2)
  for (const time of times) expect([time > before, time < Date.now() + 1000]).toEqual([true, true])
})

it('begins anew when it is reset, and so do the counters', async () => {
  await caller.get('/v2/forms')
  expect([logged().length, emulator.control.counters().requests]).toEqual([1, 1])
  const before = [emulator.control.counters(), emulator.control.requests()] as const
  await caller.get('/v2/forms')
  emulator.control.resetCounters()
  expect([logged().length, emulator.control.counters().requests]).toEqual([0, 0])
  // They are as they were when they were asked for.
  expect(before.map((one) => ('requests' in one ? one.requests : one.length))).toEqual([1, 1])
})

it('has redirects to a path with a slash, the environment of each request, and its query', async () => {
  await using slashed = await startEmulator({ port: 0, patients: 1, shape: 'trailing-slash' })
  await callerOf(slashed, 1).get('/v2/forms?page=1')
  await callerOf(slashed, 0).get('/v2/forms/?page=1', {})
  await callerOf(slashed, 1).get('/v2/nothing/%zz')
  const records = slashed.control.requests()
  expect(records.map(({ at: _, ...rest }) => rest)).toEqual([
    {
      environment: 'sandbox',
      team: null,
      method: 'GET',
      url: '/v2/forms?page=1',
      withCredentials: true,
      status: 301,
    },
    {
      environment: 'production',
      team: null,
      method: 'GET',
      url: '/v2/forms/?page=1',
      withCredentials: false,
      status: 401,
    },
    {
      environment: 'sandbox',
      team: null,
      method: 'GET',
      url: '/v2/nothing/%zz',
      withCredentials: true,
      status: 404,
    },
  ])
})

it('an empty credential is a missing one', async () => {
  for (const name of ['X-API-KEY', 'X-API-SECRET'])
    expect((await caller.get('/v2/forms', { ...caller.credentials, [name]: '' })).status).toBe(401)
})
