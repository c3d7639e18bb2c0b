import { randomBytes } from 'node:crypto'
import { createServer } from 'node:net'
import { brotliCompressSync, deflateSync, gzipSync } from 'node:zlib'
import { describe, expect, test, vi } from 'vitest'
import type { ApiError } from '../../src/api/errors.ts'
import { getPatient } from '../../src/api/resources/patients.ts'
import { systemClock } from '../../src/core/clock.ts'
import { startOwnTime } from '../support/own-time.ts'
import { openHurriedClock } from './support/hurried-clock.ts'
import {
  CLOCK_APART_MS,
  clientOf,
  errorOf,
  type Handler,
  json,
  KEY,
  SECRET,
  startService,
} from './support/service.ts'

const PRIVATE = 'jane.doe@example.com'
const PATIENCE = { timeout: 60_000, interval: 5 }

// Tests that wait for real clocks (undici's own timers, a throttled second) run concurrently.

async function failing(
  handler: Handler,
  timeouts?: { headers?: number; bodyIdle?: number; attempt?: number },
) {
  await using service = await startService(handler)
  await using heard = clientOf(service.url, timeouts === undefined ? {} : { timeouts })
  const meter = { requests: 0, throttled: 0 }
  const error = (await errorOf(
    heard.client.get('/v2/patients', { query: { email: PRIVATE }, meter }),
  )) as ApiError
  const said = `${error.message} ${error.hint} ${JSON.stringify(error)} ${error.stack} ${String(error.cause)} ${heard.lines.join()}`
  for (const secret of [PRIVATE, encodeURIComponent(PRIVATE), SECRET, KEY, 'DETAIL'])
    expect(said).not.toContain(secret)
  return { error, tries: service.received.length, meter }
}

const status =
  (code: number, headers = {}): Handler =>
  (_, response) =>
    json(response, { detail: `DETAIL ${PRIVATE}` }, code, headers)

describe('a status ends a read with its verdict, and the error contains nothing of the answer', () => {
  test.each([
    [400, 'refused', 'stop', 1],
    [401, 'no_credentials', 'stop', 1],
    [403, 'bad_credentials', 'stop', 1],
    [404, 'not_found', 'gone', 1],
    [405, 'not_allowed', 'stop', 1],
    [410, 'not_found', 'gone', 1],
    [422, 'refused', 'stop', 1],
    [500, 'unavailable', 'retry', 6],
    [502, 'unavailable', 'retry', 6],
    [503, 'unavailable', 'retry', 6],
    [504, 'unavailable', 'retry', 6],
    [599, 'unavailable', 'retry', 6],
  ])('%i is %s: %s, after %i attempts', async (code, name, verdict, tries) => {
    const seen = await failing(status(code))
    expect(seen.error).toMatchObject({ name: 'ApiError', code: name, verdict, status: code, tries })
    expect(seen.error.message).toContain(`GET /v2/patients`)
    expect(seen.error.message).toContain(String(code))
    expect(seen.error.hint).toBeTruthy()
    expect(seen.tries).toBe(tries)
    expect(seen.meter).toEqual({ requests: tries, throttled: 0 })
  })

  test('invalid credentials name the two variables and the sandbox', async () => {
    const { error } = await failing(status(403))
    expect(error.message).toBe('GET /v2/patients: the service refused the credentials (403)')
    expect(error.hint).toContain('INTAKE_API_KEY and INTAKE_API_SECRET')
    expect(error.hint).toContain('sandbox')
  })

  test('an id that is rejected is a dead letter, and is not in the message', async () => {
    await using service = await startService(status(400))
    await using heard = clientOf(service.url)
    const error = (await errorOf(getPatient(heard.client, 'weird id/1'))) as ApiError
    expect(error.verdict).toBe('dead_letter')
    expect(error.message).toContain('GET /v2/patients/{id}')
    expect(service.received[0]!.url).toBe('/v2/patients/weird%20id%2F1')
  })
})

