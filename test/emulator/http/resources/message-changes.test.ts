/** What a message refers to after a change, and invalid times. */
import { afterAll, beforeAll, expect, it } from 'vitest'
import { type Emulator, startEmulator } from '../../../../src/emulator/server.ts'
import { type Caller, callerOf, type Loose } from '../../caller.ts'

let emulator: Emulator
let caller: Caller
let about: Readonly<Record<'patient' | 'form' | 'packet' | 'document', string>>

beforeAll(async () => {
  emulator = await startEmulator({ port: 0, patients: 3, responses: 5 })
  caller = callerOf(emulator)
  const first = async (resource: string): Promise<string> => (await caller.rows(`/v2/${resource}`))[0].id
  about = {
    ...{ patient: await first('patients'), form: await first('forms') },
    ...{ packet: await first('packets'), document: await first('documents') },
  }
})
afterAll(() => emulator.close())

const FIELDS = {
  ...{ preferred_delivery_method: 'email', target_email: 'a@example.com' },
  scheduled_at: '2099-01-02T09:00:00Z',
}
const post = (fields: object = {}) => caller.send('POST', '/v2/messages', { ...FIELDS, ...about, ...fields })
const made = async (fields: object = {}): Promise<Loose> => (await post(fields)).body
const put = (id: string, body: object) => caller.send('PUT', `/v2/messages/${id}`, body)
const patch = (id: string, body: object) => caller.send('PATCH', `/v2/messages/${id}/scheduled`, body)

it('a message loses the form, packet or document that is set to nothing, and keeps the others', async () => {
  for (const name of ['form', 'packet', 'document'] as const)
    for (const nothing of [null, '']) {
      const message = await made()
      const { status, body } = await put(message.id, { [name]: nothing })
      const { content, updated_at } = body
      expect([status, body]).toEqual([200, { ...message, [name]: null, content, updated_at }])
      expect((await made({ [name]: nothing }))[name]).toBe(null)
    }
})

it('a message without a form, packet and document is refused, also as a change of one that has them', async () => {
  const message = await made({ packet: null })
  expect((await put(message.id, { form: null, document: '' })).status).toBe(400)
  expect((await put(message.id, { document: null })).status).toBe(200)
  expect((await put(message.id, { form: null })).status).toBe(400)
  expect((await put(message.id, { form: null, packet: about.packet })).body).toMatchObject({
    ...{ form: null, document: null, packet: { id: about.packet } },
  })
})

it('a time that is neither a text nor null is refused, and changes nothing', async () => {
  const before = await made()
  const count = emulator.control.world().messages.size
  for (const scheduled_at of [0, false, 7, {}, [], 'soon'])
    for (const reply of [
      ...[await post({ scheduled_at }), await put(before.id, { scheduled_at })],
      await patch(before.id, { scheduled_at }),
    ])
      expect([scheduled_at, reply.status, reply.body]).toEqual([
        ...[scheduled_at, 400, { detail: 'Validation error.' }],
      ])
  expect((await caller.get(`/v2/messages/${before.id}`)).body).toEqual(before)
  expect(emulator.control.world().messages.size).toBe(count)
})
