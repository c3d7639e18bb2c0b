/** Every function of the client: what it asks the service for, and what it makes of the answer. */
import { describe, expect, test } from 'vitest'
import type { Client, ClientOptions } from '../../../src/api/client.ts'
import * as library from '../../../src/index.ts'
import { clientOf, errorOf, json, startService } from '../support/service.ts'

/** An id that could leave its segment of a path, and what it must look like there. */
const ID = 'a/b?c#d é%'
const ENCODED = 'a%2Fb%3Fc%23d%20%C3%A9%25'

interface Call {
  readonly does: (client: Client) => Promise<unknown>
  readonly asks: string
  readonly body?: unknown
}

async function all(scan: library.TypedScan<unknown>): Promise<void> {
  for await (const _ of scan);
}

async function whole(streamed: Promise<library.Streamed>): Promise<void> {
  for await (const _ of (await streamed).stream);
}

const CALLS: { readonly [name: string]: Call } = {
  listPatients: {
    does: (client) =>
      all(
        library.listPatients(client, { filters: { search: 'Ann & Bo', email: 'a@b.example' }, pageSize: 7 }),
      ),
    asks: 'GET /v2/patients?search=Ann+%26+Bo&email=a%40b.example&page_size=7',
  },
  getPatient: { does: (client) => library.getPatient(client, ID), asks: `GET /v2/patients/${ENCODED}` },
  createPatient: {
    does: (client) => library.createPatient(client, { first_name: 'Ann', custom_fields: { plan: 'x' } }),
    asks: 'POST /v2/patients',
    body: { first_name: 'Ann', custom_fields: { plan: 'x' } },
  },
  replacePatient: {
    does: (client) => library.replacePatient(client, ID, { first_name: 'Ann', emergency_contact: null }),
    asks: `PUT /v2/patients/${ENCODED}`,
    body: { first_name: 'Ann', emergency_contact: null },
  },
  changePatient: {
    does: (client) =>
      library.changePatient(client, ID, { patient_tags: [{ name: 'VIP', color: '#ff0000' }] }),
    asks: `PATCH /v2/patients/${ENCODED}`,
    body: { patient_tags: [{ name: 'VIP', color: '#ff0000' }] },
  },
  deletePatient: {
    does: (client) => library.deletePatient(client, ID),
    asks: `DELETE /v2/patients/${ENCODED}`,
  },
  getPatientUpload: {
    does: (client) => library.getPatientUpload(client, ID),
    asks: `GET /v2/patients/batch-upload/${ENCODED}`,
  },
  listMessages: {
    does: (client) =>
      all(
        library.listMessages(client, {
          filters: {
            patient: ID,
            form: 'f',
            packet: 'p',
            document: 'd',
            message_type: 'form_response_request',
            preferred_delivery_method: 'sms',
            target_email: 'e',
            target_phone_number: 'n',
            status: 'sent',
          },
        }),
      ),
    asks: 'GET /v2/messages?patient=a%2Fb%3Fc%23d+%C3%A9%25&form=f&packet=p&document=d&message_type=form_response_request&preferred_delivery_method=sms&target_email=e&target_phone_number=n&status=sent',
  },
  sendMessage: {
    does: (client) =>
      library.sendMessage(client, {
        patient: ID,
        packet: 'p',
        message_type: 'form_response_request',
        preferred_delivery_method: 'sms',
        target_phone_number: '5550100',
        scheduled_at: '2026-01-02T09:00:00Z',
      }),
    asks: 'POST /v2/messages',
    body: {
      patient: ID,
      packet: 'p',
      message_type: 'form_response_request',
      preferred_delivery_method: 'sms',
      target_phone_number: '5550100',
      scheduled_at: '2026-01-02T09:00:00Z',
    },
  },
  getMessage: { does: (client) => library.getMessage(client, ID), asks: `GET /v2/messages/${ENCODED}` },
  changeMessage: {
    does: (client) => library.changeMessage(client, ID, { target_email: 'b@c.example' }),
    asks: `PUT /v2/messages/${ENCODED}`,
    body: { target_email: 'b@c.example' },
  },
  cancelMessage: {
    does: (client) => library.cancelMessage(client, ID),
    asks: `DELETE /v2/messages/${ENCODED}`,
  },
  changeScheduledMessage: {
    does: (client) => library.changeScheduledMessage(client, ID, { scheduled_at: '2026-01-02T09:00:00Z' }),
    asks: `PATCH /v2/messages/${ENCODED}/scheduled`,
    body: { scheduled_at: '2026-01-02T09:00:00Z' },
  },
  cancelScheduledMessage: {
    does: (client) => library.cancelScheduledMessage(client, ID),
    asks: `PATCH /v2/messages/${ENCODED}/scheduled`,
    body: { status: 'cancelled' },
  },
  listForms: { does: (client) => all(library.listForms(client)), asks: 'GET /v2/forms' },
  getForm: { does: (client) => library.getForm(client, ID), asks: `GET /v2/forms/${ENCODED}` },
  listPackets: { does: (client) => all(library.listPackets(client)), asks: 'GET /v2/packets' },
  getPacket: { does: (client) => library.getPacket(client, ID), asks: `GET /v2/packets/${ENCODED}` },
  listDocuments: { does: (client) => all(library.listDocuments(client)), asks: 'GET /v2/documents' },
  getDocument: { does: (client) => library.getDocument(client, ID), asks: `GET /v2/documents/${ENCODED}` },
  listResponses: {
    does: (client) =>
      all(
        library.listResponses(client, {
          filters: {
            patient: ID,
            form: 'f',
            packet: 'p',
            submitted_on: '2026-01-02',
            submitted_after: '2026-01-01',
            submitted_before: '2026-01-03',
          },
        }),
      ),
    asks: 'GET /v2/responses?patient=a%2Fb%3Fc%23d+%C3%A9%25&form=f&packet=p&submitted_on=2026-01-02&submitted_after=2026-01-01&submitted_before=2026-01-03',
  },
  getResponse: { does: (client) => library.getResponse(client, ID), asks: `GET /v2/responses/${ENCODED}` },
  listExports: { does: (client) => all(library.listExports(client)), asks: 'GET /v2/export-csv' },
  readExport: {
    does: (client) => library.readExport(client, ID),
    asks: 'POST /v2/export-csv?type=json',
    body: { id: ID },
  },
  streamExport: {
    does: (client) => whole(library.streamExport(client, ID, 'download_file')),
    asks: 'POST /v2/export-csv?type=download_file',
    body: { id: ID },
  },
  listWebhookConfigs: { does: (client) => all(library.listWebhookConfigs(client)), asks: 'GET /v2/webhooks' },
  createWebhookConfig: {
    does: (client) =>
      library.createWebhookConfig(client, { target_url: 'https://us.example/', sources: ['response'] }),
    asks: 'POST /v2/webhooks',
    body: { target_url: 'https://us.example/', sources: ['response'] },
  },
  getWebhookConfig: {
    does: (client) => library.getWebhookConfig(client, ID),
    asks: `GET /v2/webhooks/${ENCODED}`,
  },
  replaceWebhookConfig: {
    does: (client) => library.replaceWebhookConfig(client, ID, { target_url: 'https://us.example/' }),
    asks: `PUT /v2/webhooks/${ENCODED}`,
    body: { target_url: 'https://us.example/' },
  },
  changeWebhookConfig: {
    does: (client) => library.changeWebhookConfig(client, ID, { is_active: false }),
    asks: `PATCH /v2/webhooks/${ENCODED}`,
    body: { is_active: false },
  },
  deleteWebhookConfig: {
    does: (client) => library.deleteWebhookConfig(client, ID),
    asks: `DELETE /v2/webhooks/${ENCODED}`,
  },
  testWebhookConfig: {
    does: (client) => library.testWebhookConfig(client, ID),
    asks: 'POST /v2/webhooks/events/test',
    body: { id: ID },
  },
  listWebhookDeliveries: {
    does: (client) => all(library.listWebhookDeliveries(client)),
    asks: 'GET /v2/webhooks/events',
  },
}

