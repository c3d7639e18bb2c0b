/** What a client passes on to its network and its limiter, and what ends its calls. */
import { Readable } from 'node:stream'
import pino from 'pino'
import { beforeEach, expect, test, vi } from 'vitest'
import type { Call, Limiter } from '../../src/api/budget/limiter.ts'
import { type ClientOptions, openClient } from '../../src/api/client.ts'
import type { ApiError } from '../../src/api/errors.ts'
import type { Wire, WireRequest } from '../../src/api/http/wire.ts'
import { systemClock } from '../../src/core/clock.ts'

const { opened } = vi.hoisted(() => ({ opened: [] as unknown[][] }))

vi.mock('../../src/api/http/wire.ts', async (original) => ({
  ...(await original<object>()),
  openWire: (...options: unknown[]) => {
    opened.push(options)
    return { close: async () => {} }
  },
}))

beforeEach(() => opened.splice(0))

const MIB = 1024 * 1024
const limiter = (giveUpAfterMs: number) => ({ giveUpAfterMs }) as Limiter

function open(options: Partial<ClientOptions> = {}) {
  return openClient({
    ...{ baseUrl: 'https://forms.example.com/eu/', apiKey: 'key', apiSecret: 'secret', apiVersion: 'v2.1' },
    ...{ concurrency: 3, clock: systemClock, random: () => 0, logger: pino({ level: 'silent' }) },
    ...options,
  })
}

test.each<[string, Partial<ClientOptions>, object, number]>([
  ['by default', {}, {}, 256 * MIB],
  ['with its own timeouts', { timeouts: { attempt: 5, connect: 6 } }, { attempt: 5, connect: 6 }, 256 * MIB],
  ['with less patience than for an answer', { giveUpAfterMs: 7_000 }, { headers: 7_000 }, 256 * MIB],
  ['of a limiter with less patience', { limiter: limiter(8_000) }, { headers: 8_000 }, 256 * MIB],
  [
    'of a limiter with more patience than its own',
    { limiter: limiter(90_000), giveUpAfterMs: 5 },
    {},
    256 * MIB,
  ],
  ['with a largest body', { maxBytes: 9, timeouts: { headers: 4 } }, { headers: 4 }, 9],
])('%s, a client opens its network with these limits', (_, options, timeouts, maxBytes) => {
  open(options)
  const standard = { connect: 10_000, headers: 60_000, bodyIdle: 30_000, attempt: 600_000 }
  expect(opened).toEqual([['https://forms.example.com', 3, { ...standard, ...timeouts }, maxBytes]])
})

test('closing a client ends its calls, including those of a client that was given a signal', async () => {
  for (const signal of [undefined, new AbortController().signal]) {
    const closes: string[] = []
    const wire: Wire = {
      send: (_, signals) =>
        new Promise((_resolve, reject) => {
          for (const each of signals) each.addEventListener('abort', () => reject(new Error('aborted')))
        }),
      open: () => Promise.reject(new Error('unused')),
      close: async () => void closes.push('closed'),
    }
    const client = open({ wire, ...(signal === undefined ? {} : { signal }) })
    const call = client.get('/v2/forms').catch((error: unknown) => error)
    await new Promise((resolve) => setImmediate(resolve))
    await client.close()
    expect([await call, closes]).toEqual([new Error('the client is closed'), ['closed']])
    await expect(client.get('/v2/forms')).rejects.toThrow('the client is closed')
  }
})

test('a stream may exceed the size limit of an answer; beyond its own limit it stops the run, or dead-letters the one record that it requests', async () => {
  const wire = {
    open: async () => ({
      ...{ status: 200, headers: { 'content-length': '20' }, release: () => {} },
      packed: Readable.from([Buffer.alloc(20)]),
    }),
    close: async () => {},
  } as unknown as Wire
  const client = open({ wire, maxBytes: 5 })
  const { stream, endKnown } = await client.stream('GET', '/v2/export-csv')
  expect([(await stream.toArray()).join('').length, endKnown]).toEqual([20, true])
  const failures: unknown[] = []
  for (const [path, call] of [
    ['/v2/export-csv', {}],
    ['/v2/export-csv', { one: true }],
    ['/v2/forms/{id}', { params: { id: '7' } }],
  ] as const) {
    const answer = await client.stream('GET', path, { ...call, maxBytes: 19 })
    const error = (await answer.stream.toArray().catch((thrown: unknown) => thrown)) as ApiError
    failures.push([error.code, error.verdict, error.hint])
  }
  const hint = 'Give `maxBytes` a larger value.'
  expect(failures).toEqual([
    ['too_large', 'stop', hint],
    ['too_large', 'dead_letter', hint],
    ['too_large', 'dead_letter', hint],
  ])
})

test('each attempt uses the path of the base URL, the headers, and the start time of the first attempt', async () => {
  const calls: Call[] = []
  const requests: WireRequest[] = []
  const wire = {
    send: async (request: WireRequest) => {
      requests.push(request)
      const isLast = requests.length >= 3
      return { status: isLast ? 200 : 429, headers: {}, body: Buffer.from('{}') }
    },
    close: async () => {},
  } as unknown as Wire
  let now = 1_000_000
  const permit = { accepted: () => {}, throttled: () => true, lost: () => true, streaming: () => () => {} }
  const client = open({
    ...{ wire, version: '1.2.3', apiVersion: '', clock: { ...systemClock, now: () => now } },
    limiter: {
      giveUpAfterMs: 60_000,
      acquire: async (_, call) => {
        calls.push(call)
        now += 5
        return permit
      },
      permittedRate: () => 12,
      close: async () => {},
    },
  })
  const meter = { requests: 0, throttled: 0 }
  await client.get('/v2/forms/{id}', { params: { id: 'a b' }, query: { x: 0, y: '' }, meter })
  await client.request('POST', '/v2/forms', { body: 'x', contentType: 'application/fhir+json' })
  const headers = {
    ...{ 'x-api-key': 'key', 'x-api-secret': 'secret', 'user-agent': 'intake-sync/1.2.3' },
    ...{ 'accept-encoding': 'gzip, deflate, br', accept: 'application/json' },
  }
  const get = { method: 'GET', target: '/eu/v2/forms/a%20b?x=0&y=', headers, body: null }
  const post = { method: 'POST', target: '/eu/v2/forms', body: '"x"' }
  expect(requests).toEqual([
    ...[get, get, get],
    { ...post, headers: { ...headers, 'content-type': 'application/fhir+json' } },
  ])
  const since = 1_000_000
  expect(calls).toEqual([
    { since, again: false, urgent: true },
    { since, again: true, urgent: true },
    { since, again: true, urgent: true },
    { since: since + 15, again: false, urgent: false },
  ])
  expect([meter, client.totals, client.permittedRate]).toEqual([
    { requests: 3, throttled: 2 },
    { requests: 4, throttled: 2 },
    12,
  ])
})

test('a configured path replaces that of the endpoint with this name, and of no other', () => {
  const endpoints = [{ name: 'charts', path: '/v2/charts' }]
  const client = open({ endpoints, paths: { charts: '/v3/charts', forms: '/v3/forms' } })
  const named = (name: string) => client.pathOf({ name, path: `/v2/${name}` })
  expect(['charts', 'forms', 'packets', 'labs'].map(named)).toEqual([
    ...['/v3/charts', '/v3/forms', '/v2/packets', '/v2/labs'],
  ])
  expect([client.paths.forms, client.paths.form]).toEqual(['/v3/forms', '/v2/forms/{id}'])
})
