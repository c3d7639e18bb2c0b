/** Writes: sent again only when nothing was done, and accepted when the service reports that something was. */
import type http from 'node:http'
import { LosslessNumber } from 'lossless-json'
import { describe, expect, test } from 'vitest'
import type { Client } from '../../../src/api/client.ts'
import * as library from '../../../src/index.ts'
import { clientOf, errorOf, type Handler, json, startService } from '../support/service.ts'

const WRITES: readonly (readonly [name: string, does: (client: Client) => Promise<unknown>])[] = [
  ['createPatient', (client) => library.createPatient(client, {})],
  ['replacePatient', (client) => library.replacePatient(client, 'p', {})],
  ['changePatient', (client) => library.changePatient(client, 'p', {})],
  ['deletePatient', (client) => library.deletePatient(client, 'p')],
  ['uploadPatients', (client) => library.uploadPatients(client, { name: 'a.csv', bytes: Buffer.from('a') })],
  [
    'sendMessage',
    (client) => library.sendMessage(client, { patient: 'p', form: 'f', preferred_delivery_method: 'email' }),
  ],
  ['changeMessage', (client) => library.changeMessage(client, 'm', {})],
  ['cancelMessage', (client) => library.cancelMessage(client, 'm')],
  ['cancelScheduledMessage', (client) => library.cancelScheduledMessage(client, 'm')],
  [
    'createWebhookConfig',
    (client) => library.createWebhookConfig(client, { target_url: 'https://u.example' }),
  ],
  [
    'replaceWebhookConfig',
    (client) => library.replaceWebhookConfig(client, 'w', { target_url: 'https://u.example' }),
  ],
  ['changeWebhookConfig', (client) => library.changeWebhookConfig(client, 'w', {})],
  ['deleteWebhookConfig', (client) => library.deleteWebhookConfig(client, 'w')],
  ['testWebhookConfig', (client) => library.testWebhookConfig(client, 'w')],
]

const reset: Handler = (_, response) => response.socket!.resetAndDestroy()
const failed: Handler = (_, response) => json(response, {}, 500)
const unavailable: Handler = (_, response) => json(response, {}, 503, { 'retry-after': '0' })

describe('a write with an unknown outcome is not sent again, and is reported as such', () => {
  test.each(WRITES)('%s', async (_name, does) => {
    for (const handler of [reset, failed, unavailable]) {
      await using service = await startService(handler)
      await using heard = clientOf(service.url)
      const error = await errorOf(does(heard.client))
      expect(service.received).toHaveLength(1)
      expect(error).toMatchObject({ outcomeKnown: false, verdict: 'stop', tries: 1 })
      expect(error.message).toContain('whether it took effect is not known')
    }
  })
})

test.each([
  [301, true],
  [302, false],
  [303, false],
  [308, true],
])(
  'a redirect with %i after a write is not followed; the error says that nothing was done: %s',
  async (status, known) => {
    await using service = await startService((_, response) =>
      response.writeHead(status, { location: '/v2/patients/p1' }).end(),
    )
    await using heard = clientOf(service.url)
    const error = await errorOf(library.createPatient(heard.client, {}))
    expect(error).toMatchObject({ code: 'redirected', verdict: 'stop', outcomeKnown: known })
    expect(service.received).toHaveLength(1)
  },
)

describe('a write that was throttled is sent again, byte for byte', () => {
  test.each(WRITES)('%s', async (_name, does) => {
    await using service = await startService((_, response, index) =>
      index === 0
        ? json(response, {}, 429, { 'retry-after': '0' })
        : json(response, { id: 'x', signature_secret: 's' }),
    )
    await using heard = clientOf(service.url)
    await does(heard.client)
    expect(service.received).toHaveLength(2)
    const [first, second] = service.received.map(({ method, url, headers, body }) => [
      method,
      url,
      headers['content-type'],
      body.toString('latin1'),
    ])
    expect(second).toEqual(first)
  })
})

test('an export, whose POST only reads, is requested again after a 500 and a reset', async () => {
  for (const handler of [reset, failed]) {
    await using service = await startService((request, response, index) =>
      index === 0 ? handler(request, response, index) : response.end('a,b\r\n'),
    )
    await using heard = clientOf(service.url)
    const { stream } = await library.streamExport(heard.client, 'e', 'raw_text')
    expect(Buffer.concat(await stream.toArray()).toString()).toBe('a,b\r\n')
    expect(service.received).toHaveLength(2)
  }
  for (const handler of [reset, failed]) {
    await using service = await startService((request, response, index) =>
      index === 0 ? handler(request, response, index) : json(response, [{ a: 'b' }]),
    )
    await using heard = clientOf(service.url)
    expect((await library.readExport(heard.client, 'e')).body).toEqual([{ a: 'b' }])
    expect(service.received).toHaveLength(2)
  }
})

