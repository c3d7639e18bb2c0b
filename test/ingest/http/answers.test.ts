/** The answer to each outcome of an event: its status, its words, and what the sender does next. */
import { expect, it } from 'vitest'
import { answerRefused, answerStored, openEndpoint, type Refusal } from '../../../src/ingest/http/endpoint.ts'
import { LIMITS } from '../../../src/ingest/http/in-flight.ts'

it('each answer says why in fixed words, and when to try again or connect anew', async () => {
  const nothing = () => {}
  const endpoint = openEndpoint(
    LIMITS,
    { add: nothing },
    {
      ...{ teams: [], elsewhere: nothing, malformed: nothing },
      receive: (_, response, team) =>
        team === 'stored' || team === 'duplicate'
          ? answerStored(response, team)
          : answerRefused(response, team as Refusal),
    },
  )
  const url = await endpoint.listen('127.0.0.1', 0)
  const answers: unknown[] = []
  const reasons = [
    'signature',
    'malformed',
    'unknown_team',
    'slow',
    'too_large',
    'overload',
    'unavailable',
    'no_secret',
  ]
  for (const reason of [...reasons, 'stored', 'duplicate']) {
    const { status, headers, ...answer } = await fetch(`${url}/webhooks/${reason}`, { method: 'POST' }).then(
      async (response) => ({
        status: response.status,
        headers: response.headers,
        text: await response.text(),
      }),
    )
    expect(headers.get('content-type')).toBe('application/json; charset=utf-8')
    expect(headers.get('content-length')).toBe(String(answer.text.length))
    answers.push([reason, status, answer.text, headers.get('retry-after'), headers.get('connection')])
  }
  await endpoint.close()
  const detail = (text: string) => JSON.stringify({ detail: text })
  expect(answers).toEqual([
    ['signature', 400, detail('Missing or wrong signature.'), null, 'keep-alive'],
    ['malformed', 400, detail('Bad Request.'), null, 'close'],
    ['unknown_team', 404, detail('Not found.'), null, 'keep-alive'],
    ['slow', 408, detail('The body came too slowly.'), null, 'close'],
    ['too_large', 413, detail('The body is too large.'), null, 'keep-alive'],
    ['overload', 503, detail('Too much at once. Try again soon.'), '1', 'keep-alive'],
    ['unavailable', 503, detail('The event cannot be stored now. Try again soon.'), '1', 'keep-alive'],
    ['no_secret', 503, detail('No signature secret is known yet. Try again soon.'), '1', 'keep-alive'],
    ['stored', 200, '{"status":"stored"}', null, 'keep-alive'],
    ['duplicate', 200, '{"status":"duplicate"}', null, 'keep-alive'],
  ])
})