describe.concurrent('a network fault ends a read with verdict retry, after several attempts', () => {
  test('HTML from a proxy with 502', async () => {
    const html: Handler = (_, response) =>
      response.writeHead(502, { 'content-type': 'text/html' }).end('<html>DETAIL')
    expect((await failing(html)).error).toMatchObject({ code: 'unavailable', verdict: 'retry', status: 502 })
  })

  test('HTML with 200', async () => {
    const html: Handler = (_, response) =>
      response.writeHead(200, { 'content-type': 'text/html' }).end('<html>DETAIL')
    expect((await failing(html)).error).toMatchObject({ code: 'not_json', verdict: 'retry', tries: 6 })
  })

  test('JSON cut off, although the length was kept', async () => {
    const cut: Handler = (_, response) => response.writeHead(200, { 'content-length': '9' }).end('{"id":"a"')
    expect((await failing(cut)).error).toMatchObject({ code: 'not_json', verdict: 'retry' })
  })

  test('a body shorter than its length', async () => {
    const short: Handler = (_, response) => {
      response.writeHead(200, { 'content-length': '100' })
      response.write('[1', () => response.destroy())
    }
    expect((await failing(short)).error).toMatchObject({
      code: 'connection_lost',
      verdict: 'retry',
      tries: 6,
    })
  })

  test('a chunked body without end', async () => {
    const short: Handler = (_, response) => {
      response.writeHead(200)
      response.write('[1', () => response.destroy())
    }
    expect((await failing(short)).error).toMatchObject({
      code: 'connection_lost',
      verdict: 'retry',
      tries: 6,
    })
  })

  test('a connection reset before the answer', async () => {
    const reset: Handler = (_, response) => response.socket!.resetAndDestroy()
    expect((await failing(reset)).error).toMatchObject({
      code: 'connection_lost',
      verdict: 'retry',
      tries: 6,
    })
  })

  test('an answer that never starts', async () => {
    const { error } = await failing(() => {}, { headers: 40 })
    expect(error).toMatchObject({ code: 'timeout', verdict: 'retry', tries: 6 })
    expect(error.message).toContain('no answer came in time')
  })

  test('an answer that never starts, for as long as the team is patient: no request would do better', async () => {
    await using service = await startService(() => {})
    await using heard = clientOf(service.url, { giveUpAfterMs: 40 })
    const error = (await errorOf(heard.client.get('/v2/patients'))) as ApiError
    expect(error).toMatchObject({ code: 'timeout', verdict: 'retry', tries: 1, gaveUp: true })
    expect(error.message).toContain('and the service answered no request for 0.04s')
    expect(error.hint).toContain('INTAKE_GIVE_UP_AFTER (0.04s)')
  })

  test('a body that stops half-way', async () => {
    const slow: Handler = (_, response) => response.writeHead(200).write('[1')
    const { error } = await failing(slow, { bodyIdle: 40 })
    expect(error).toMatchObject({ code: 'timeout', verdict: 'retry', tries: 6 })
  })

  test('a body that arrives byte by byte for ever', async () => {
    const trickle: Handler = (_, response) => {
      response.writeHead(200)
      const timer = setInterval(() => response.write(' '), 5)
      response.on('close', () => clearInterval(timer))
    }
    expect((await failing(trickle, { attempt: 60 })).error).toMatchObject({
      code: 'timeout',
      verdict: 'retry',
    })
  })

  test('an answer that is not HTTP, whose bytes are not quoted', async () => {
    const server = createServer((socket) => socket.on('data', () => socket.end(`DETAIL ${PRIVATE}\r\n\r\n`)))
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const { port } = server.address() as { port: number }
    await using heard = clientOf(`http://127.0.0.1:${port}`)
    const error = (await errorOf(heard.client.get('/v2/patients'))) as ApiError
    expect(error).toMatchObject({ code: 'connection_lost', verdict: 'retry' })
    expect(JSON.stringify([error, error.message, error.stack, heard.lines])).not.toContain(PRIVATE)
    expect(error.cause).toBeUndefined()
    server.close()
  })

  test('one bad answer among good ones is hidden from the caller', async () => {
    await using service = await startService((_, response, index) =>
      index < 3 ? json(response, {}, 500) : json(response, { ok: true }),
    )
    await using heard = clientOf(service.url)
    expect((await heard.client.get('/v2/forms')).body).toEqual({ ok: true })
    expect(heard.client.totals.requests).toBe(4)
  })
})

