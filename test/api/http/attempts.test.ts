/** A call and its attempts, step by step: permits, headers, pauses, counts and the log, without a service. */
import { getEventListeners } from 'node:events'
import { describe, expect, test } from 'vitest'
import { GAVE_UP, TOO_LONG } from '../../../src/api/budget/limiter.ts'
import type { Answer, RequestOptions } from '../../../src/api/http/answer.ts'
import type { Attempt } from '../../../src/api/http/attempts.ts'
import type { WireStream } from '../../../src/api/http/wire.ts'
import { answer, open, RESET, type Sent, SINCE } from '../support/attempts.ts'

const asks = (again = false, urgent = false) => ({ since: SINCE, again, urgent })

describe('a request', () => {
  test('has the prefix, its query, and the headers of all requests; each of its signals can end it', async () => {
    const { make, requests, signalsOf, own } = open([answer(200, '[1]')])
    const { signal } = new AbortController()
    const call = { params: { id: 'a/b' }, query: { q: 'ä', none: null }, signal }
    expect(await make('GET', '/v2/forms/{id}', call)).toEqual([1])
    expect(requests).toEqual([
      {
        ...{ method: 'GET', target: '/intake/v2/forms/a%2Fb?q=%C3%A4', body: null },
        headers: { 'x-api-key': 'k', accept: 'application/json' },
      },
    ])
    expect(signalsOf).toEqual([[own.signal, signal]])
  })

  test.each<[RequestOptions, unknown, string | undefined]>([
    [{}, null, undefined],
    [{ contentType: 'text/csv' }, null, undefined],
    [{ body: { b: 1 } }, '{"b":1}', 'application/json'],
    [{ body: null }, 'null', 'application/json'],
    [
      { body: { b: 1 }, contentType: 'application/merge-patch+json' },
      '{"b":1}',
      'application/merge-patch+json',
    ],
    [{ body: new Uint8Array([7]) }, new Uint8Array([7]), 'application/octet-stream'],
    [{ body: new Uint8Array([7]), contentType: 'text/csv' }, new Uint8Array([7]), 'text/csv'],
  ])('has its body, and the type of it (%#)', async (call, body, type) => {
    const { make, requests } = open([answer(200)])
    await make('POST', '/v2/forms', call)
    expect([requests[0]!.body, requests[0]!.headers['content-type']]).toEqual([body, type])
  })

  test.each([
    ['/v2/forms', false, {}],
    ['/v2/forms/{id}', true, {}],
    // Its body names a record, and its answer is as large as a list.
    ['/v2/export-csv', false, { one: true }],
  ])(
    'to %s is urgent: %s, and so is each further attempt, which counts from the first',
    async (path, urgent, more) => {
      const { make, steps } = open([answer(503), answer(200)])
      await make('GET', path, { params: { id: 'a' }, ...more })
      expect(steps).toEqual([asks(false, urgent), 'accepted', ['pause', 250], asks(true, urgent), 'accepted'])
    },
  )
})

describe('each permit is given back', () => {
  const stream = { status: 200, headers: {} } as unknown as WireStream
  test.each<[string, Sent, unknown[]]>([
    ['an answer', answer(200), ['accepted']],
    ['a refusal', answer(404), ['accepted']],
    ['a stream, by whoever reads it', stream, []],
    ['an answer that cannot be read', answer(200, '['), ['accepted']],
    ['no answer', RESET, ['lost']],
  ])('once after %s', async (_, sent, given) => {
    const { make, steps } = open([sent, answer(404)])
    await make('POST', '/v2/forms').catch(() => {})
    expect(steps).toEqual([asks(), ...given])
  })

  test.each<[object, string, number | null]>([
    [{ 'retry-after': '7' }, '{}', 7_000],
    [{}, 'Expected available in 3 seconds.', 3_000],
    [{}, '{}', null],
    // Answered a thousand seconds and 2.5 ms after 1970 on our clock; the service shows none of its own.
    [{ 'retry-after': 'Thu, 01 Jan 1970 00:16:45 GMT' }, '{}', 4_997.5],
    [{ 'retry-after': 'Thu, 01 Jan 1970 00:16:45 GMT', date: 'Thu, 01 Jan 1970 00:16:43 GMT' }, '{}', 2_000],
  ])(
    'after 429 with the pause that the service asks for (%#), and the request is sent again',
    async (...throttled) => {
      const [headers, body, pause] = throttled
      const { make, steps, attempts } = open([answer(429, body, headers), answer(200)])
      const meter = { requests: 0, throttled: 0 }
      await make('POST', '/v2/forms', { meter })
      expect(steps).toEqual([asks(), ['throttled', pause], asks(true), 'accepted'])
      expect([meter, attempts.totals]).toEqual(Array(2).fill({ requests: 2, throttled: 1 }))
    },
  )
})

