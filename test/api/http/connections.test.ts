/** The connections to a service: how many, how long each part of an answer may take, and how they end. */
import { Readable } from 'node:stream'
import { beforeEach, expect, test, vi } from 'vitest'
import type { Limiter } from '../../../src/api/budget/limiter.ts'
import { type ClientOptions, openClient } from '../../../src/api/client.ts'
import { DEFAULT_TIMEOUTS, openWire } from '../../../src/api/http/wire.ts'
import { systemClock } from '../../../src/core/clock.ts'

const pools = vi.hoisted(() => ({
  opened: [] as unknown[],
  ended: [] as string[],
  requests: [] as object[],
  /** The pieces of the answer; null: none comes. */
  pieces: [] as object[] | null,
  limits: [] as number[],
}))

vi.mock('undici', async (original) => ({
  ...(await original<object>()),
  Pool: class {
    constructor(...options: unknown[]) {
      pools.opened.push(options)
    }
    async request(request: object) {
      pools.requests.push(request)
      const { pieces } = pools
      if (pieces === null) await new Promise(() => {})
      return { statusCode: 200, headers: {}, body: Readable.from(pieces!) }
    }
    destroy = async () => void pools.ended.push('destroyed')
    close = async () => void pools.ended.push('closed')
  },
}))

vi.mock('../../../src/api/http/read-stream.ts', async (original) => ({
  ...(await original<object>()),
  unpackedStream: (_received: unknown, { maxBytes }: { maxBytes: number }) => {
    pools.limits.push(maxBytes)
    return null
  },
}))

beforeEach(() => Object.assign(pools, { opened: [], ended: [], requests: [], pieces: [], limits: [] }))

const clientOf = (more: Partial<ClientOptions> = {}) =>
  openClient({
    ...{ baseUrl: 'http://forms.example.com:8080/intake', apiKey: 'k', apiSecret: 's', apiVersion: '' },
    ...{ concurrency: 4, clock: systemClock, random: () => 0, logger: { debug: () => {} } as never },
    ...more,
  })
const opened = () => pools.opened.splice(0)

test('a wire has the given number of connections to one origin, with a limit for each part of an answer, and ends them at once', async () => {
  const wire = openWire(
    'https://forms.example.com',
    3,
    { connect: 1, headers: 2, bodyIdle: 3, attempt: 4 },
    5,
  )
  expect(opened()).toEqual([
    [
      'https://forms.example.com',
      {
        ...{ connections: 3, pipelining: 1, connect: { timeout: 1 }, headersTimeout: 2, bodyTimeout: 3 },
        keepAliveTimeout: 10_000,
      },
    ],
  ])
  await wire.close()
  expect(pools.ended).toEqual(['destroyed'])
})

test('a client has the usual limits, those of its caller instead, and waits for no answer longer than its team waits', async () => {
  const optionsOf = async (more: Partial<ClientOptions>) => {
    await clientOf(more).close()
    const [[origin, options]] = opened() as [[string, Record<string, unknown>]]
    expect(origin).toBe('http://forms.example.com:8080')
    const { connections, connect, headersTimeout, bodyTimeout } = options
    return { connections, connect, headersTimeout, bodyTimeout }
  }
  const usual = { connections: 4, connect: { timeout: 10_000 }, headersTimeout: 60_000, bodyTimeout: 30_000 }
  expect(await optionsOf({})).toEqual(usual)
  expect(await optionsOf({ concurrency: 2, giveUpAfterMs: 5_000 })).toEqual({
    ...{ ...usual, connections: 2, headersTimeout: 5_000 },
  })
  // A shared limiter has its own time, whatever that of this client would be.
  const limiter = { giveUpAfterMs: 3_000 } as unknown as Limiter
  expect(await optionsOf({ limiter, giveUpAfterMs: 50_000 })).toEqual({ ...usual, headersTimeout: 3_000 })
  expect(await optionsOf({ timeouts: { headers: 70_000, connect: 5 } })).toEqual({
    ...{ ...usual, connect: { timeout: 5 }, headersTimeout: 70_000 },
  })
  expect(pools.ended).toEqual(Array(4).fill('destroyed'))
  expect(DEFAULT_TIMEOUTS).toEqual({ connect: 10_000, headers: 60_000, bodyIdle: 30_000, attempt: 600_000 })
})