describe.concurrent('a host that does not answer is reported within ten seconds, with its address', () => {
  test('a refused connection', async () => {
    // No program listens there; a port that the system assigned is given to the next who asks for one.
    await using heard = clientOf('http://127.0.0.1:1', { random: () => 1 })
    using time = startOwnTime()
    const error = (await errorOf(heard.client.get('/v2/patients'))) as ApiError
    expect(time.milliseconds).toBeLessThan(10_000)
    expect(error).toMatchObject({ code: 'unreachable', verdict: 'retry', tries: 4 })
    expect(error.message).toContain('cannot reach 127.0.0.1:1 (ECONNREFUSED)')
  })

  test('a name that does not exist', async () => {
    await using heard = clientOf('https://no-such-host.invalid')
    const error = (await errorOf(heard.client.get('/v2/patients'))) as ApiError
    expect(error).toMatchObject({ code: 'unreachable', verdict: 'retry' })
    expect(error.message).toContain('cannot reach no-such-host.invalid:443')
    await using plain = clientOf('http://no-such-host.invalid')
    expect((await errorOf(plain.client.get('/v2/patients'))).message).toContain('no-such-host.invalid:80 ')
  })

  test('a server that does not speak TLS stops at once', async () => {
    await using service = await startService((_, response) => json(response, {}))
    await using heard = clientOf(service.url.replace('http:', 'https:'))
    expect(await errorOf(heard.client.get('/v2/patients'))).toMatchObject({
      code: 'tls',
      verdict: 'stop',
      tries: 1,
    })
  })
})

describe('a body is read completely or not at all', () => {
  test('nested too deeply', async () => {
    const depth = 200_000
    const deep: Handler = (_, response) => response.end(`${'['.repeat(depth)}1.0${']'.repeat(depth)}`)
    expect((await failing(deep)).error).toMatchObject({
      code: 'too_deep',
      verdict: 'stop',
      tries: 1,
      hint: 'A record in it nests too deeply: ask the service’s operators to fix it.',
    })
  })

  test('over the limit, compressed or not', async () => {
    await using service = await startService((request, response) =>
      request.url.endsWith('packed')
        ? response.writeHead(200, { 'content-encoding': 'gzip' }).end(gzipSync(Buffer.alloc(100_000, ' ')))
        : response.end(Buffer.alloc(100_000, ' ')),
    )
    await using heard = clientOf(service.url, { maxBytes: 50_000 })
    for (const path of ['/plain', '/packed']) {
      expect(await errorOf(heard.client.get(path))).toMatchObject({ code: 'too_large', verdict: 'stop' })
    }
    await using wide = clientOf(service.url, { maxBytes: 100_000 })
    for (const path of ['/plain', '/packed']) {
      expect((await wide.client.get(path, { as: 'bytes' })).bytes).toBe(100_000)
    }
  })

  test('over the limit in many pieces, each far below it: packed or not, of a success or a refusal', async () => {
    // A piece has at most 64 KiB.
    const limit = 500_000
    const large = randomBytes(limit + 1)
    const handlers: Record<string, Handler> = {
      '/plain': (_, response) => response.end(large),
      '/packed': (_, response) =>
        response.writeHead(200, { 'content-encoding': 'gzip' }).end(gzipSync(large)),
      '/refusal': (_, response) => response.writeHead(400).end(large),
      '/just': (_, response) => response.end(large.subarray(1)),
    }
    await using service = await startService((request, response, index) =>
      handlers[request.url]!(request, response, index),
    )
    await using heard = clientOf(service.url, { maxBytes: limit })
    const fault = { code: 'too_large', verdict: 'stop', tries: 1 }
    for (const path of ['/plain', '/packed', '/refusal'])
      expect(await errorOf(heard.client.get(path, { as: 'bytes' })), path).toMatchObject(fault)
    const just = await heard.client.get('/just', { as: 'bytes' })
    expect(just.bytes).toBe(limit)
    expect(large.subarray(1).equals(just.body as Uint8Array)).toBe(true)
  })

  test('gzip is decompressed; an invalid one is retried', async () => {
    await using service = await startService((_, response, index) =>
      response
        .writeHead(200, { 'content-encoding': 'gzip' })
        .end(index === 0 ? gzipSync('{"n":1}').subarray(0, 15) : gzipSync('{"n":1}')),
    )
    await using heard = clientOf(service.url)
    expect((await heard.client.get('/v2/forms')).body).toEqual({ n: 1 })
    expect(service.received).toHaveLength(2)
  })

  test.each([
    ['gzip', ''],
    ['identity', '{"n":1}'],
    ['GZIP', gzipSync('{"n":1}')],
    ['x-gzip', gzipSync('{"n":1}')],
    ['deflate', deflateSync('{"n":1}')],
    ['br', brotliCompressSync('{"n":1}')],
  ])('one that is encoded as %s is read (%#)', async (encoding, body) => {
    await using service = await startService((_, response) =>
      response.writeHead(200, { 'content-encoding': encoding }).end(body),
    )
    await using heard = clientOf(service.url)
    expect((await heard.client.get('/v2/forms')).body).toEqual(body === '' ? null : { n: 1 })
  })

  test('bytes that are not UTF-8 are reported', async () => {
    await using service = await startService((_, response) =>
      response.end(Buffer.from('{"a":"\x96"}', 'latin1')),
    )
    await using heard = clientOf(service.url)
    const answer = await heard.client.get('/v2/forms')
    expect(answer).toMatchObject({ invalidUtf8: true, body: { a: '\udc96' }, bytes: 9 })
  })
})