/** What `call` is seen to ask for by a service that answers each request in the same way. */
async function asked(call: Call, options: Partial<ClientOptions> = {}) {
  await using service = await startService((request, response) => {
    const isList = request.method === 'GET' && !request.url.includes(ENCODED)
    json(response, isList ? [] : { id: 'x', signature_secret: 's' })
  })
  await using heard = clientOf(service.url, options)
  await call.does(heard.client)
  expect(service.received).toHaveLength(1)
  return service.received[0]!
}

describe('each function sends the request of the specification, with its id in its place', () => {
  test.each(Object.entries(CALLS))('%s', async (_name, call) => {
    const { method, url, headers, body } = await asked(call)
    expect(`${method} ${url}`).toBe(call.asks)
    expect(body.length === 0 ? undefined : JSON.parse(body.toString())).toEqual(call.body)
    expect(headers['content-type']).toBe(call.body === undefined ? undefined : 'application/json')
    expect(headers).toMatchObject({ 'x-api-key': expect.any(String), 'x-api-version': 'v2.1' })
  })

  test('none is left out here', () => {
    const functions = Object.entries(library).filter(
      ([name, value]) =>
        typeof value === 'function' &&
        /^(list|get|create|replace|change|delete|upload|send|cancel|read|stream|test)[A-Z]/.test(name),
    )
    const names = functions.map(([name]) => name).filter((name) => name !== 'streamNamed')
    expect(names.sort()).toEqual([...Object.keys(CALLS), 'uploadPatients'].sort())
  })
})