test('a request has the credentials, and a version of the service only if one is configured', async () => {
  const headers = { 'x-api-key': 'k', 'x-api-secret': 's', 'accept-encoding': 'gzip, deflate, br' }
  const json = { accept: 'application/json' }
  await clientOf().get('/v2/forms')
  await clientOf({ apiVersion: 'v2.1', version: '1.2.3' }).request('POST', '/v2/forms', {
    as: 'bytes',
    body: {},
  })
  expect(pools.requests).toEqual([
    {
      ...{ method: 'GET', path: '/intake/v2/forms', body: null, signal: expect.any(AbortSignal) },
      headers: { ...headers, ...json, 'user-agent': 'intake-sync/0' },
    },
    {
      ...{ method: 'POST', path: '/intake/v2/forms', body: '{}', signal: expect.any(AbortSignal) },
      headers: {
        ...{ ...headers, accept: '*/*', 'content-type': 'application/json' },
        ...{ 'user-agent': 'intake-sync/1.2.3', 'x-api-version': 'v2.1' },
      },
    },
  ])
})

test('an answer may have 256 MiB, and a streamed one 16 GiB, unless the caller says otherwise', async () => {
  const MIB = 1024 * 1024
  const sizeOf = async (length: number, maxBytes?: number) => {
    pools.pieces = [{ length }]
    const client = clientOf(maxBytes === undefined ? {} : { maxBytes })
    return await client.get('/v2/forms', { as: 'bytes' }).then(
      ({ bytes }) => bytes,
      ({ code }) => code,
    )
  }
  expect(await sizeOf(256 * MIB)).toBe(256 * MIB)
  expect(await sizeOf(256 * MIB + 1)).toBe('too_large')
  expect([await sizeOf(7, 7), await sizeOf(8, 7)]).toEqual([7, 'too_large'])
  await clientOf({ maxBytes: 7 }).stream('GET', '/v2/forms')
  await clientOf().stream('GET', '/v2/forms', { maxBytes: 8 })
  expect(pools.limits).toEqual([16 * 1024 * MIB, 8])
})

test.each<[string, Partial<ClientOptions>]>([
  ['without a signal', {}],
  ['with a signal of its caller', { signal: new AbortController().signal }],
])(
  'a client %s that is closed ends its requests, those that are under way and those that come',
  async (_, more) => {
    pools.pieces = null
    const client = clientOf(more)
    const underWay = client.get('/v2/forms')
    underWay.catch(() => {})
    await expect.poll(() => pools.requests.length).toBe(1)
    const { signal } = pools.requests[0] as { signal: AbortSignal }
    expect(signal.aborted).toBe(false)
    await client.close()
    expect([signal.aborted, (signal.reason as Error).message]).toEqual([true, 'the client is closed'])
    await expect(client.get('/v2/forms')).rejects.toThrow('the client is closed')
    expect(pools.requests).toHaveLength(1)
  },
)

test('the path of an endpoint is the one that the team has set, else its own, whether the client knows it or not', () => {
  const referrals = { name: 'referrals', path: '/v2/referrals' }
  const patients = { name: 'patients', path: '/v2/patients' }
  const pathsOf = (more: Partial<ClientOptions>) => {
    const client = clientOf(more)
    return [referrals, patients].map((endpoint) => client.pathOf(endpoint))
  }
  expect(pathsOf({})).toEqual(['/v2/referrals', '/v2/patients'])
  expect(pathsOf({ endpoints: [referrals], paths: { referrals: '/v3/r', patients: '/v3/p' } })).toEqual([
    ...['/v3/r', '/v3/p'],
  ])
})