describe('a write is sent again only when nothing was done', () => {
  test.each([
    ['5xx', status(500)],
    ['a reset', ((_, response) => response.socket!.resetAndDestroy()) as Handler],
    ['HTML', ((_, response) => response.end('<html>')) as Handler],
  ])('so it is not sent again after %s, and the unknown outcome is reported', async (_name, handler) => {
    await using service = await startService(handler)
    await using heard = clientOf(service.url)
    const error = (await errorOf(
      heard.client.request('POST', '/v2/messages', { body: { a: 1 } }),
    )) as ApiError
    expect(service.received).toHaveLength(1)
    expect(error.outcomeKnown).toBe(false)
    expect(error.verdict).toBe('stop')
    expect(error.message).toContain('whether it took effect is not known')
  })

  test('after 429 it is', async () => {
    await using service = await startService((_, response, index) =>
      index === 0 ? json(response, {}, 429, { 'retry-after': '0' }) : json(response, { id: 'm1' }, 201),
    )
    await using heard = clientOf(service.url)
    expect((await heard.client.request('POST', '/v2/messages', { body: {} })).status).toBe(201)
    expect(service.received).toHaveLength(2)
  })

  test('a POST that only reads is retried like a GET', async () => {
    await using service = await startService((_, response, index) =>
      index === 0 ? json(response, {}, 500) : response.end('a,b\r\n'),
    )
    await using heard = clientOf(service.url)
    const call = { body: { id: 'e1' }, query: { type: 'raw_text' }, read: true, as: 'bytes' as const }
    const answer = await heard.client.request('POST', '/v2/export-csv', call)
    expect(Buffer.from(answer.body as Uint8Array).toString()).toBe('a,b\r\n')
    expect(service.received.map(({ url }) => url)).toEqual(Array(2).fill('/v2/export-csv?type=raw_text'))
    expect(service.received[0]!.headers).toMatchObject({ accept: '*/*', 'content-type': 'application/json' })
  })

  test('an empty answer is no error', async () => {
    await using service = await startService((_, response) => response.writeHead(204).end())
    await using heard = clientOf(service.url)
    expect(await heard.client.request('DELETE', '/v2/patients/{id}', { params: { id: 'p1' } })).toMatchObject(
      {
        status: 204,
        body: null,
      },
    )
  })
})

