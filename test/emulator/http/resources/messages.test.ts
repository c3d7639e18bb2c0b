import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { type Emulator, startEmulator } from '../../../../src/emulator/server.ts'
import { type Caller, callerOf, type Loose } from '../../caller.ts'

let emulator: Emulator
let caller: Caller
let patient: Loose
let form: Loose
let packet: Loose

beforeEach(async () => {
  emulator = await startEmulator({ port: 0, patients: 30, responses: 60 })
  caller = callerOf(emulator)
  patient = (
    await caller.send('POST', '/v2/patients', {
      first_name: 'A',
      last_name: 'B',
      email: 'a@example.com',
      phone_number: '5550100',
    })
  ).body
  form = (await caller.rows('/v2/forms'))[0]
  packet = (await caller.rows('/v2/packets'))[0]
})
afterEach(() => emulator.close())

const email = (more: object = {}) => ({
  patient: patient.id,
  form: form.id,
  message_type: 'form_response_request',
  preferred_delivery_method: 'email',
  ...more,
})
const REFUSED = { status: 400, body: { detail: 'Validation error.' } }
const LATER = '2099-01-02T09:00:00.000001Z'
const send = async (more: object = {}) => (await caller.send('POST', '/v2/messages', email(more))).body
const read = async (id: string) => (await caller.get(`/v2/messages/${id}`)).body

describe('a message without a time', () => {
  it('is pending when it is created, to the patient’s own address, and sent within a second', async () => {
    const { status, body } = await caller.send('POST', '/v2/messages', email())
    expect(status).toBe(201)
    expect(body).toMatchObject({
      status: 'pending',
      patient: { id: patient.id },
      form: { id: form.id, name: form.name },
      packet: null,
      document: null,
      target_email: 'a@example.com',
      scheduled_at: null,
      sent_at: null,
    })
    await expect.poll(async () => (await read(body.id)).status).toBe('sent')
    expect(Date.parse((await read(body.id)).sent_at)).toBeGreaterThanOrEqual(Date.parse(body.created_at))
  })

  it('requests one open response of its form, which exists once it is sent, not before', async () => {
    await send()
    expect((await caller.get(`/v2/responses?patient=${patient.id}`)).body.count).toBe(0)
    emulator.control.advance(1000)
    await expect
      .poll(async () => (await caller.get(`/v2/responses?patient=${patient.id}`)).body.results)
      .toEqual([
        expect.objectContaining({
          form_id: form.id,
          form_name: form.name,
          is_submitted: false,
          submitted_at: null,
          answers: [],
        }),
      ])
  })

  it('requests one open response of each form of a packet, in its order', async () => {
    await send({ form: null, packet: packet.id })
    emulator.control.advance(1000)
    const asked = () => caller.rows(`/v2/responses?patient=${patient.id}&packet=${packet.id}`)
    await expect
      .poll(async () => (await asked()).map((one) => one.form_id))
      .toEqual(packet.forms.map(({ id }: Loose) => id))
  })

  it('to a mailbox that cannot exist fails, and requests nothing', async () => {
    const { id } = await send({ target_email: 'a@mail.invalid' })
    emulator.control.advance(1000)
    await expect.poll(async () => (await read(id)).status).toBe('failed')
    expect((await caller.get(`/v2/responses?patient=${patient.id}`)).body.count).toBe(0)
  })
})

describe('a message is refused', () => {
  it.each<[string, () => object]>([
    ['without form, packet and document', () => email({ form: undefined })],
    ['without a patient', () => email({ patient: undefined })],
    ['without a delivery method', () => email({ preferred_delivery_method: undefined })],
    ['with another delivery method', () => email({ preferred_delivery_method: 'fax' })],
    ['with a bad address', () => email({ target_email: 'nobody' })],
    ['with a day for a time', () => email({ scheduled_at: '2099-01-01' })],
    ['with a time that no stamp can hold', () => email({ scheduled_at: '9999-12-31T23:59:59-12:00' })],
    ['with a time before all others', () => email({ scheduled_at: '0000-01-01T00:00:00+14:00' })],
    ['with a time that does not exist', () => email({ scheduled_at: '2099-02-30T10:00:00Z' })],
    ['with a form that is a list', () => email({ form: [form.id] })],
    ['as no object', () => []],
  ])('%s', async (_title, body) => {
    const before = emulator.control.world().messages.size
    const reply = await caller.send('POST', '/v2/messages', body())
    expect({ status: reply.status, body: reply.body }).toEqual(REFUSED)
    expect(emulator.control.world().messages.size).toBe(before)
  })

  it('without a recipient', async () => {
    const { body } = await caller.send('POST', '/v2/patients', { first_name: 'No', last_name: 'Address' })
    const reply = await caller.send('POST', '/v2/messages', email({ patient: body.id }))
    expect({ status: reply.status, body: reply.body }).toEqual(REFUSED)
  })

  it.each([
    ['patient', 'Patient not found.'],
    ['form', 'Form not found.'],
    ['packet', 'Packet not found.'],
    ['document', 'Document not found.'],
  ])('with 404 when its %s is another team’s', async (name, detail) => {
    const other = callerOf(emulator, 0, 1)
    const [foreign] = await other.rows(`/v2/${name}s`)
    const reply = await caller.send('POST', '/v2/messages', email({ [name]: foreign.id }))
    expect({ status: reply.status, body: reply.body }).toEqual({ status: 404, body: { detail } })
  })
})