describe('what the specification does not show can be set', () => {
  test.each([
    ['readExport', { exportId: 'export' }, { export: ID }],
    ['streamExport', { exportId: 'export' }, { export: ID }],
    ['testWebhookConfig', { webhookTestId: 'config_id' }, { config_id: ID }],
  ])('the key of the id in the body of %s', async (name, bodyKeys, body) => {
    expect(JSON.parse((await asked(CALLS[name]!, { bodyKeys })).body.toString())).toEqual(body)
  })

  test.each([
    ['changeWebhookConfig', { webhookConfig: '/v2/hooks/{id}/' }, `/v2/hooks/${ENCODED}/`],
    ['listWebhookDeliveries', { webhookDeliveries: '/v2/deliveries' }, '/v2/deliveries'],
    ['getPatientUpload', { patientUpload: '/v2/uploads/{id}' }, `/v2/uploads/${ENCODED}`],
  ])('the path of %s', async (name, paths, url) => {
    expect((await asked(CALLS[name]!, { paths })).url).toBe(url)
  })
})

describe('a record comes as its type says, and as the service gave it', () => {
  const odd = {
    uid: 7,
    unheard_of: { of: [1] },
    answers: { q1: 'x' },
    form: null,
    packet: 'p',
    is_active: true,
  }

  test.each([
    ['getPatient'],
    ['createPatient'],
    ['changePatient'],
    ['sendMessage'],
    ['getMessage'],
    ['cancelScheduledMessage'],
    ['getResponse'],
    ['getPatientUpload'],
    ['changeWebhookConfig'],
  ])('by %s, unknown fields and all', async (name) => {
    await using service = await startService((_, response) => json(response, odd))
    await using heard = clientOf(service.url)
    const got = (await CALLS[name]!.does(heard.client)) as library.RecordAnswer<object>
    expect(got.record).toEqual(odd)
    expect(got.raw).toEqual(odd)
    expect(got.problems).toEqual([])
    expect(got.answer.status).toBe(200)
    expect(service.received).toHaveLength(1)
  })

  test('even if the answer wraps it in `data`', async () => {
    await using service = await startService((_, response) => json(response, { data: odd }, 201))
    await using heard = clientOf(service.url)
    expect((await library.createPatient(heard.client, {})).record).toEqual(odd)
  })

  test.each(['id', 'uid'])('and not what is in `data` of a record with an %s', async (key) => {
    const given = { [key]: 'x', data: { id: 'y' } }
    await using service = await startService((_, response) => json(response, given))
    await using heard = clientOf(service.url)
    expect((await library.getPatient(heard.client, 'x')).record).toEqual(given)
  })

  test.each([
    ['getPatient', { first_name: 5 }, 'first_name', 'string'],
    ['createPatient', { patient_tags: 'VIP' }, 'patient_tags', 'array'],
    ['changePatient', { email: ['a@b.example'] }, 'email', 'string'],
    ['getMessage', { patient: true }, 'patient', 'string or number or object'],
    ['sendMessage', { sent_at: 1700000000 }, 'sent_at', 'string'],
    ['cancelScheduledMessage', { scheduled_at: {} }, 'scheduled_at', 'string'],
    ['getForm', { enabled: 'yes' }, 'enabled', 'boolean'],
    ['getPacket', { forms: 3 }, 'forms', 'array'],
    ['getDocument', { input_fields: 'none' }, 'input_fields', 'array or object'],
    ['getResponse', { is_skipped: 0 }, 'is_skipped', 'boolean'],
    ['getPatientUpload', { total_rows: '12' }, 'total_rows', 'number'],
    ['changeWebhookConfig', { event_types: 'created' }, 'event_types', 'array'],
    ['createWebhookConfig', { is_active: 'true' }, 'is_active', 'boolean'],
  ])('by %s without a field of another type: %j', async (name, wrong, path, expected) => {
    const given = { id: 'x', signature_secret: 's', unheard_of: 1 }
    await using service = await startService((_, response) => json(response, { ...given, ...wrong }))
    await using heard = clientOf(service.url)
    const got = (await CALLS[name]!.does(heard.client)) as library.RecordAnswer<object>
    expect(got.record).toEqual(given)
    expect(got.raw).toEqual({ ...given, ...wrong })
    expect(got.problems).toEqual([{ path, expected }])
  })

  test.each([
    ['listPatients', library.listPatients],
    ['listMessages', library.listMessages],
    ['listForms', library.listForms],
    ['listPackets', library.listPackets],
    ['listDocuments', library.listDocuments],
    ['listResponses', library.listResponses],
    ['listExports', library.listExports],
    ['listWebhookConfigs', library.listWebhookConfigs],
    ['listWebhookDeliveries', library.listWebhookDeliveries],
  ])('by %s, page by page', async (_, list) => {
    const rows = [{ id: 1, created_at: 7, more: [] }, null, 'x', { uid: 'b', created_at: 8 }]
    await using service = await startService((_, response) => json(response, rows))
    await using heard = clientOf(service.url)
    const scan: library.TypedScan<object> = list(heard.client)
    const pages = []
    for await (const page of scan) pages.push(page)
    expect(pages).toMatchObject([
      {
        number: 1,
        records: [{ id: 1, more: [] }, { uid: 'b' }],
        raw: rows,
        problems: [
          { path: '0.created_at', expected: 'string' },
          { path: '1', expected: 'object' },
          { path: '2', expected: 'object' },
          { path: '3.created_at', expected: 'string' },
        ],
      },
    ])
    expect(pages[0]!.records[0]).not.toHaveProperty('created_at')
    expect(scan.outcome).toMatchObject({ complete: true, records: 4 })
  })

  test('with each of several wrong fields of a record, and of several records', async () => {
    const wrong = { first_name: 1, email: true, created_at: 7 }
    await using service = await startService((_, response) =>
      json(response, [
        { id: 'a', ...wrong },
        { id: 'b', ...wrong },
      ]),
    )
    await using heard = clientOf(service.url)
    for await (const { records, problems } of library.listPatients(heard.client)) {
      expect(records).toEqual([{ id: 'a' }, { id: 'b' }])
      expect(problems.map(({ path }) => path).toSorted()).toEqual(
        [0, 1].flatMap((place) => ['created_at', 'email', 'first_name'].map((name) => `${place}.${name}`)),
      )
    }
    expect.assertions(2)
  })

  test('an export in JSON is kept whole, whatever it is', async () => {
    for (const body of [
      [{ 'Client ID': '1' }],
      { data: [{}] },
      { headers: ['a'], rows: [['1']] },
      'text',
      null,
    ]) {
      await using service = await startService((_, response) => json(response, body))
      await using heard = clientOf(service.url)
      expect((await library.readExport(heard.client, 'e1')).body).toEqual(body)
    }
  })
})

