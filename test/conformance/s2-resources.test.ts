/** Section 2 of the specification: resources and their fields. */
import { describe, expect } from 'vitest'
import { type Loose, serviceUnderTest } from '../support/service-under-test.ts'
import { createPatient, inYears, PERSON, postMessage, scheduleMessage } from './support/making.ts'
import {
  DATE,
  expectRefused,
  idOf,
  referenceOf,
  scheduledAtOf,
  some,
  statusOf,
  TIMESTAMP,
  UUID,
} from './support/reading.ts'
import { rule } from './support/rule.ts'

const service = serviceUnderTest()

describe('2.1 patient', () => {
  rule(
    '2.1 "A patient is addressed by its identifier {id}": what is listed is found by it',
    [],
    async (skip) => {
      for (const listed of (await some(service(), '/v2/patients', skip)).slice(0, 5)) {
        const { body } = await service().call('GET', `/v2/patients/${idOf(listed)}`)
        expect(idOf(body)).toBe(idOf(listed))
      }
    },
  )

  rule(
    '2.1 "Fields sent when creating or updating a patient": each comes back as it was sent',
    ['writing'],
    async () => {
      const patient = await createPatient(service())
      expect(patient).toMatchObject(PERSON)
      expect((await service().call('GET', `/v2/patients/${idOf(patient)}`)).body).toMatchObject(PERSON)
    },
  )

  rule('2.1 "date_birth … Date, format YYYY-MM-DD"', [], async (skip) => {
    for (const { date_birth } of await some(service(), '/v2/patients', skip)) {
      if ((date_birth ?? '') !== '') expect(date_birth).toMatch(DATE)
    }
  })

  rule('2.1 "patient_tags … hex color of the form #rrggbb"', [], async (skip) => {
    for (const { patient_tags } of await some(service(), '/v2/patients', skip)) {
      for (const tag of patient_tags ?? []) {
        expect(typeof tag.name).toBe('string')
        expect(tag.color).toMatch(/^#[0-9a-f]{6}$/i)
      }
    }
  })

  rule('2.1 "custom_fields … values are strings"', [], async (skip) => {
    for (const { custom_fields } of await some(service(), '/v2/patients', skip)) {
      for (const value of Object.values(custom_fields ?? {})) {
        if (service().isEmulator) expect(typeof value).toBe('string')
        else expect(typeof value).not.toBe('function')
      }
    }
  })

  rule('2.1 "emergency_contact … (all strings)": one contact, or none', [], async (skip) => {
    for (const { emergency_contact } of await some(service(), '/v2/patients', skip)) {
      for (const value of Object.values(emergency_contact ?? {}))
        expect(['string', 'object']).toContain(typeof value)
    }
  })
})

describe('2.2 message', () => {
  rule('2.2 "id (uid) | string (UUID)"', [], async (skip) => {
    for (const message of await some(service(), '/v2/messages', skip)) expect(idOf(message)).toMatch(UUID)
  })

  rule(
    '2.2 "preferred_delivery_method … Allowed values: email, sms": every message has one of them',
    [],
    async (skip) => {
      for (const message of await some(service(), '/v2/messages', skip)) {
        expect(['email', 'sms']).toContain(message.preferred_delivery_method)
      }
    },
  )

  rule(
    '2.2 "preferred_delivery_method … Required": any other, or none, answers 400',
    ['writing'],
    async () => {
      const patient = idOf(await createPatient(service()))
      for (const preferred_delivery_method of ['fax', '', null, undefined]) {
        expectRefused(service(), await postMessage(service(), { patient, preferred_delivery_method }), 400)
      }
    },
  )

  rule('2.2 rule 1 "at least one of form, packet, document": every message does', [], async (skip) => {
    for (const message of await some(service(), '/v2/messages', skip)) {
      const referred = ['form', 'packet', 'document'].filter(
        (name) => referenceOf(message, name) !== undefined,
      )
      expect(referred.length).toBeGreaterThan(0)
    }
  })

  rule(
    '2.2 rule 1 "at least one of form, packet, document": a message of none answers 400',
    ['writing'],
    async () => {
      const patient = idOf(await createPatient(service()))
      expectRefused(service(), await postMessage(service(), { patient, form: undefined }), 400)
    },
  )

  rule('2.2 rule 2 "When scheduled_at is given the message is not sent at once"', ['writing'], async () => {
    const scheduled_at = inYears(10)
    const message = await scheduleMessage(service(), { scheduled_at })
    expect(Date.parse(scheduledAtOf(message) ?? '')).toBe(Date.parse(scheduled_at))
    expect(statusOf(message)).not.toMatch(/sent|delivered|failed/)
  })

  rule('2.2 rule 3 "includes the form, packet, patient and delivery status"', [], async (skip) => {
    for (const listed of (await some(service(), '/v2/messages', skip)).slice(0, 5)) {
      const { body } = await service().call('GET', `/v2/messages/${idOf(listed)}`)
      expect(statusOf(body)).toMatch(/\S/)
      for (const name of ['form', 'packet', 'patient']) {
        if (service().isEmulator) expect(body).toHaveProperty(name)
      }
      expect(referenceOf(body, 'patient')).toMatch(/\S/)
    }
  })

  rule('2.2 "scheduled_at … ISO 8601 UTC timestamp"', [], async (skip) => {
    for (const message of await some(service(), '/v2/messages', skip)) {
      const scheduled = scheduledAtOf(message)
      if (scheduled !== undefined) expect(scheduled).toMatch(TIMESTAMP)
    }
  })
})

/** Questions of a form, however they are nested. */
function questionsOf(part: Loose): Loose[] {
  if (Array.isArray(part?.questions)) return part.questions
  const nested = part?.pages ?? part?.sections ?? part?.rows ?? []
  return nested.flatMap((inner: Loose) => questionsOf(inner))
}

describe('2.3 form, packet, document', () => {
  rule('2.3 "form | id, name, text, enabled, created_at, updated_at, questions"', [], async (skip) => {
    for (const listed of (await some(service(), '/v2/forms', skip)).slice(0, 5)) {
      const { body: form } = await service().call('GET', `/v2/forms/${idOf(listed)}`)
      expect(idOf(form)).toBe(idOf(listed))
      expect([typeof form.name, typeof form.enabled]).toEqual(['string', 'boolean'])
      for (const time of [form.created_at, form.updated_at]) {
        if (service().isEmulator || time !== undefined) expect(time).toMatch(TIMESTAMP)
      }
    }
  })

  rule('2.3 "question | id, question_type (object), text, help_text, order (integer)"', [], async (skip) => {
    for (const listed of (await some(service(), '/v2/forms', skip)).slice(0, 5)) {
      const { body: form } = await service().call('GET', `/v2/forms/${idOf(listed)}`)
      for (const question of questionsOf(form)) {
        expect(idOf(question)).toMatch(/\S/)
        expect(typeof question.text).toBe('string')
        expect(Number.isInteger(question.order)).toBe(true)
        const type = question.question_type?.question_type ?? question.question_type
        expect(type).toMatch(/^\w+$/)
      }
    }
  })

  rule('2.3 "packet | id, name, text, forms (array of form)"', [], async (skip) => {
    const forms: Loose[] = []
    for (const listed of (await some(service(), '/v2/packets', skip)).slice(0, 5)) {
      const { body: packet } = await service().call('GET', `/v2/packets/${idOf(listed)}`)
      expect(typeof packet.name).toBe('string')
      expect(Array.isArray(packet.forms)).toBe(true)
      forms.push(...packet.forms)
    }
    for (const form of forms.slice(0, 5)) {
      const id = typeof form === 'object' ? idOf(form) : String(form)
      expect((await service().call('GET', `/v2/forms/${id}`)).status).toBe(200)
    }
  })
})

describe('2.4 response', () => {
  rule('2.4 "A response is identified by a UUID"', [], async (skip) => {
    for (const response of await some(service(), '/v2/responses', skip)) expect(idOf(response)).toMatch(UUID)
  })

  rule('2.4 "A response has a boolean is_skipped"', [], async (skip) => {
    const [listed] = await some(service(), '/v2/responses', skip)
    const { body } = await service().call('GET', `/v2/responses/${idOf(listed)}`)
    expect(typeof body.is_skipped).toBe('boolean')
  })
})
