/** How a call of several attempts ends: aborted, refused at last, or read after all. */
import { expect, test } from 'vitest'
import { type Answer, outcomeOf } from '../../../src/api/http/answer.ts'
import { endKnownBy } from '../../../src/api/http/read-stream.ts'
import { BodyFault } from '../../../src/api/http/wire.ts'
import { answer, open, RESET, SINCE } from '../support/attempts.ts'

test('a call that is aborted by its own signal ends with the reason, whether in flight or between two attempts', async () => {
  for (const [method, sent] of [
    ['POST', RESET],
    ['GET', answer(503)],
  ] as const) {
    const { make, requests } = open([sent, answer(200)])
    const abort = new AbortController()
    const call = make(method, '/v2/forms', { signal: abort.signal }, () => abort.abort('my reason'))
    if (method === 'POST') abort.abort('my reason')
    expect(await call.catch((error: unknown) => error)).toBe('my reason')
    expect(requests).toHaveLength(1)
  }
})

test.each(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE'])(
  '%s is repeated after a failure only if it is a read',
  async (method) => {
    for (const read of [undefined, true, false]) {
      const { make, requests } = open([answer(503), RESET, answer(200)])
      const isRead = read ?? (method === 'GET' || method === 'HEAD')
      await make(method, '/v2/forms', read === undefined ? {} : { read }).catch(() => {})
      expect(requests).toHaveLength(isRead ? 3 : 1)
      expect(new Set(requests.map((request) => request.method))).toEqual(new Set([method]))
    }
  },
)

test('the refusal that a caller sees is the last answer, with the times of its attempt', async () => {
  const refusals: Answer[] = []
  const headers = { date: 'Thu, 01 Jan 1970 00:00:07 GMT', 'x-request': '2' }
  const { failing, judged } = open([answer(503, 'first'), answer(404, 'second', headers)])
  const error = await failing('GET', '/v2/forms/{id}', {
    params: { id: 'a' },
    onRefusal: (refusal) => refusals.push(refusal),
  })
  expect([error.status, error.tries, error.verdict]).toEqual([404, 2, 'gone'])
  // A pause of half of half a second follows the first attempt, which took 2.5 ms.
  const startedAt = SINCE + 2_500 + 250_000
  expect(refusals).toEqual([
    {
      ...{ status: 404, headers, body: Buffer.from('second'), bytes: 6, invalidUtf8: false },
      ...{ startedAt, receivedAt: startedAt + 2_500, serviceDate: 7_000 },
    },
  ])
  expect(judged.map((each) => each.startedAt)).toEqual([SINCE, startedAt])
})

test('the refusal of an earlier attempt is not reported if the last attempt had no answer', async () => {
  const refusals: Answer[] = []
  const { failing } = open([answer(503), RESET, RESET, RESET, RESET, RESET])
  const error = await failing('GET', '/v2/forms', { onRefusal: (refusal) => refusals.push(refusal) })
  expect([error.code, error.tries, refusals]).toEqual(['connection_lost', 6, []])
})

test('a pause never follows the Retry-After of an earlier answer', async () => {
  const { make, steps } = open([answer(503, '{}', { 'retry-after': '7' }), RESET, answer(503), answer(200)])
  await make('GET', '/v2/forms')
  expect(steps.filter((step) => Array.isArray(step))).toEqual([
    ['pause', 7_000],
    ['pause', 500],
    ['pause', 1_000],
  ])
})

test('a body that cannot be read counts as no answer for its permit', async () => {
  for (const fault of ['too_large', 'encoding'] as const) {
    const { failing, steps } = open(Array.from({ length: 6 }, () => new BodyFault(fault)))
    const error = await failing('POST', '/v2/forms')
    expect([error.code, error.tries, error.outcomeKnown]).toEqual([
      fault === 'too_large' ? 'too_large' : 'bad_encoding',
      1,
      false,
    ])
    expect(steps.at(-1)).toBe('lost')
  }
})

test('the last answer of a call that gives up is reported, even if it was a 429', async () => {
  const refusals: Answer[] = []
  const { failing } = open([answer(429, 'wait')], { says: false })
  await failing('GET', '/v2/forms', { onRefusal: (refusal) => refusals.push(refusal) })
  expect(refusals.map(({ status, body }) => [status, String(body)])).toEqual([[429, 'wait']])
})

test.each([
  ['https://other.example.com/v2/forms', false],
  ['/v2/forms/', true],
  ['https://other.example.com/v2/forms/?page=2', true],
  ['/v2/forms//', false],
  ['/v3/forms', false],
  ['http://[', false],
])('a redirect to %s differs in the slash at the end only: %s', (location, isSlash) => {
  const outcome = outcomeOf(answer(301, '', { location }), '/v2/forms', false)
  expect(outcome).toMatchObject({
    code: 'redirected',
    hint: isSlash
      ? 'Correct the path in `paths` of the configuration.'
      : 'Set INTAKE_BASE_URL to the current address of the service.',
  })
})

test('an answer that is nested too deeply is reported as such, not as broken JSON, even if it contains numbers such as 1.50', () => {
  const body = `${'['.repeat(200_000)}1.50${']'.repeat(200_000)}`
  expect(outcomeOf(answer(200, body), '/v2/forms', false)).toMatchObject({
    code: 'too_deep',
    verdict: 'stop',
  })
})

test.each([
  [{}, false],
  [{ 'content-length': '0' }, true],
  [{ 'transfer-encoding': 'gzip, Chunked' }, true],
  [{ 'transfer-encoding': 'gzip' }, false],
])('the end of a body with the headers %j is known: %s', (headers, isKnown) => {
  expect(endKnownBy(headers)).toBe(isKnown)
})