describe.concurrent('throttling', () => {
  test('Retry-After blocks every request of the team', async () => {
    let refusedAt = 0
    await using service = await startService(async (_, response, index) => {
      if (index === 1) {
        refusedAt = systemClock.now()
        return json(response, { detail: 'Request was throttled.' }, 429, { 'retry-after': '1' })
      }
      // One more may be in flight: its answer lets no other through.
      if (index > 1) await vi.waitFor(() => expect(heard.client.totals.throttled).toBe(1), PATIENCE)
      json(response, {})
    })
    await using heard = clientOf(service.url)
    const meter = { requests: 0, throttled: 0 }
    await heard.client.get('/v2/forms')
    const answers = await Promise.all(
      ['/v2/forms', '/v2/packets', '/v2/documents'].map((path) => heard.client.get(path, { meter })),
    )
    expect(meter).toEqual({ requests: 4, throttled: 1 })
    expect(heard.client.totals).toEqual({ requests: 5, throttled: 1 })
    expect(heard.client.permittedRate).not.toBeNull()
    expect(answers.filter(({ startedAt }) => startedAt < refusedAt)).toHaveLength(1)
    expect(answers.filter(({ startedAt }) => startedAt >= refusedAt + 990_000)).toHaveLength(2)
  })

  test.each([
    [
      'a date',
      (): [object, unknown] => [
        { 'retry-after': new Date(Date.now() + CLOCK_APART_MS + 1000).toUTCString() },
        {},
      ],
    ],
    [
      'the sentence alone',
      (): [object, unknown] => [{}, { detail: 'Request was throttled. Expected available in 1 seconds.' }],
    ],
    ['nothing', (): [object, unknown] => [{}, '<html>']],
  ])('%s is enough to continue', async (_name, answer) => {
    await using service = await startService((_, response, index) => {
      if (index > 0) return json(response, { ok: 1 })
      const [headers, body] = answer()
      json(response, body, 429, headers as { [name: string]: string })
    })
    await using heard = clientOf(service.url)
    expect((await heard.client.get('/v2/forms')).body).toEqual({ ok: 1 })
    expect(service.received).toHaveLength(2)
  })

  test('an unreasonably long wait is an error with verdict retry', async () => {
    await using service = await startService(status(429, { 'retry-after': '86400' }))
    await using heard = clientOf(service.url)
    const error = await errorOf(heard.client.get('/v2/forms'))
    expect(error).toMatchObject({ code: 'throttled', verdict: 'retry', tries: 1 })
    expect(error.message).toContain('throttles this team and requests a pause longer than 15m (429)')
  })

  test('fifteen answers of 429 in a row are waited for, each as long as it says', async () => {
    await using service = await startService((_, response, index) =>
      index < 15 || index === 16
        ? json(response, {}, 429, { 'retry-after': '7' })
        : json(response, { ok: 1 }),
    )
    const clock = openHurriedClock()
    await using heard = clientOf(service.url, { clock })
    const meter = { requests: 0, throttled: 0 }
    const begun = clock.now()
    expect((await heard.client.get('/v2/forms', { meter })).body).toEqual({ ok: 1 })
    expect(meter).toEqual({ requests: 16, throttled: 15 })
    expect(clock.now() - begun).toBeGreaterThanOrEqual(15 * 7_000_000)
    const next = { requests: 0, throttled: 0 }
    await heard.client.get('/v2/forms', { meter: next })
    expect([next, meter]).toEqual([
      { requests: 2, throttled: 1 },
      { requests: 16, throttled: 15 },
    ])
    expect(heard.client.totals).toEqual({ requests: 18, throttled: 16 })
  })

  test.each([
    [5, { result: { ok: 1 } }],
    [6, { code: 'unavailable', status: 500, tries: 30 }],
  ])('429 uses none of the six attempts of a failure: %i failures among 24', async (failures, ends) => {
    // Four answers of 429 before each of the others.
    await using service = await startService((_, response, index) => {
      if (index % 5 < 4) return json(response, {}, 429, { 'retry-after': '1' })
      json(response, { ok: 1 }, index < failures * 5 ? 500 : 200)
    })
    await using heard = clientOf(service.url, { clock: openHurriedClock() })
    const ended = await heard.client.get('/v2/forms').then(
      ({ body }) => ({ result: body }),
      (error) => error,
    )
    expect(ended).toMatchObject(ends)
  })

  test.each([
    ['15m', undefined, 15],
    ['90s', 90_000, 2],
    ['2h', 7_200_000, 120],
  ])(
    'a call ends after %s without one accepted request, with a hint how to wait longer',
    async (limit, giveUpAfterMs, tries) => {
      await using service = await startService(status(429, { 'retry-after': '60' }))
      const clock = openHurriedClock()
      await using heard = clientOf(service.url, { clock, ...(giveUpAfterMs && { giveUpAfterMs }) })
      const begun = clock.now()
      const error = (await errorOf(heard.client.get('/v2/forms'))) as ApiError
      expect(error).toMatchObject({ code: 'throttled', verdict: 'retry', status: 429 })
      expect(error.message).toContain(`throttles this team, and accepted no request for ${limit} (429)`)
      expect(error.hint).toContain(`INTAKE_GIVE_UP_AFTER (${limit})`)
      expect(clock.now() - begun).toBeGreaterThanOrEqual((giveUpAfterMs ?? 900_000) * 1000)
      expect(error.tries).toBeGreaterThanOrEqual(tries)
      expect(error.tries).toBeLessThanOrEqual(tries + 1)
    },
  )

  test.each([
    ['an hour behind', -3_600_000],
    ['a day ahead', 86_400_000],
  ])('a date is read on the clock of the service, which is %s ours', async (_name, apart) => {
    const date = (seconds: number) => new Date(Date.now() + apart + seconds * 1000).toUTCString()
    await using service = await startService((_, response, index) => {
      if (index > 0) return json(response, { ok: 1 })
      json(response, {}, 429, { date: date(0), 'retry-after': date(30) })
    })
    const clock = openHurriedClock()
    await using heard = clientOf(service.url, { clock })
    await heard.client.get('/v2/forms')
    const slept = clock.slept.reduce((sum, each) => sum + each, 0)
    expect(slept).toBeGreaterThanOrEqual(29_000)
    expect(slept).toBeLessThan(33_000)
  })

  test('a date is read on our clock if the answer has no time of the service', async () => {
    const clock = openHurriedClock()
    await using service = await startService((_, response, index) => {
      if (index > 0) return json(response, { ok: 1 })
      response.removeHeader('date')
      response.sendDate = false
      json(response, {}, 429, { 'retry-after': new Date(clock.now() / 1000 + 30_000).toUTCString() })
    })
    await using heard = clientOf(service.url, { clock })
    await heard.client.get('/v2/forms')
    const slept = clock.slept.reduce((sum, each) => sum + each, 0)
    expect(slept).toBeGreaterThanOrEqual(28_000)
    expect(slept).toBeLessThan(33_000)
  })

  test('a wait ends at once when the caller aborts', async () => {
    await using service = await startService(status(429, { 'retry-after': '600' }))
    await using heard = clientOf(service.url)
    const abort = new AbortController()
    const call = errorOf(heard.client.get('/v2/forms', { signal: abort.signal }))
    await vi.waitFor(() => expect(heard.client.totals.throttled).toBe(1), PATIENCE)
    using time = startOwnTime()
    abort.abort(new Error('Ctrl-C'))
    expect((await call).message).toBe('Ctrl-C')
    expect(time.milliseconds).toBeLessThan(1_000)
  })

  test('two clients that share four requests per second both finish', async () => {
    const permitted: number[] = []
    // Only pauses take time: how fast the machine is decides nothing.
    const clock = openHurriedClock()
    await using service = await startService((_, response) => {
      const now = clock.now()
      const recent = permitted.filter((at) => at > now - 1_000_000)
      if (recent.length >= 4) return json(response, {}, 429, { 'retry-after': '1' })
      permitted.push(now)
      json(response, {})
    })
    await using one = clientOf(service.url, { clock })
    await using other = clientOf(service.url, { clock })
    const calls = [one, other].flatMap(({ client }) =>
      Array.from({ length: 8 }, () => client.get('/v2/forms')),
    )
    await Promise.all(calls)
    expect(permitted).toHaveLength(16)
    expect(one.client.totals.throttled + other.client.totals.throttled).toBeGreaterThan(0)
  }, 60_000)
})

