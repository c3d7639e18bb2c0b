/** Headers, log lines and verdicts of requests, beyond their paths and answers. */
import { expect, test } from 'vitest'
import type { ApiError } from '../../../src/api/errors.ts'
import { systemClock } from '../../../src/core/clock.ts'
import { clientOf, errorOf, json, startService } from '../support/service.ts'

test('HEAD is retried like GET, and a failure other than 503 is not waited for as long as it asks', async () => {
  await using service = await startService((_, response, index) => {
    if (index % 2 === 0) json(response, {}, 502, { 'retry-after': '3600' })
    else response.writeHead(200).end()
  })
  await using heard = clientOf(service.url)
  for (const method of ['HEAD', 'GET'])
    expect(await heard.client.request(method, '/v2/forms')).toMatchObject({ status: 200, body: null })
  expect(service.received.map(({ method }) => method)).toEqual(['HEAD', 'HEAD', 'GET', 'GET'])
})

test('bytes are sent and asked for as such, JSON as JSON, and repeated headers are joined', async () => {
  await using service = await startService((_, response) => {
    response.setHeader('x-many', ['1', '2'])
    response.end('{}')
  })
  await using heard = clientOf(service.url)
  const answers = [
    await heard.client.request('POST', '/v2/a', { body: new Uint8Array([1]), as: 'bytes' }),
    await heard.client.request('POST', '/v2/b', { body: { b: 1 } }),
    await heard.client.request('POST', '/v2/c', { body: new Uint8Array([1]), contentType: 'text/csv' }),
  ]
  expect(answers.map(({ headers }) => headers['x-many'])).toEqual(['1, 2', '1, 2', '1, 2'])
  expect(service.received.map(({ headers }) => [headers['content-type'], headers.accept])).toEqual([
    ['application/octet-stream', '*/*'],
    ['application/json', 'application/json'],
    ['text/csv', 'application/json'],
  ])
})

test('the log has the milliseconds of each request', async () => {
  let passed = 0
  await using service = await startService((_, response) => {
    passed += 5_000_000
    json(response, {})
  })
  const clock = { ...systemClock, now: () => systemClock.now() + passed }
  await using heard = clientOf(service.url, { clock })
  await heard.client.get('/v2/forms')
  const line = heard.lines.map((each) => JSON.parse(each)).find(({ msg }) => msg === 'request')
  expect(line).toMatchObject({ method: 'GET', path: '/v2/forms', status: 200, attempt: 1 })
  expect(Math.floor(line.ms / 5_000)).toBe(1)
})

test.each([
  ['GET', '/v2/forms', 'stop', true],
  ['GET', '/v2/forms/{id}', 'dead_letter', true],
  ['POST', '/v2/forms', 'stop', false],
])(
  'a streamed answer to %s %s that is too large has the verdict %s',
  async (method, path, verdict, outcomeKnown) => {
    await using service = await startService((_, response) => response.end('x'.repeat(1_000)))
    await using heard = clientOf(service.url)
    const { stream } = await heard.client.stream(method, path, { params: { id: 'f' }, maxBytes: 10 })
    const error = (await errorOf(stream.toArray())) as ApiError
    expect(error).toMatchObject({ code: 'too_large', verdict, outcomeKnown })
    expect(error.hint).toBe(
      outcomeKnown
        ? 'Give `maxBytes` a larger value.'
        : 'Check whether the change took effect before repeating it.',
    )
  },
)
