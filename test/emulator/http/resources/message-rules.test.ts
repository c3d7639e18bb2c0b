/** What a message may be changed to, who gets it, and what becomes of it. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Emulator, startEmulator } from '../../../../src/emulator/server.ts'
import { type Caller, callerOf, type Loose } from '../../caller.ts'

let emulator: Emulator
let caller: Caller
let patient: Loose
let forms: Loose[]

beforeAll(async () => {
  emulator = await startEmulator({ port: 0, patients: 5, responses: 40 })
  caller = callerOf(emulator)
  patient = await person({})
  forms = await caller.rows('/v2/forms')
})
afterAll(() => emulator.close())

const LATER = '2099-01-02T09:00:00.000001Z'
const REFUSED = { status: 400, body: { detail: 'Validation error.' } }

async function person(fields: object) {
  const both = { email: 'own@example.com', phone_number: '5550100' }
  return (await caller.send('POST', '/v2/patients', { first_name: 'A', last_name: 'B', ...both, ...fields }))
    .body
}
const post = (fields: object = {}) =>
  caller.send('POST', '/v2/messages', {
    ...{ patient: patient.id, form: forms[0].id, preferred_delivery_method: 'email', scheduled_at: LATER },
    ...fields,
  })
const made = async (fields: object = {}): Promise<Loose> => (await post(fields)).body
const read = async (id: string) => (await caller.get(`/v2/messages/${id}`)).body
const put = (id: string, body: object) => caller.send('PUT', `/v2/messages/${id}`, body)
const patch = (id: string, body: object) => caller.send('PATCH', `/v2/messages/${id}/scheduled`, body)
const processed = async (id: string) => {
  emulator.control.advance(1000)
  await expect.poll(async () => (await read(id)).status).not.toBe('pending')
  return await read(id)
}

describe('a recipient', () => {
  it.each([
    [{ preferred_delivery_method: 'email', target_email: 'x@example.com' }, 'x@example.com', null],
    [{ preferred_delivery_method: 'email', target_email: '' }, 'own@example.com', null],
    [{ preferred_delivery_method: 'sms', target_phone_number: '7' }, null, '7'],
    [{ preferred_delivery_method: 'sms', target_phone: '8' }, null, '8'],
    [{ preferred_delivery_method: 'sms', phone_number: '9' }, null, '9'],
    [{ preferred_delivery_method: 'sms', target_phone_number: '', phone_number: '9' }, null, '5550100'],
  ])(
    'is the one of the message, else the patient’s own: %j',
    async (fields, target_email, target_phone_number) => {
      expect(await made(fields)).toMatchObject({ target_email, target_phone_number })
    },
  )

  it('of a message that is changed to another way of delivery is the patient’s own', async () => {
    const { id } = await made()
    expect((await put(id, { preferred_delivery_method: 'sms' })).body).toMatchObject({
      preferred_delivery_method: 'sms',
      target_phone_number: '5550100',
    })
  })
})

describe('a message', () => {
  it.each<[string, object]>([
    ['without a patient', { patient: null, target_email: 'x@example.com' }],
    ['with an empty patient', { patient: '', target_email: 'x@example.com' }],
    ['of an empty type', { message_type: '' }],
    ['of a type that is no text', { message_type: 7 }],
    ['with a number for a phone number', { preferred_delivery_method: 'sms', target_phone: 7 }],
    ['with nulls in the place of form, packet and document', { form: null, packet: null, document: '' }],
  ])('%s is refused', async (_title, fields) => {
    expect(await post(fields)).toMatchObject(REFUSED)
  })

  it('refers to records by id, or by an object with an id or uid', async () => {
    const message_type = 'reminder'
    const form = { uid: forms[1].id }
    const { body } = await post({ patient: { id: patient.id }, form, message_type })
    expect(body).toMatchObject({ patient: { id: patient.id }, form: { id: forms[1].id }, message_type })
    const both = { uid: forms[0].id, id: forms[1].id }
    expect((await made({ form: both })).form.id).toBe(forms[1].id)
  })

  it('with an empty time is sent at once', async () => {
    expect(await made({ scheduled_at: '' })).toMatchObject({ status: 'pending', scheduled_at: null })
  })

  it('about a document has its name, and requests a response to it', async () => {
    const [document] = await caller.rows('/v2/documents')
    const { id, content } = await made({ form: null, document: document.id, scheduled_at: null })
    expect(content).toContain(`"${document.name}"`)
    await processed(id)
    const { responses } = emulator.control.world()
    const asked = responses.slice(0, 1000).filter(({ message }) => message === id)
    expect(asked).toMatchObject([{ document: document.id, form: null, form_name: null, packet: null }])
    const { answers, e_signatures } = emulator.control.staff().answer(asked[0]!.id)
    expect(answers.length + e_signatures.length).toBeGreaterThan(0)
  })

  it.each([
    [['form', 'document']],
    [['form', 'packet']],
    [['document', 'packet']],
    [['form', 'document', 'packet']],
  ])(
    'about a %j requests a response to each, and those of a packet are one packet response',
    async (about) => {
      const [document] = await caller.rows('/v2/documents')
      const [packet] = await caller.rows('/v2/packets')
      const ids: Loose = { form: forms[1].id, document: document.id, packet: packet.id }
      const asked = Object.fromEntries(['form', 'document', 'packet'].map((name) => [name, null]))
      const { id } = await made({
        ...asked,
        ...Object.fromEntries(about.map((name) => [name, ids[name]])),
        scheduled_at: null,
      })
      await processed(id)
      const { responses, packetResponses } = emulator.control.world()
      const requested = responses.slice(0, 1000).filter(({ message }) => message === id)
      const alone = { ...asked, packet_response: null }
      const whole = packetResponses
        .slice(0, 1000)
        .filter(({ id: each }) => requested.some(({ packet_response }) => packet_response === each))
      const members = packet.forms.map((form: Loose) => ({
        ...{ ...asked, form: form.id, packet: packet.id, packet_response: whole[0]?.id },
      }))
      expect(
        requested.map(({ form, document, packet, packet_response }) => ({
          ...{ form, document, packet, packet_response },
        })),
      ).toEqual([
        ...(about.includes('form') ? [{ ...alone, form: ids.form }] : []),
        ...(about.includes('document') ? [{ ...alone, document: ids.document }] : []),
        ...(about.includes('packet') ? members : []),
      ])
      const inPacket = requested.filter((each) => each.packet !== null).map((each) => each.id)
      expect(whole.map(({ packet, responses }) => [packet, responses])).toEqual(
        about.includes('packet') ? [[packet.id, inPacket]] : [],
      )
    },
  )

  it('is not changed to a way of delivery for which there is no address', async () => {
    const { id: silent } = await person({ phone_number: null })
    const message = await made({ patient: silent })
    expect(await put(message.id, { preferred_delivery_method: 'sms' })).toMatchObject(REFUSED)
    expect(await read(message.id)).toEqual(message)
  })

  it('about another form has the content of that form, and always refers to something', async () => {
    const { id, content, updated_at } = await made()
    expect(content).toContain(forms[0].name)
    const { body } = await put(id, { form: forms[1].id })
    expect(body.content).toContain(forms[1].name)
    expect(body.updated_at > updated_at).toBe(true)
    expect(body.scheduled_at).toBe(LATER)
    expect(await put(id, { form: null })).toMatchObject(REFUSED)
    expect(await put(id, { patient: null })).toMatchObject(REFUSED)
    expect(await read(id)).toEqual(body)
  })
})

describe('a schedule', () => {
  it('is changed by PATCH, and a message that is not scheduled has none', async () => {
    const { id } = await made()
    const other = '2098-01-02T09:00:00Z'
    expect((await patch(id, { scheduled_at: other })).body).toMatchObject({
      status: 'scheduled',
      scheduled_at: other,
    })
    expect(await patch(id, { status: 'sent' })).toMatchObject(REFUSED)
    expect(await patch(id, {})).toMatchObject(REFUSED)
    expect((await read(id)).scheduled_at).toBe(other)
    const atOnce = await made({ scheduled_at: null })
    expect(await patch(atOnce.id, { status: 'cancelled' })).toMatchObject(REFUSED)
    expect((await processed(atOnce.id)).status).toBe('sent')
  })

  it('that is cancelled and moved at once is cancelled', async () => {
    const { id, updated_at } = await made()
    const { body } = await patch(id, { status: 'cancelled', scheduled_at: '2098-01-02T09:00:00Z' })
    expect(body.status).toBe('cancelled')
    expect(body.updated_at > updated_at).toBe(true)
  })
})

describe('a message whose time has come', () => {
  it('is stamped when it is sent, and when it fails', async () => {
    const sent = await made({ scheduled_at: null })
    const after = await processed(sent.id)
    expect(after).toMatchObject({ status: 'sent', sent_at: after.updated_at })
    expect(after.updated_at > sent.updated_at).toBe(true)
    const failing = await made({ scheduled_at: null, target_email: 'a@b.invalid' })
    const failed = await processed(failing.id)
    expect(failed).toMatchObject({ status: 'failed', sent_at: null })
    expect(failed.updated_at > failing.updated_at).toBe(true)
  })

  it('fails if its patient is gone, and requests nothing', async () => {
    const { id: gone } = await person({})
    const { id } = await made({ patient: gone, scheduled_at: null })
    const { size } = emulator.control.world().responses
    emulator.control.deletePatient(gone)
    expect(await processed(id)).toMatchObject({ status: 'failed', patient: null })
    expect(emulator.control.world().responses.size).toBe(size)
  })

  it('is sent by SMS whatever its e-mail address is', async () => {
    const { id } = await made({
      ...{ preferred_delivery_method: 'sms', target_email: 'a@b.invalid', scheduled_at: null },
    })
    expect(await processed(id)).toMatchObject({ status: 'sent', target_email: 'a@b.invalid' })
  })
})

describe('the list of messages', () => {
  it.each([
    ['document', (one: Loose) => one.document?.id],
    ['message_type', (one: Loose) => one.message_type],
    ['target_email', (one: Loose) => one.target_email],
    ['target_phone_number', (one: Loose) => one.target_phone_number],
    ['delivery_method', (one: Loose) => one.preferred_delivery_method],
  ])('is filtered by %s', async (name, fieldOf) => {
    await made({ message_type: 'reminder' })
    const all = await caller.rows('/v2/messages?page_size=1000')
    const wanted = all.map(fieldOf).findLast((value) => (value ?? null) !== null)
    const rows = await caller.rows(`/v2/messages?page_size=7&${name}=${encodeURIComponent(wanted)}`)
    expect(rows).toEqual(all.filter((one) => fieldOf(one) === wanted))
    expect(rows.length).toBeLessThan(all.length)
  })

  it('is filtered by an id in capitals too', async () => {
    const query = (id: string) => caller.rows(`/v2/messages?patient=${id}`)
    const rows = await query(patient.id)
    expect(rows.length).toBeGreaterThan(0)
    expect(await query(patient.id.toUpperCase())).toEqual(rows)
  })
})