describe('nothing leaves the configured origin', () => {
  test('a redirect is not followed, and the error says so', async () => {
    await using other = await startService((_, response) => json(response, []))
    for (const code of [301, 302, 303, 307, 308]) {
      await using service = await startService(status(code, { location: `${other.url}/v2/patients` }))
      await using heard = clientOf(service.url)
      const error = (await errorOf(heard.client.get('/v2/patients'))) as ApiError
      expect(error).toMatchObject({ code: 'redirected', verdict: 'stop', status: code, tries: 1 })
      expect(error.message).toContain('redirects are not followed')
      expect(error.hint).toContain('INTAKE_BASE_URL')
    }
    expect(other.received).toHaveLength(0)
  })

  test('a redirect to the same path with a slash names the fix, and `paths` applies it', async () => {
    await using service = await startService((request, response) =>
      request.url === '/v2/patients/'
        ? json(response, [])
        : response.writeHead(301, { location: '/v2/patients/' }).end(),
    )
    await using heard = clientOf(service.url)
    const error = (await errorOf(heard.client.get(heard.client.paths.patients))) as ApiError
    expect(error.message).toContain('slash')
    expect(error.hint).toContain('`paths`')
    await using fixed = clientOf(service.url, { paths: { patients: '/v2/patients/' } })
    expect((await fixed.client.get(fixed.client.paths.patients)).body).toEqual([])
  })

  test.each([
    ['/v2/patients/', true],
    ['//other.example/v2/patients/?page=1', true],
    ['/v2/patients', false],
    ['https://other.example/v2/patients', false],
    ['/v2/patients//', false],
    ['/v2/people/', false],
    ['http://[', false],
    [undefined, false],
  ])('a redirect to %j is one of a slash: %j', async (location, isSlash) => {
    await using service = await startService((_, response) =>
      response.writeHead(301, location === undefined ? {} : { location }).end(),
    )
    await using heard = clientOf(service.url)
    const error = (await errorOf(heard.client.get('/v2/patients'))) as ApiError
    expect(error.message.includes('slash')).toBe(isSlash)
    expect(error.hint?.includes('`paths`')).toBe(isSlash)
  })

  test.each([
    '//evil.example/x',
    'http://evil.example/',
    '/a\\b',
    '/v2/../x',
    '/v2/%2e%2e/x',
    '/v2?x',
    'v2',
    '/a b',
  ])('the path %s is rejected without a request', async (path) => {
    await using service = await startService((_, response) => json(response, []))
    await using heard = clientOf(service.url)
    expect(await errorOf(heard.client.get(path))).toMatchObject({ verdict: 'stop', code: 'usage' })
    expect(service.received).toHaveLength(0)
  })

  test.each(['.', '..', '', '\ud800'])('the id %j is rejected without a request', async (id) => {
    await using service = await startService((_, response) => json(response, {}))
    await using heard = clientOf(service.url)
    expect(await errorOf(getPatient(heard.client, id))).toMatchObject({
      code: 'bad_id',
      verdict: 'dead_letter',
    })
    expect(service.received).toHaveLength(0)
  })

  test('an id stays in its path segment', async () => {
    await using service = await startService((_, response) => json(response, { id: 'x' }))
    await using heard = clientOf(service.url)
    await getPatient(heard.client, '../forms?a=b#c')
    expect(service.received[0]!.url).toBe('/v2/patients/..%2Fforms%3Fa%3Db%23c')
  })
})

