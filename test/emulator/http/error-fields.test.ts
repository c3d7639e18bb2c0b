/** A refusal names the field that is wrong, where the shape of errors shows it. */
import { afterAll, beforeAll, expect, it } from 'vitest'
import { type Emulator, startEmulator } from '../../../src/emulator/server.ts'
import { type Caller, callerOf, type Loose } from '../caller.ts'
import { formOf, postUpload } from './resources/uploading.ts'

let emulator: Emulator
let caller: Caller
let ids: { patient: string; form: string; scheduled: string; sent: string; hook: string }

beforeAll(async () => {
  emulator = await startEmulator({
    ...{ port: 0, patients: 3, responses: 30 },
    shape: 'validation-errors-object+unknown-parameter-refused',
  })
  caller = callerOf(emulator)
  const first = async (path: string) => (await caller.rows(path))[0].id
  const hook = { target_url: 'http://127.0.0.1:9/' }
  ids = {
    patient: await first('/v2/patients'),
    form: await first('/v2/forms'),
    scheduled: await first('/v2/messages?status=scheduled'),
    sent: await first('/v2/messages?status=sent'),
    hook: (await caller.send('POST', '/v2/webhooks', hook)).body.id,
  }
})
afterAll(() => emulator.close())

const person = { first_name: 'A', last_name: 'B' }
const message = () => ({
  ...{ patient: ids.patient, form: ids.form, preferred_delivery_method: 'email', target_email: 'a@b.de' },
})
const hook = { target_url: 'http://127.0.0.1:9/' }

it.each<[string, string, () => unknown, string]>([
  ['POST', '/v2/patients', () => ({ first_name: 'A' }), 'last_name'],
  ['POST', '/v2/patients', () => ({ last_name: 'A' }), 'first_name'],
  ['POST', '/v2/patients', () => ({}), 'first_name'],
  ['POST', '/v2/patients', () => [], 'non_field_errors'],
  ['POST', '/v2/patients', () => '{', 'non_field_errors'],
  ...['address', 'address2', 'city', 'state', 'zipcode', 'external_id', 'email', 'phone_number'].map(
    (name): [string, string, () => unknown, string] => [
      'POST',
      '/v2/patients',
      () => ({ ...person, [name]: 7 }),
      name,
    ],
  ),
  ...['date_birth', 'sex_at_birth', 'provider', 'first_name', 'last_name', 'patient_tags'].map(
    (name): [string, string, () => unknown, string] => [
      'POST',
      '/v2/patients',
      () => ({ ...person, [name]: 7 }),
      name,
    ],
  ),
  ...['custom_fields', 'emergency_contact'].map((name): [string, string, () => unknown, string] => [
    ...(['POST', '/v2/patients', () => ({ ...person, [name]: 7 }), name] as const),
  ]),
  ['PATCH', '/v2/patients/PATIENT', () => ({ city: 7, email: 7 }), 'city'],
  ['PUT', '/v2/patients/PATIENT', () => ({ first_name: 'A' }), 'last_name'],
  ['POST', '/v2/messages', () => [], 'non_field_errors'],
  ['POST', '/v2/messages', () => ({ ...message(), patient: undefined }), 'patient'],
  ['POST', '/v2/messages', () => ({ ...message(), patient: null }), 'patient'],
  ['POST', '/v2/messages', () => ({ ...message(), form: [] }), 'form'],
  ['POST', '/v2/messages', () => ({ ...message(), packet: true }), 'packet'],
  ['POST', '/v2/messages', () => ({ ...message(), document: {} }), 'document'],
  ['POST', '/v2/messages', () => ({ ...message(), form: null }), 'non_field_errors'],
  ['POST', '/v2/messages', () => ({ ...message(), message_type: '' }), 'message_type'],
  [
    'POST',
    '/v2/messages',
    () => ({ ...message(), preferred_delivery_method: 'x' }),
    'preferred_delivery_method',
  ],
  [
    'POST',
    '/v2/messages',
    () => ({ ...message(), preferred_delivery_method: undefined }),
    'preferred_delivery_method',
  ],
  ['POST', '/v2/messages', () => ({ ...message(), target_email: 'x' }), 'target_email'],
  ['POST', '/v2/messages', () => ({ ...message(), target_phone: 7 }), 'target_phone'],
  ['POST', '/v2/messages', () => ({ ...message(), phone_number: 7 }), 'phone_number'],
  ['POST', '/v2/messages', () => ({ ...message(), target_phone_number: 7 }), 'target_phone_number'],
  ['POST', '/v2/messages', () => ({ ...message(), scheduled_at: 'x' }), 'scheduled_at'],
  ['PUT', '/v2/messages/SCHEDULED', () => ({ form: null, packet: null, document: null }), 'non_field_errors'],
  ...[0, false, 7, [], {}].map((scheduled_at): [string, string, () => unknown, string] => [
    ...(['POST', '/v2/messages', () => ({ ...message(), scheduled_at }), 'scheduled_at'] as const),
  ]),
  ...[0, false, [], {}].map((target_email): [string, string, () => unknown, string] => [
    ...(['POST', '/v2/messages', () => ({ ...message(), target_email }), 'target_email'] as const),
  ]),
  ['POST', '/v2/messages', () => ({ ...message(), message_type: null }), 'message_type'],
  [
    'POST',
    '/v2/messages',
    () => ({ ...message(), preferred_delivery_method: null }),
    'preferred_delivery_method',
  ],
  ['PUT', '/v2/messages/SENT', () => ({}), 'status'],
  ['PUT', '/v2/messages/SENT', () => ({ target_email: 'x' }), 'status'],
  ['PATCH', '/v2/messages/SENT/scheduled', () => ({ scheduled_at: 'x' }), 'status'],
  ['PATCH', '/v2/messages/SENT/scheduled', () => ({ status: 'x' }), 'status'],
  ['DELETE', '/v2/messages/SENT', () => undefined, 'status'],
  ['PATCH', '/v2/messages/SENT/scheduled', () => ({ status: 'cancelled' }), 'status'],
  ['PATCH', '/v2/messages/SCHEDULED/scheduled', () => ({ status: 'sent' }), 'status'],
  ['PATCH', '/v2/messages/SCHEDULED/scheduled', () => ({}), 'status'],
  ['PATCH', '/v2/messages/SCHEDULED/scheduled', () => ({ scheduled_at: 'x' }), 'scheduled_at'],
  ['POST', '/v2/export-csv', () => ({}), 'id'],
  ['POST', '/v2/export-csv', () => ({ id: 'x' }), 'id'],
  ['POST', '/v2/export-csv?type=x', () => ({ id: 'x' }), 'type'],
  ['GET', '/v2/responses?submitted_on=x', () => undefined, 'submitted_on'],
  ['GET', '/v2/responses?submitted_after=x', () => undefined, 'submitted_after'],
  ['GET', '/v2/responses?submitted_before=x', () => undefined, 'submitted_before'],
  ['POST', '/v2/webhooks', () => ({}), 'target_url'],
  ['POST', '/v2/webhooks', () => [], 'non_field_errors'],
  ['POST', '/v2/webhooks', () => ({ ...hook, event_types: ['x'] }), 'event_types'],
  ['POST', '/v2/webhooks', () => ({ ...hook, sources: ['x'] }), 'sources'],
  ['POST', '/v2/webhooks', () => ({ ...hook, is_active: 1 }), 'is_active'],
  ['PUT', '/v2/webhooks/HOOK', () => ({}), 'target_url'],
  ['POST', '/v2/webhooks/events/test', () => ({}), 'id'],
  ['POST', '/v2/webhooks/events/test', () => '[]', 'non_field_errors'],
])('%s %s with what it refuses (%s) is answered 400', async (method, path, body, field) => {
  const { patient, scheduled, sent, hook } = ids
  const url = path
    .replace('PATIENT', patient)
    .replace('SCHEDULED', scheduled)
    .replace('SENT', sent)
    .replace('HOOK', hook)
  const reply = await caller.send(method, url, body())
  expect([reply.status, Object.keys(reply.body)]).toEqual([400, [field]])
})

