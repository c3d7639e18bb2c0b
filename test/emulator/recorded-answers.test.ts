/**
 * Compares the emulator's answers with test/emulator/recorded, so that whoever rehearses with it finds the same service
 * tomorrow: a digest of each in every shape, and a session word for word. After an intended change,
 * `npx vitest run test/emulator/recorded-answers.test.ts -u` updates the recordings; read the difference before you commit it.
 */
import { createHash } from 'node:crypto'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { type Emulator, type EmulatorOptions, startEmulator } from '../../src/emulator/server.ts'
import { SHAPE_NAMES } from '../../src/emulator/shapes/catalogue.ts'
import { callerOf, type Reply } from './caller.ts'
import { stillClock } from './still-clock.ts'

const WORLD: EmulatorOptions = {
  port: 0,
  clock: stillClock,
  ...{ patients: 9, forms: 6, packets: 5, documents: 5, responses: 12, pageSize: 4 },
}
const LISTS = ['patients', 'forms', 'packets', 'documents', 'responses', 'messages', 'export-csv'] as const

const FILE = 'the first file'
const MONDAY = '2025-10-06T00:00:00Z'
/** What some shapes answer otherwise. */
const FURTHER: readonly (readonly [what: string, method: string, path: string, body?: object | string])[] = [
  ['documents in v2.1', 'GET', '/v2/documents'],
  ['a page past the end', 'GET', '/v2/patients?page=99'],
  ['a page size', 'GET', '/v2/patients?page_size=2'],
  ['an unknown parameter', 'GET', '/v2/patients?colour=red'],
  ['responses after a time', 'GET', `/v2/responses?submitted_after=${MONDAY}`],
  ['responses before a time', 'GET', `/v2/responses?submitted_before=${MONDAY}`],
  ['responses of a day', 'GET', '/v2/responses?submitted_on=2025-10-06'],
  ['a file as text', 'POST', '/v2/export-csv?type=raw_text', FILE],
  ['a file as a download', 'POST', '/v2/export-csv?type=download_file', FILE],
  ['a file in v2.1', 'POST', '/v2/export-csv?type=raw_text', FILE],
  ['a record that is not there', 'GET', '/v2/patients/00000000-0000-4000-8000-000000000000'],
  ['a patient without a name', 'POST', '/v2/patients', {}],
  ['a new patient', 'POST', '/v2/patients', { first_name: 'New', last_name: 'Person' }],
  ['a deleted patient', 'DELETE', '/v2/patients/ID'],
]

const JSON_TYPE = 'application/json; charset=utf-8'

const recordedIn = (name: string) => join(import.meta.dirname, 'recorded', name)

/** Without addresses, whose port is another each time. */
function withoutPorts(emulator: Emulator, text: string): string {
  return emulator.environments.reduce(
    (rest, { name, base_url }) => rest.replaceAll(base_url, `https://${name}`),
    text,
  )
}

function firstId({ text }: Reply): string {
  return /"(?:id|uuid|uid|pk)": ?"?([^",}]+)/.exec(text)?.[1] ?? 'none'
}

/** Where the next page is, if the page names it as most shapes do; in some the host is one that only the service reaches. */
function nextOf({ body }: Reply, path: string): string {
  const { pathname, search } = new URL(String(body?.next ?? '?page=2'), `https://production${path}`)
  return pathname + search
}

/** The status, the headers that mean something, and a digest of the body. */
function digestOf(emulator: Emulator, reply: Reply): string {
  const headers = ['content-type', 'link', 'location', 'retry-after'].flatMap((name) => {
    const value = reply.headers.get(name)
    return value === null || value === JSON_TYPE ? [] : [`${name}: ${withoutPorts(emulator, value)}`]
  })
  const body = createHash('sha256').update(withoutPorts(emulator, reply.text)).digest('hex').slice(0, 12)
  return [reply.status, body, ...headers].join(', ')
}