describe('a pause', () => {
  test('is as long as 503 says, grows after other failures, and ends after the sixth attempt', async () => {
    const busy = answer(503, '{}', { 'retry-after': '40' })
    const bad = answer(500, '{}', { 'retry-after': '40' })
    const { failing, steps } = open([busy, bad, bad, RESET, bad, busy])
    const error = await failing('GET', '/v2/forms')
    const pauses = steps.filter((step) => Array.isArray(step)).map((step) => (step as [string, number])[1])
    expect(pauses).toEqual([40_000, 500, 1_000, 2_000, 4_000])
    expect(error).toMatchObject({ code: 'unavailable', status: 503, tries: 6, outcomeKnown: true })
  })

  test('leaves no listener, and none begins once the call is aborted', async () => {
    const { make, own } = open([answer(503), RESET, answer(200)])
    const mine = new AbortController()
    await make('GET', '/v2/forms', { signal: mine.signal })
    for (const { signal } of [own, mine]) expect(getEventListeners(signal, 'abort')).toEqual([])
    const aborted = open([answer(503)])
    const stopping = new AbortController()
    const reason = new Error('Ctrl-C')
    const stops = () => stopping.abort(reason)
    expect(await aborted.failing('GET', '/v2/forms', { signal: stopping.signal }, stops)).toBe(reason)
    expect(aborted.steps).toEqual([asks(), 'accepted'])
  })
})

describe('a caller', () => {
  test('gets the last refusal as it was received, with its times', async () => {
    const date = 'Thu, 01 Jan 2026 00:00:00 GMT'
    const { failing } = open([answer(422, 'über', { date, 'x-more': '1' })])
    const refused: Answer[] = []
    await failing('GET', '/v2/forms', { onRefusal: (each) => refused.push(each) })
    expect(refused).toEqual([
      {
        ...{ status: 422, headers: { date, 'x-more': '1' }, body: Buffer.from('über'), bytes: 5 },
        ...{ startedAt: SINCE, receivedAt: SINCE + 2_500, serviceDate: Date.UTC(2026, 0, 1) },
        invalidUtf8: false,
      },
    ])
  })

  test('whose body breaks later gets the error of the call, or the reason of its abort', async () => {
    const { make, judged, own } = open([{ status: 200, headers: {} } as unknown as WireStream])
    expect(await make('POST', '/v2/forms')).toBe('a stream')
    const [attempt] = judged as [Attempt]
    expect(attempt).toMatchObject({ path: '/intake/v2/forms', startedAt: SINCE, serviceDate: null })
    expect(attempt.failed(RESET, { hint: 'another' })).toMatchObject({
      ...{ name: 'ApiError', code: 'connection_lost', verdict: 'stop', tries: 1, outcomeKnown: false },
    })
    own.abort(new Error('the client is closed'))
    expect(attempt.failed(RESET).message).toBe('the client is closed')
  })

  test.each([
    [GAVE_UP, ', and accepted no request for 90s'],
    [TOO_LONG, ' and requests a pause longer than 90s'],
  ])('that gets no permit has sent nothing (%#)', async (refuses, why) => {
    const { failing, attempts } = open([], { refuses })
    const error = await failing('POST', '/v2/forms')
    expect(error).toMatchObject({
      code: 'throttled',
      status: 429,
      tries: 0,
      gaveUp: true,
      outcomeKnown: true,
    })
    expect(error.message).toBe(`POST /v2/forms: the service throttles this team${why} (429)`)
    expect(attempts.totals.requests).toBe(0)
  })

  test('waits no longer where the team has waited too long, for an end of 429 or for any answer', async () => {
    const throttled = await open([answer(429)], { says: false }).failing('GET', '/v2/forms')
    expect([throttled.tries, throttled.gaveUp]).toEqual([1, true])
    expect(throttled.message).toContain('accepted no request for 90s (429)')
    const silent = await open([RESET], { says: false }).failing('GET', '/v2/forms')
    expect(silent).toMatchObject({ code: 'connection_lost', verdict: 'retry', tries: 1, gaveUp: true })
    expect(silent.message).toBe(
      'GET /v2/forms: the connection broke before the whole answer came (ECONNRESET), and the service answered no request for 90s',
    )
    expect(silent.hint).toBe(
      'Run again later; if it goes on, ask the service’s operators. INTAKE_GIVE_UP_AFTER (90s) says how long to wait.',
    )
  })
})

test('the log has one line for each attempt, with its time or the code of its failure; the service names its environment', async () => {
  const named = { 'x-service-environment': 'sandbox' }
  const { make, lines, attempts } = open([answer(500, '{}', named), RESET, answer(200)], { apart: 500 })
  expect(attempts.environment).toBe(null)
  await make('GET', '/v2/forms/{id}', { params: { id: 'secret' } })
  const same = { method: 'GET', path: '/v2/forms/{id}' }
  expect(lines).toEqual([
    [{ ...same, status: 500, attempt: 1, ms: 3 }, 'request'],
    [{ ...same, code: 'connection_lost', attempt: 2 }, 'request failed'],
    [{ ...same, status: 200, attempt: 3, ms: 3 }, 'request'],
  ])
  expect(attempts.environment).toBe('sandbox')
})