describe('a request has', () => {
  test('the credentials, version and accepted types; its path starts with that of the base URL', async () => {
    await using service = await startService((_, response) => json(response, []))
    await using heard = clientOf(`${service.url}/intake//`, { version: '1.2.3' })
    const before = Date.now()
    const answer = await heard.client.get('/v2/forms', { query: { a: 'ä b', none: null, off: undefined } })
    const { url, headers } = service.received[0]!
    expect(url).toBe('/intake/v2/forms?a=%C3%A4+b')
    expect(headers).toMatchObject({
      'x-api-key': KEY,
      'x-api-secret': SECRET,
      'x-api-version': 'v2.1',
      'user-agent': 'intake-sync/1.2.3',
      accept: 'application/json',
    })
    expect(answer.serviceDate!).toBeGreaterThan(before + CLOCK_APART_MS - 2000)
    expect(answer.serviceDate!).toBeLessThanOrEqual(Date.now() + CLOCK_APART_MS)
    expect(answer.startedAt).toBeLessThanOrEqual(answer.receivedAt)
  })

  test('no version if none is configured', async () => {
    await using service = await startService((_, response) => json(response, []))
    await using heard = clientOf(service.url, { apiVersion: '' })
    await heard.client.get('/v2/forms')
    expect(service.received[0]!.headers).not.toHaveProperty('x-api-version')
  })

  test('a startedAt of the attempt that succeeded', async () => {
    let failedAt = 0
    await using service = await startService((_, response, index) => {
      if (index === 0) failedAt = systemClock.now()
      json(response, {}, index === 0 ? 500 : 200)
    })
    await using heard = clientOf(service.url)
    expect((await heard.client.get('/v2/forms')).startedAt).toBeGreaterThan(failedAt)
  })
})