/** By request: each list, its second page, one of its records or a file. */
async function answersIn(shape: string): Promise<ReadonlyMap<string, string>> {
  await using emulator = await startEmulator({ ...WORLD, shape })
  const { get, send, credentials } = callerOf(emulator)
  const answers = new Map<string, string>()
  const note = (what: string, reply: Reply) => answers.set(what, digestOf(emulator, reply))
  for (const list of LISTS) {
    const page = await get(`/v2/${list}`)
    note(list, page)
    note(`${list}, next page`, await get(nextOf(page, `/v2/${list}`)))
    const id = firstId(page)
    if (list === 'export-csv') note('a file', await send('POST', '/v2/export-csv', { id }))
    else note(`${list}, one`, await get(`/v2/${list}/${id}`))
  }
  for (const [what, method, path, body] of FURTHER) {
    const headers = what.includes('v2.1') ? { ...credentials, 'X-API-VERSION': 'v2.1' } : credentials
    const id = path.endsWith('ID') ? firstId(await get('/v2/patients')) : ''
    const sent = body === FILE ? { id: firstId(await get('/v2/export-csv')) } : body
    note(what, await send(method, path.replace('ID', id), sent, headers))
  }
  return answers
}

it('each shape changes what it changed, and nothing else', async () => {
  const lines: string[] = []
  const usual = await answersIn('default')
  const without = new Map<string, string>()
  for (const shape of ['default', ...SHAPE_NAMES]) {
    lines.push(`# ${shape}`)
    const before = shape === 'default' ? without : usual
    for (const [what, answer] of await answersIn(shape))
      if (answer !== before.get(what)) lines.push(`${what}: ${answer}`)
  }
  await expect(`${lines.join('\n')}\n`).toMatchFileSnapshot(recordedIn('shapes.txt'))
})

