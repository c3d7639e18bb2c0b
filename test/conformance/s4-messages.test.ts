/** Section 4.2 of the specification: messages. Their states are in s3-states.test.ts. */
import { describe, expect } from 'vitest'
import { type Loose, serviceUnderTest } from '../support/service-under-test.ts'
import { inSeconds, until } from './support/control.ts'
import { createPatient, firstId, PERSON, postMessage, scheduleMessage } from './support/making.ts'
import { expectRefused, idOf, NOBODY, referenceOf, some, statusOf, walk } from './support/reading.ts'
import { rule } from './support/rule.ts'
import { send } from './support/sending.ts'

const service = serviceUnderTest()

describe('GET /v2/messages', () => {
  rule('4.2 "paginated list of messages": each once', [], async () => {
    const ids = (await walk(service(), '/v2/messages?page_size=20', 5)).rows.map(idOf)
    expect(new Set(ids).size).toBe(ids.length)
  })

  const FILTERS: readonly (readonly [string, string, (message: Loose) => string | undefined])[] = [
    ['patient', 'patient', (message) => referenceOf(message, 'patient')],
    ['form', 'form', (message) => referenceOf(message, 'form')],
    ['packet', 'packet', (message) => referenceOf(message, 'packet')],
    ['delivery method', 'preferred_delivery_method', (message) => message.preferred_delivery_method],
    ['status', 'status', statusOf],
  ]
  for (const [title, name, read] of FILTERS) {
    rule(
      `4.2 "optional filters: … ${title}": what is listed satisfies it, and all that does is listed`,
      [],
      async (skip) => {
        const all = service().isEmulator
          ? (await walk(service(), '/v2/messages?page_size=1000')).rows
          : await some(service(), '/v2/messages', skip)
        const value = all.map(read).find((one) => one !== undefined)
        if (value === undefined) return skip(`no message has a ${title}`)
        const { rows } = await walk(service(), `/v2/messages?${name}=${value}`)
        // The name of the filter by delivery method is not shown; a service may ignore an unknown one.
        if (!service().isEmulator && title === 'delivery method') return
        expect(new Set(rows.map(read))).toEqual(new Set([value]))
        if (!service().isEmulator) return
        const expected = all.filter((message) => read(message) === value).map(idOf)
        expect(rows.map(idOf)).toEqual(expected)
        expect(expected.length).toBeLessThan(all.length)
      },
    )
  }
})

