/** The answer of a rejected request, for a caller that asks for it, and for no error and no log. */
import { describe, expect, test } from 'vitest'
import type { Answer } from '../../../src/api/client.ts'
import { clientOf, errorOf, startService } from '../support/service.ts'

const CANARY = 'canary-in-the-body'

describe('a caller that asks for rejections', () => {
  test('gets the exact body, once, and the error contains nothing of it', async () => {
    await using service = await startService((_, response) =>
      response.writeHead(400, { 'x-detail': 'yes' }).end(`{"detail": "${CANARY}"}\n`),
    )
    await using heard = clientOf(service.url)
    const shown: Answer[] = []
    const onRefusal = (answer: Answer) => void shown.push(answer)
    const error = await errorOf(heard.client.request('POST', '/v2/patients', { body: {}, onRefusal }))
    expect(shown.map(({ status, headers, body }) => [status, headers['x-detail'], String(body)])).toEqual([
      [400, 'yes', `{"detail": "${CANARY}"}\n`],
    ])
    expect(`${error.stack} ${JSON.stringify(error)} ${heard.lines.join('')}`).not.toContain(CANARY)
  })

  test('gets only the last of several attempts', async () => {
    await using service = await startService((_, response, index) =>
      response.writeHead(index === 0 ? 500 : 404).end(`attempt ${index}`),
    )
    await using heard = clientOf(service.url)
    const shown: string[] = []
    const onRefusal = ({ body }: Answer) => void shown.push(String(body))
    await errorOf(heard.client.get('/v2/forms', { onRefusal }))
    expect(shown).toEqual(['attempt 1'])
  })

  test('gets nothing when the last attempt had no answer', async () => {
    await using service = await startService((_, response, index) => {
      if (index === 0) response.writeHead(503).end(CANARY)
      else response.destroy()
    })
    await using heard = clientOf(service.url)
    const shown: Answer[] = []
    await errorOf(heard.client.get('/v2/forms', { onRefusal: (answer) => void shown.push(answer) }))
    expect(shown).toEqual([])
  })
})

test('a path with a label is in no log and no error', async () => {
  await using service = await startService((_, response) => response.writeHead(404).end())
  await using heard = clientOf(service.url)
  const error = await errorOf(heard.client.get(`/v2/patients/${CANARY}`, { label: '(given)' }))
  expect(error.message).toContain('GET (given): not found (404)')
  expect(heard.lines.join('')).toContain('(given)')
  expect(`${error.stack} ${heard.lines.join('')}`).not.toContain(CANARY)
})