/** One after the other, in a world of the fewest records: method, path and body. `$1` is the first id of the list before. */
const SESSION = `
GET /v2/patients
GET /v2/patients/$1
GET /v2/patients?page_size=1
GET /v2/patients?page=2&page_size=1
GET /v2/patients?page=0
GET /v2/patients?page=abc
GET /v2/patients?page_size=-1
GET /v2/patients?page_size=100000
GET /v2/patients?search=a
GET /v2/patients?last_name=nobody
PATCH /v2/patients/$1 {"city":"Elsewhere","custom_fields":{"note":"short"}}
PATCH /v2/patients/$1 {"date_birth":"yesterday","email":"none","sex_at_birth":7}
PATCH /v2/patients/$1 {"patient_tags":[{"name":"vip","color":"#123456"}]}
PATCH /v2/patients/$1 {"first_name":null}
PATCH /v2/patients/$1 [1]
PATCH /v2/patients/$1 {"first_name":
PUT /v2/patients/$1 {"first_name":"Only"}
PUT /v2/patients/$1 {"first_name":"Whole","last_name":"Person","zipcode":"05401","emergency_contact":{"first_name":"One","last_name":"Friend"}}
POST /v2/patients {"first_name":"New","last_name":"Person","external_id":"x-1","date_birth":"1990-12-31","phone_number":"+1 802 555 0100"}
POST /v2/patients {"first_name":"New","last_name":"Person","external_id":"x-1"}
POST /v2/patients {"first_name":"","last_name":" "}
DELETE /v2/patients/$1
DELETE /v2/patients/$1
GET /v2/patients/$1
GET /v2/patients/not-an-id
GET /v2/patients
GET /v2/forms
GET /v2/forms/$1
POST /v2/forms {}
GET /v2/packets
GET /v2/packets/$1
GET /v2/documents
GET /v2/documents/$1
GET /v2/responses
GET /v2/responses/$1
GET /v2/responses?patient=00000000-0000-4000-8000-000000000000
GET /v2/responses?form=nothing
GET /v2/responses?submitted_on=2025-13-01
GET /v2/responses?submitted_after=tomorrow
GET /v2/responses?submitted_after=2025-10-01&submitted_before=2025-10-02
GET /v2/messages
GET /v2/messages/$1
GET /v2/messages?status=cancelled
GET /v2/messages?delivery_method=sms
PUT /v2/messages/$1 {"target_email":"late@example.com"}
DELETE /v2/messages/$1
PATCH /v2/messages/$1/scheduled {"status":"cancelled"}
GET /v2/patients
POST /v2/messages {"patient":"$1","message_type":"form_response_request","preferred_delivery_method":"email","target_email":"a@example.com"}
POST /v2/messages {"patient":"$1","form":"$form","message_type":"form_response_request","preferred_delivery_method":"fax"}
POST /v2/messages {"patient":"$1","form":"$form","message_type":"form_response_request","preferred_delivery_method":"email","target_email":"a@example.com","scheduled_at":"2030-01-01T00:00:00Z"}
PATCH /v2/messages/$last/scheduled {"status":"sent"}
PUT /v2/messages/$last {"scheduled_at":"2031-01-01T00:00:00Z","target_email":"b@example.com"}
PATCH /v2/messages/$last/scheduled {"status":"cancelled"}
PATCH /v2/messages/$last/scheduled {"status":"cancelled"}
DELETE /v2/messages/$last
GET /v2/export-csv
POST /v2/export-csv {"id":"$1"}
POST /v2/export-csv?type=raw_text {"id":"$1"}
POST /v2/export-csv?type=download_file {"id":"$1"}
POST /v2/export-csv?type=pdf {"id":"$1"}
POST /v2/export-csv {"id":"not-an-id"}
POST /v2/export-csv {"id":"00000000-0000-4000-8000-000000000000"}
POST /v2/export-csv {}
POST /v2/patients/batch-upload {}
GET /v2/patients/batch-upload/00000000-0000-4000-8000-000000000000
GET /v2/webhooks
POST /v2/webhooks {"target_url":"ftp://example.com","event_types":["created"],"sources":["patient"]}
POST /v2/webhooks {"target_url":"http://127.0.0.1:1/hooks","event_types":["teleported"],"sources":["moon"]}
POST /v2/webhooks {"target_url":"http://127.0.0.1:1/hooks","event_types":["created","updated"],"sources":["patient"]}
GET /v2/webhooks/$last
PATCH /v2/webhooks/$last {"is_active":false}
PUT /v2/webhooks/$last {"target_url":"http://127.0.0.1:2/hooks"}
POST /v2/webhooks/events/test {"id":"00000000-0000-4000-8000-000000000000"}
GET /v2/webhooks/events
DELETE /v2/webhooks/$last
DELETE /v2/webhooks/$last
GET /v2/nowhere
DELETE /v2/forms
`

it('a session of requests, right and wrong ones, is answered word for word as it was', async () => {
  await using emulator = await startEmulator({
    ...WORLD,
    ...{ patients: 2, forms: 1, packets: 1, documents: 1, responses: 2 },
  })
  const { get, send } = callerOf(emulator)
  const form = firstId(await get('/v2/forms'))
  const answers: string[] = []
  let [first, last] = ['none', 'none']
  for (const line of SESSION.trim().split('\n')) {
    const filled = line.replaceAll('$1', first).replaceAll('$form', form).replaceAll('$last', last)
    const [, method, path, body] = /^(\w+) (\S+) ?(.*)$/.exec(filled)!
    const reply = await send(method!, path!, body === '' ? undefined : body)
    if (method === 'GET' && !path!.includes('?') && reply.status === 200 && reply.body.results)
      first = firstId(reply)
    if (reply.status === 201) last = firstId(reply)
    answers.push(`${line}\n${reply.status} ${withoutPorts(emulator, reply.text)}\n`)
  }
  await expect(answers.join('\n')).toMatchFileSnapshot(recordedIn('session.txt'))
})