it('a message without any address names the address that it lacks', async () => {
  for (const without of [{}, { email: '', phone_number: '' }]) {
    const { body: nobody } = await caller.send('POST', '/v2/patients', { ...person, ...without })
    for (const [preferred_delivery_method, field] of [
      ['email', 'target_email'],
      ['sms', 'target_phone_number'],
    ] as const) {
      const given = { patient: nobody.id, form: ids.form, preferred_delivery_method }
      const reply = await caller.send('POST', '/v2/messages', given)
      expect([reply.status, Object.keys(reply.body)]).toEqual([400, [field]])
    }
  }
})

it.each(['patients.txt', 'patients.csv'])('an upload that is refused names its file: %s', async (name) => {
  const { status, body } = await postUpload(caller, formOf('', name))
  expect([status, Object.keys(body)]).toEqual([400, ['file']])
})

const FILTERS: readonly (readonly [list: string, filters: readonly string[]])[] = [
  ['patients', ['search', 'email', 'first_name', 'last_name', 'phone_number', 'external_id']],
  ['messages', ['patient', 'form', 'packet', 'document', 'delivery_method', 'preferred_delivery_method']],
  ['messages', ['status', 'message_type', 'target_email', 'target_phone_number']],
  ['responses', ['patient', 'form', 'packet', 'submitted_on', 'submitted_after', 'submitted_before']],
  ['webhooks/events', ['webhook_config', 'status', 'source', 'event_type']],
  ...['webhooks', 'export-csv', 'forms', 'packets', 'documents'].map((list) => [list, []] as const),
]

it.each(FILTERS)('the list of %s knows its filters and no other', async (list, filters) => {
  const query = [...filters, 'page', 'page_size'].map((name) =>
    name.startsWith('submitted') ? `${name}=2026-01-01` : `${name}=1`,
  )
  expect((await caller.get(`/v2/${list}?${query.join('&')}`)).status).toBe(200)
  const others = FILTERS.flatMap(([, all]) => all).filter((name) => !filters.includes(name))
  // Those of messages are in two rows.
  const own = FILTERS.filter(([name]) => name === list).flatMap(([, all]) => all)
  for (const name of ['other', 'id', 'type', ...others].filter((one) => !own.includes(one))) {
    const { status, body }: Loose = await caller.get(`/v2/${list}?${name}=1`)
    expect([status, Object.keys(body)]).toEqual([400, [name]])
  }
})