describe('a scheduled message', () => {
  it('keeps its time to the microsecond, is not sent before it, and is sent then', async () => {
    const at = new Date(Date.now() + 3_600_000).toISOString()
    const { id, status, scheduled_at } = await send({ scheduled_at: at })
    expect(status).toBe('scheduled')
    expect(Date.parse(scheduled_at)).toBe(Date.parse(at))
    expect((await send({ scheduled_at: LATER })).scheduled_at).toBe(LATER)
    emulator.control.advance(3_500_000)
    await new Promise((resolve) => setTimeout(resolve, 50))
    expect((await read(id)).status).toBe('scheduled')
    emulator.control.advance(110_000)
    await expect.poll(async () => (await read(id)).status).toBe('sent')
  })

  it('whose time is past is sent at once', async () => {
    const { id, status } = await send({ scheduled_at: '2020-01-01T00:00:00Z' })
    expect(status).toBe('pending')
    await expect.poll(async () => (await read(id)).status).toBe('sent')
  })

  it('is rescheduled with PUT, and sent at its new time only', async () => {
    const { id } = await send({ scheduled_at: new Date(Date.now() + 60_000).toISOString() })
    const moved = await caller.send('PUT', `/v2/messages/${id}`, {
      scheduled_at: LATER,
      target_email: 'b@example.com',
    })
    expect(moved.body).toMatchObject({
      status: 'scheduled',
      scheduled_at: LATER,
      target_email: 'b@example.com',
    })
    emulator.control.advance(120_000)
    await new Promise((resolve) => setTimeout(resolve, 50))
    expect((await read(id)).status).toBe('scheduled')
  })

  it.each([
    ['DELETE', '', undefined, 204],
    ['PATCH', '/scheduled', { status: 'cancelled' }, 200],
  ])('is cancelled by %s%s, stays readable, and never goes', async (method, tail, body, expected) => {
    const { id } = await send({ scheduled_at: new Date(Date.now() + 60_000).toISOString() })
    expect((await caller.send(method, `/v2/messages/${id}${tail}`, body)).status).toBe(expected)
    emulator.control.advance(120_000)
    await new Promise((resolve) => setTimeout(resolve, 50))
    expect(await read(id)).toMatchObject({ status: 'cancelled', sent_at: null })
    expect((await caller.get(`/v2/responses?patient=${patient.id}`)).body.count).toBe(0)
  })
})

describe('a message that was sent or cancelled', () => {
  it.each([
    ['PUT', '', { scheduled_at: LATER }],
    ['DELETE', '', undefined],
    ['PATCH', '/scheduled', { status: 'cancelled' }],
  ])('is not changed by %s%s', async (method, tail, body) => {
    for (const status of ['sent', 'cancelled', 'failed']) {
      const [message] = await caller.rows(`/v2/messages?status=${status}`)
      const reply = await caller.send(method, `/v2/messages/${message.id}${tail}`, body)
      expect({ status: reply.status, body: reply.body }).toEqual(REFUSED)
      expect(await read(message.id)).toEqual(message)
    }
  })
})

describe('the list of messages', () => {
  it('contains messages of every status from the start', async () => {
    const statuses = (await caller.rows('/v2/messages')).map(({ status }) => status)
    expect(new Set(statuses)).toEqual(new Set(['pending', 'scheduled', 'sent', 'failed', 'cancelled']))
  })

  it.each(['patient', 'form', 'packet', 'preferred_delivery_method', 'status'])(
    'is filtered by %s',
    async (name) => {
      const all = await caller.rows('/v2/messages')
      const idOf = (value: Loose) => value?.id ?? value
      const wanted = idOf(all.map((one) => one[name]).find((value) => value !== null))
      const rows = await caller.rows(`/v2/messages?page_size=3&${name}=${wanted}`)
      expect(rows).toEqual(all.filter((one) => idOf(one[name]) === wanted))
      expect(rows.length).toBeGreaterThan(0)
    },
  )

  it('is empty for an unknown id, also of what many messages are not about', async () => {
    for (const name of ['patient', 'form', 'packet', 'document'])
      for (const id of ['nobody', '', '00000000-0000-4000-8000-000000000000'])
        expect([name, id, (await caller.get(`/v2/messages?${name}=${id}`)).body.count]).toEqual([name, id, 0])
  })

  it('satisfies every filter where there are several', async () => {
    const all = await caller.rows('/v2/messages?page_size=1000')
    for (const [status, method] of [
      ...['sent', 'cancelled'].flatMap((one) => [[one, 'sms'] as const, [one, 'email'] as const]),
    ]) {
      const both = all.filter((one) => one.status === status && one.preferred_delivery_method === method)
      const { id } = (both[0] ?? all[0]).patient
      for (const name of ['delivery_method', 'preferred_delivery_method']) {
        const query = `/v2/messages?page_size=2&status=${status}&${name}=${method}`
        expect(await caller.rows(query)).toEqual(both)
        expect(await caller.rows(`${query}&patient=${id}`)).toEqual(
          both.filter(({ patient }) => patient.id === id),
        )
      }
      expect(
        (await caller.get(`/v2/messages?delivery_method=${method}&preferred_delivery_method=x`)).body.count,
      ).toBe(0)
    }
  })

  it('does not have another team’s messages, and neither does a GET by id', async () => {
    const [foreign] = await callerOf(emulator, 0, 1).rows('/v2/messages')
    const reply = await caller.get(`/v2/messages/${foreign.id}`)
    expect({ status: reply.status, body: reply.body }).toEqual({
      status: 404,
      body: { detail: 'Message not found.' },
    })
  })
})