describe('the shapes keep unknown fields and let each alternative pass', () => {
  const response = { id: 'r', answers: [], is_skipped: true }
  const cell = { question: 'q', row: 0, column: 'Dose', answer_text: '81 mg' }
  test.each([
    [library.Patient, { id: 1, emergency_contact: {}, patient_tags: null, custom_fields: { n: 1 } }],
    [
      library.Message,
      { id: 'm', patient: 'p', form: { uid: 'f', name: 'F' }, packet: null, document_id: 'd' },
    ],
    [library.Message, { uid: 'm', patient: { id: 1 }, target_phone: '1', status: { status: 'sent' } }],
    [
      library.Message,
      { delivery_status: 'bounced', phone_number: '1', scheduled: { id: 's', status: 'scheduled' } },
    ],
    [library.Message, { status: 'canceled', scheduled_at: null }],
    [library.Response, response],
    [
      library.Response,
      { uid: 1, form: 'f', patient: null, packet_id: 3, answers: { q1: { answer_text: 'x' } } },
    ],
    [library.Response, { ...response, answers: [{ question: 'q', answer_choices: ['Cane', 3] }] }],
    [
      library.Response,
      { ...response, answers: [{ question: null, answer_text: '{"a":1}', answer_choices: null }] },
    ],
    [
      library.Response,
      {
        ...response,
        answers: [
          {
            question: { id: 'q' },
            answer_choices: [{ question_choice: { id: 'c', text_value: 'Cane' } }, { question_choice: 'c' }],
            matrix_cells: [cell],
            uploads: [{ name: 'a.png', size: '12' }],
            signatures: [{ image: 'data:image/png;base64,' }],
          },
        ],
      },
    ],
    [library.Response, { ...response, matrix: [cell], attachments: [{ size: 1 }], esignatures: null }],
    [library.Export, { uid: 'e', form_id: 4, form_name: 'F' }],
    [library.Export, { id: 'e', form: { id: 'f', name: 'F' } }],
    [library.WebhookConfig, { id: 1, event_types: ['created'], sources: null, is_active: false }],
    // A newer service may have others.
    [library.WebhookConfig, { id: 1, event_types: ['archived', 'created'], sources: ['invoice', 'form'] }],
    [
      library.WebhookDelivery,
      { id: 'd', webhook_config: { id: 'w' }, response_status_code: null, attempts: 2 },
    ],
    [library.WebhookDelivery, { uid: 'd', webhook_config: 'w', next_retry_at: null }],
    [library.PatientUpload, { id: 'u', status: 'processing', errors: [{ row: 7, detail: 'no name' }] }],
  ])('%#', (shape, value) => {
    const given = { ...value, unheard_of: [1] }
    expect(shape.parse(given)).toEqual(given)
  })

  test.each([
    [[{ 'Client ID': '1', Name: null }]],
    [{ data: [{ a: 1 }], more: true }],
    [{ headers: ['a', 'a'], rows: [['1', '2']], more: true }],
    [{ headers: ['a'], rows: [{ a: '1' }] }],
  ])('an export in JSON: %j', (value) => {
    expect(library.ExportContent.parse(value)).toEqual(value)
  })
})

describe('a refusal speaks of the one resource', () => {
  test.each([
    ['deletePatient', 404, 'gone'],
    ['cancelMessage', 404, 'gone'],
    ['streamExport', 404, 'gone'],
    ['testWebhookConfig', 404, 'gone'],
    ['cancelMessage', 400, 'dead_letter'],
    ['readExport', 400, 'dead_letter'],
    ['streamExport', 400, 'dead_letter'],
    ['testWebhookConfig', 400, 'dead_letter'],
    ['createPatient', 400, 'stop'],
    ['listMessages', 400, 'stop'],
  ])('%s, %i: %s', async (name, status, verdict) => {
    await using service = await startService((_, response) => json(response, { detail: 'SAID' }, status))
    await using heard = clientOf(service.url)
    const error = await errorOf(CALLS[name]!.does(heard.client))
    expect(error).toMatchObject({ verdict, status, tries: 1 })
    expect(`${error.message} ${error.stack} ${heard.lines.join()}`).not.toContain('SAID')
  })
})