test('an export or a test of a webhook that is refused says nothing about others', async () => {
  await using service = await startService((_, response) => json(response, {}, 422))
  await using heard = clientOf(service.url)
  for (const refused of [
    library.readExport(heard.client, 'e'),
    library.streamExport(heard.client, 'e', 'download_file'),
    library.testWebhookConfig(heard.client, 'w'),
  ])
    expect(await errorOf(refused)).toMatchObject({ code: 'refused', verdict: 'dead_letter' })
  const created = library.createWebhookConfig(heard.client, { target_url: 'https://u.example' })
  expect(await errorOf(created)).toMatchObject({ code: 'refused', verdict: 'stop' })
})

describe('an empty answer, or one without a record, is a success', () => {
  const empty =
    (status: number, body = '') =>
    (response: http.ServerResponse) =>
      response.writeHead(status).end(body)
  const ANSWERS: readonly (readonly [string, (response: http.ServerResponse) => unknown])[] = [
    ['204', empty(204)],
    ['an empty 200', empty(200)],
    ['an empty 201', empty(201)],
    ['a 202 that says “ok”', empty(202, '"ok"')],
  ]

  test.each(ANSWERS)('%s to a create or a send: no record, and no error', async (_name, answer) => {
    await using service = await startService((_, response) => void answer(response))
    await using heard = clientOf(service.url)
    const { client } = heard
    expect(await library.createPatient(client, {})).toMatchObject({ record: null, raw: null, problems: [] })
    const message = { patient: 'p', document: 'd', preferred_delivery_method: 'sms' } as const
    expect((await library.sendMessage(client, message)).record).toBeNull()
    const file = { name: 'a.csv', bytes: Buffer.from('a') }
    expect((await library.uploadPatients(client, file)).record).toBeNull()
    expect(service.received).toHaveLength(3)
  })

  test.each(ANSWERS)('%s to an update: the record is fetched', async (_name, answer) => {
    await using service = await startService((request, response) =>
      request.method === 'GET' ? json(response, { id: 'p 1', at: request.url }) : void answer(response),
    )
    await using heard = clientOf(service.url)
    const { client } = heard
    const target_url = 'https://u.example'
    for (const [got, path] of [
      [await library.replacePatient(client, 'p 1', {}), '/v2/patients/p%201'],
      [await library.changePatient(client, 'p 1', {}), '/v2/patients/p%201'],
      [await library.changeMessage(client, 'p 1', {}), '/v2/messages/p%201'],
      [await library.cancelScheduledMessage(client, 'p 1'), '/v2/messages/p%201'],
      [await library.replaceWebhookConfig(client, 'p 1', { target_url }), '/v2/webhooks/p%201'],
      [await library.changeWebhookConfig(client, 'p 1', {}), '/v2/webhooks/p%201'],
    ] as const) {
      expect(got.record).toEqual({ id: 'p 1', at: path })
      expect(got.answer.body).toEqual(got.record)
    }
    expect(service.received).toHaveLength(12)
  })

  test('an answer to an update that is not the record is no record: the record is fetched', async () => {
    for (const body of [{ detail: 'ok' }, { id: null, first_name: 'Ann' }, { data: { first_name: 'Ann' } }]) {
      await using service = await startService((request, response) =>
        json(response, request.method === 'GET' ? { id: 'p', first_name: 'Bo' } : body),
      )
      await using heard = clientOf(service.url)
      const { record } = await library.changePatient(heard.client, 'p', { first_name: 'Bo' })
      expect(record).toEqual({ id: 'p', first_name: 'Bo' })
      expect(service.received.map(({ method }) => method)).toEqual(['PATCH', 'GET'])
    }
    await using service = await startService((_, response) => json(response, { data: { uid: 7 } }))
    await using heard = clientOf(service.url)
    expect((await library.changePatient(heard.client, 'p', {})).record).toEqual({ uid: 7 })
    expect(service.received).toHaveLength(1)
  })

  test.each(ANSWERS)('%s to a delete', async (_name, answer) => {
    await using service = await startService((_, response) => void answer(response))
    await using heard = clientOf(service.url)
    await library.deletePatient(heard.client, 'p')
    await library.cancelMessage(heard.client, 'm')
    await library.deleteWebhookConfig(heard.client, 'w')
    expect(service.received).toHaveLength(3)
  })

  test('an abort of the fetch after an update is an abort, not a failure of the service', async () => {
    const abort = new AbortController()
    await using service = await startService((request, response) => {
      if (request.method === 'GET') abort.abort(new Error('stopped by hand'))
      else response.writeHead(204).end()
    })
    await using heard = clientOf(service.url)
    const error = await errorOf(library.changePatient(heard.client, 'p', {}, { signal: abort.signal }))
    expect(error.message).toBe('stopped by hand')
  })

  test('when the fetch after an update fails, the error says that the change took effect', async () => {
    await using service = await startService((request, response) =>
      request.method === 'GET' ? json(response, {}, 404) : response.writeHead(204).end(),
    )
    await using heard = clientOf(service.url)
    const error = (await errorOf(library.changePatient(heard.client, 'p', {}))) as library.IntakeError
    expect(error.message).toMatch(/^PATCH \/v2\/patients\/{id}: the change took effect, .* GET .*not found/)
    expect(error.hint).toContain('Do not repeat the change')
    expect(error.verdict).toBe('gone')
  })
})