describe('POST /v2/messages', () => {
  rule('4.2 "the created message": it refers to what it was sent for', ['writing'], async () => {
    const patient = idOf(await createPatient(service()))
    for (const name of ['form', 'packet', 'document']) {
      const id = await firstId(service(), `/v2/${name}s`)
      const message = await scheduleMessage(service(), {
        patient,
        [name]: id,
        target_email: 'to@example.com',
      })
      expect([referenceOf(message, name), referenceOf(message, 'patient')]).toEqual([id, patient])
      expect(message).toMatchObject({
        message_type: 'form_response_request',
        preferred_delivery_method: 'email',
        target_email: 'to@example.com',
      })
      expect((await service().call('GET', `/v2/messages/${idOf(message)}`)).body).toEqual(message)
    }
  })

  rule('4.2 "message with form, packet, patient, delivery status and content"', [], async (skip) => {
    const [listed] = await some(service(), '/v2/messages', skip)
    const { body } = await service().call('GET', `/v2/messages/${idOf(listed)}`)
    for (const name of ['form', 'packet', 'patient', 'content']) {
      if (service().isEmulator) expect(body).toHaveProperty(name)
    }
    expect(referenceOf(body, 'patient')).toMatch(/\S/)
  })

  rule(
    '7 "<Resource> not found." naming the patient, form, packet or document that is not',
    ['an assumption'],
    async () => {
      const patient = idOf(await createPatient(service()))
      for (const [fields, detail] of [
        [{ patient: NOBODY }, 'Patient not found.'],
        [{ patient, form: NOBODY }, 'Form not found.'],
        [{ patient, packet: NOBODY }, 'Packet not found.'],
        [{ patient, document: NOBODY }, 'Document not found.'],
      ] as const) {
        expectRefused(service(), await postMessage(service(), fields), 404, detail)
      }
    },
  )

  rule(
    '4.2 "target_email": without it, the patient’s own; with neither, 400',
    ['an assumption'],
    async () => {
      const known = idOf(await createPatient(service()))
      expect(await scheduleMessage(service(), { patient: known })).toMatchObject({
        target_email: PERSON.email,
      })
      const sms = { patient: known, preferred_delivery_method: 'sms' }
      expect(await scheduleMessage(service(), sms)).toMatchObject({
        target_phone_number: PERSON.phone_number,
      })
      const unknown = idOf(await createPatient(service(), { email: null, phone_number: null }))
      for (const preferred_delivery_method of ['email', 'sms']) {
        const reply = await postMessage(service(), { patient: unknown, preferred_delivery_method })
        expectRefused(service(), reply, 400, 'Validation error.')
      }
    },
  )

  rule('2.2 "scheduled_at … ISO 8601": what is no time answers 400', ['writing'], async () => {
    const patient = idOf(await createPatient(service()))
    for (const scheduled_at of ['tomorrow', '2030-13-01T00:00:00Z', 7]) {
      expectRefused(service(), await postMessage(service(), { patient, scheduled_at }), 400)
    }
  })

  rule(
    '1 "A message is sent at once or at a scheduled time": at once also when that time is past',
    ['control'],
    async () => {
      const form = await firstId(service(), '/v2/forms')
      const { message, responses } = await send(service(), { form })
      expect(message).toMatchObject({ status: 'sent', form: { id: form } })
      expect(message.sent_at).not.toBeNull()
      expect(responses).toMatchObject([{ form_id: form, is_submitted: false }])
      const late = await send(service(), { form, scheduled_at: await inSeconds(service(), -60) })
      expect(late.message.status).toBe('sent')
    },
  )

  rule('2.2 "document": sending one asks for one response', ['control'], async () => {
    const document = await firstId(service(), '/v2/documents')
    const { responses } = await send(service(), { document })
    expect(responses).toMatchObject([{ form_id: null, document: { id: document }, is_submitted: false }])
  })

  rule(
    '3.1: a message that cannot be delivered ends as failed and asks for nothing',
    ['control'],
    async () => {
      const patient = idOf(await createPatient(service()))
      const fields = { patient, scheduled_at: null, target_email: 'nobody@nowhere.invalid' }
      const id = idOf(await scheduleMessage(service(), fields))
      const read = async () => (await service().call('GET', `/v2/messages/${id}`)).body
      const done = await until('processed', read, (one) => statusOf(one) !== 'pending')
      expect(done).toMatchObject({ status: 'failed', sent_at: null })
      const { rows } = await walk(service(), `/v2/responses?patient=${patient}`)
      expect(rows).toEqual([])
    },
  )
})

describe('PUT /v2/messages/{id}', () => {
  rule(
    '2.2 rule 4 "scheduled time, target contact information": what is not named stays',
    ['writing'],
    async () => {
      const { updated_at: _before, ...old } = await scheduleMessage(service(), {
        target_email: 'a@example.com',
      })
      const body = { target_email: 'b@example.com' }
      const reply = await service().call('PUT', `/v2/messages/${idOf(old)}`, { body })
      expect(reply.status).toBeLessThan(300)
      const { updated_at: _after, ...now } = (await service().call('GET', `/v2/messages/${idOf(old)}`)).body
      expect(now).toEqual({ ...old, ...body })
    },
  )

  rule('7 "validation failure": 400, and the message stays as it was', ['writing'], async () => {
    const old = await scheduleMessage(service())
    for (const body of [{ target_email: 'nobody' }, { scheduled_at: 'never' }, '{']) {
      expectRefused(service(), await service().call('PUT', `/v2/messages/${idOf(old)}`, { body }), 400)
    }
    expect((await service().call('GET', `/v2/messages/${idOf(old)}`)).body).toEqual(old)
  })
})

describe('PATCH /v2/messages/{id}/scheduled', () => {
  rule(
    '4.2 "body with status (for example cancelled)": any other value answers 400',
    ['an assumption'],
    async () => {
      const id = idOf(await scheduleMessage(service()))
      for (const body of [{ status: 'sent' }, {}, '{']) {
        const reply = await service().call('PATCH', `/v2/messages/${id}/scheduled`, { body })
        expectRefused(service(), reply, 400)
      }
    },
  )
})