test('a repeated request precedes all that wait, and one for a single record those for lists', async () => {
  let slept = 0
  const clock = {
    now: systemClock.now,
    sleep: async () => {
      slept += 1
    },
  }
  await using service = await startService(async ({ url }, response, index) => {
    // Until the others wait, and then the repeated one too.
    if (index === 0) await vi.waitFor(() => expect(waiting).toBe(2), PATIENCE)
    else if (url === '/v2/forms/f') await vi.waitFor(() => expect(slept).toBe(1), PATIENCE)
    json(response, {}, index === 0 ? 500 : 200)
  })
  let waiting = 0
  await using heard = clientOf(service.url, { concurrency: 1, clock })
  const first = heard.client.get('/v2/first')
  await vi.waitFor(() => expect(service.received).toHaveLength(1), PATIENCE)
  const others = [heard.client.get('/v2/forms'), heard.client.get('/v2/forms/{id}', { params: { id: 'f' } })]
  waiting = others.length
  await Promise.all([first, ...others])
  expect(service.received.map(({ url }) => url)).toEqual([
    '/v2/first',
    '/v2/forms/f',
    '/v2/first',
    '/v2/forms',
  ])
})

test('a limit that is configured is the permitted rate from the beginning', async () => {
  await using heard = clientOf('http://127.0.0.1:1', { rateLimit: { requests: 10, seconds: 2 } })
  expect(heard.client.permittedRate).toBe(5)
})

test('a request without an answer ends after the time in which the team gives up, not after a minute', async () => {
  await using service = await startService(() => {})
  await using heard = clientOf(service.url, { giveUpAfterMs: 200 })
  using time = startOwnTime()
  const error = (await errorOf(heard.client.get('/v2/forms'))) as ApiError
  expect(error).toMatchObject({ code: 'timeout', tries: 1, gaveUp: true })
  expect(time.milliseconds).toBeLessThan(20_000)
})

describe('an abort ends every wait with its own reason', () => {
  test('during an answer, during a pause, and while throttled', async () => {
    await using service = await startService((request, response) => {
      if (request.url === '/down') json(response, {}, 503, { 'retry-after': '60' })
      if (request.url === '/throttled') json(response, {}, 429, { 'retry-after': '60' })
      if (request.url === '/next') json(response, {})
    })
    for (const path of ['/hangs', '/down', '/throttled']) {
      const abort = new AbortController()
      await using heard = clientOf(service.url, { concurrency: 1 })
      const ended = errorOf(heard.client.get(path, { signal: abort.signal }))
      setTimeout(() => abort.abort(new Error('stop it')), 60)
      expect((await ended).message).toBe('stop it')
      if (path === '/throttled') continue
      expect((await heard.client.get('/next')).status).toBe(200)
    }
  })

  test('close ends requests in flight', async () => {
    await using service = await startService(() => {})
    const heard = clientOf(service.url)
    const { signal } = new AbortController()
    const ended = [{}, { signal }].map((options) => errorOf(heard.client.get('/v2/forms', options)))
    setTimeout(() => heard.client.close(), 30)
    for (const error of await Promise.all(ended)) expect(error.message).toBe('the client is closed')
  })
})

test('the environment is the last one that the service named; an answer without the header forgets nothing', async () => {
  const names: Readonly<Record<string, string>> = { '/one': 'sandbox', '/two': 'production' }
  await using service = await startService(({ url }, response) =>
    json(response, {}, 200, url in names ? { 'x-service-environment': names[url]! } : {}),
  )
  await using heard = clientOf(service.url)
  const seen: (string | null)[] = [heard.client.environment]
  for (const path of ['/one', '/silent', '/two', '/silent']) {
    await heard.client.get(path)
    seen.push(heard.client.environment)
  }
  expect(seen).toEqual([null, 'sandbox', 'sandbox', 'production', 'production'])
})

test('forty requests that wait at once cause no warning, with any signals', async () => {
  const warnings: Error[] = []
  const heed = (warning: Error) => warnings.push(warning)
  process.on('warning', heed)
  try {
    await using service = await startService((_, response) => setTimeout(() => json(response, {}), 5))
    const { signal } = new AbortController()
    await using heard = clientOf(service.url, { signal: new AbortController().signal })
    await Promise.all(Array.from({ length: 40 }, () => heard.client.get('/v2/forms', { signal })))
    await new Promise((resolve) => setTimeout(resolve, 20))
  } finally {
    process.off('warning', heed)
  }
  expect(warnings).toEqual([])
})