test.each(['"ok"', '[]', '[{"id":"p"}]', 'null', '7'])(
  'an answer to a read by id that has no record is an error: %s',
  async (body) => {
    await using service = await startService((_, response) =>
      response.writeHead(200, { 'content-type': 'application/json' }).end(body),
    )
    await using heard = clientOf(service.url)
    const error = await errorOf(library.getPatient(heard.client, 'p'))
    expect(error).toMatchObject({ code: 'record_unreadable', verdict: 'stop' })
    expect((error as library.IntakeError).hint).toContain('`paths`')
  },
)

test('an empty list is read under the name of its resource', async () => {
  const lists: [string, (client: Client) => library.TypedScan<unknown>][] = [
    ['patients', library.listPatients],
    ['messages', library.listMessages],
    ['forms', library.listForms],
    ['packets', library.listPackets],
    ['documents', library.listDocuments],
    ['responses', library.listResponses],
    ['exports', library.listExports],
    ['webhooks', library.listWebhookConfigs],
    ['events', library.listWebhookDeliveries],
  ]
  let name = ''
  await using service = await startService((_, response) => json(response, { [name]: [] }))
  await using heard = clientOf(service.url)
  for (const [resource, list] of lists) {
    name = resource
    const scan = list(heard.client)
    for await (const page of scan) expect(page.records).toEqual([])
    expect(scan.outcome).toMatchObject({ complete: true, records: 0 })
  }
  expect(service.received).toHaveLength(lists.length)
})

describe('a new webhook configuration', () => {
  const fields = { target_url: 'https://u.example' }

  test('has its secret in the answer', async () => {
    await using service = await startService((_, response) =>
      json(response, { id: 'w', signature_secret: 'whsec_of-this-test', more: 1 }, 201),
    )
    await using heard = clientOf(service.url)
    const { record } = await library.createWebhookConfig(heard.client, fields)
    expect(record).toEqual({ id: 'w', signature_secret: 'whsec_of-this-test', more: 1 })
    expect(heard.lines.join()).not.toContain('whsec_of-this-test')
  })

  test.each([
    ['an empty answer', '', null],
    ['an answer without it', '{"id": "w"}', 'w'],
    ['an answer with an empty one', '{"uid": 7, "signature_secret": ""}', '7'],
    ['an answer with one that is no text', '{"id": "w", "signature_secret": null}', 'w'],
  ])('whose secret is not in %s is an error that says what to do', async (_name, body, id) => {
    await using service = await startService((_, response) => response.writeHead(201).end(body))
    await using heard = clientOf(service.url)
    const error = await errorOf(library.createWebhookConfig(heard.client, fields))
    expect(error).toBeInstanceOf(library.MissingSecretError)
    expect(error).toMatchObject({ code: 'secret_missing', verdict: 'stop', id })
    expect(error.message).toContain('was created')
    expect((error as library.IntakeError).hint).toContain('delete this configuration and create another')
    expect(service.received).toHaveLength(1)
  })
})

describe('an upload', () => {
  test.each([
    ['patients.csv', 'patients.csv'],
    ['a"b; name=x\r\nX-Evil: 1.csv', 'a%22b; name=x%0D%0AX-Evil: 1.csv'],
    ['père.csv', 'père.csv'],
  ])('of %j is one part named file, its bytes unchanged', async (name, written) => {
    await using service = await startService((_, response) => json(response, { id: 'u' }, 202))
    await using heard = clientOf(service.url)
    const bytes = Buffer.from('\ufefffirst_name,last_name\r\nA\u0000,"\xff--\r\n"', 'latin1')
    const { record } = await library.uploadPatients(heard.client, { name, bytes })
    expect(record).toEqual({ id: 'u' })
    const { url, method, headers, body } = service.received[0]!
    expect(`${method} ${url}`).toBe('POST /v2/patients/batch-upload')
    const boundary = /^multipart\/form-data; boundary=(\S+)$/.exec(headers['content-type']!)![1]!
    const head = `--${boundary}\r\nContent-Disposition: form-data; name="file"; filename="${written}"\r\nContent-Type: text/csv\r\n\r\n`
    const expected = Buffer.concat([Buffer.from(head), bytes, Buffer.from(`\r\n--${boundary}--`)])
    expect(body.subarray(0, expected.length).toString('latin1')).toBe(expected.toString('latin1'))
    expect(body.subarray(expected.length).toString()).toMatch(/^(\r\n)?$/)
    expect(headers['content-length']).toBe(String(body.length))
  })
})

test('a losslessly read number is written as it was read', async () => {
  await using service = await startService((_, response) => json(response, { id: 'p' }))
  await using heard = clientOf(service.url)
  const custom_fields = { big: new LosslessNumber('12345678901234567890'), one: new LosslessNumber('1.0') }
  await library.changePatient(heard.client, 'p', { custom_fields, first_name: 'a\ud800"' })
  expect(service.received[0]!.body.toString()).toBe(
    '{"custom_fields":{"big":12345678901234567890,"one":1.0},"first_name":"a\\ud800\\""}',
  )
})
