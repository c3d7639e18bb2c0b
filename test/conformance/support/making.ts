/**
 * Records that a test needs, created through the API.
 *
 * Invariant: created records are removed or cancelled when their test ends, and nothing is addressed to a person: e-mail
 * goes to domains reserved for examples, and on a real service only in ten years.
 */
import { expect, onTestFinished } from 'vitest'
import type { Loose, Reply, ServiceUnderTest } from '../../support/service-under-test.ts'
import { expectDone, idOf, rowsOf } from './reading.ts'
import { CannotTell } from './rule.ts'

export const PERSON = {
  first_name: 'Conformance',
  last_name: 'Example',
  email: 'conformance@example.com',
  phone_number: '5550100',
  date_birth: '1980-02-29',
  sex_at_birth: 'Female',
  address: '1 Example Road',
  address2: 'Flat 2',
  city: 'Exampleton',
  state: 'EX',
  zipcode: '00501',
  emergency_contact: {
    first_name: 'Near',
    last_name: 'Example',
    phone_number: '5550101',
    relationship: 'Sister',
    address: '2 Example Road',
    address2: '',
    city: 'Exampleton',
    state: 'EX',
    zipcode: '00501',
  },
  patient_tags: [{ name: 'conformance', color: '#0a0b0c' }],
  custom_fields: { suite: 'conformance' },
}

/** Some services answer a create without the record, which can then neither be read nor removed. */
function createdId(service: ServiceUnderTest, { body }: Reply): string {
  if (body === undefined && !service.isEmulator)
    throw new CannotTell('a creation is answered without the record')
  return idOf(body)
}

export async function createPatient(service: ServiceUnderTest, fields: Loose = {}): Promise<Loose> {
  const reply = await service.call('POST', '/v2/patients', { body: { ...PERSON, ...fields } })
  expectDone(service, reply, 201)
  const id = createdId(service, reply)
  onTestFinished(async () => {
    await service.call('DELETE', `/v2/patients/${id}`)
  })
  return reply.body
}

export const inYears = (years: number): string =>
  new Date(Date.now() + years * 31_536_000_000).toISOString().replace(/\.\d+Z$/, 'Z')

/** Posts a message that is due in ten years, about the first form by default. */
export async function postMessage(service: ServiceUnderTest, fields: Loose = {}): Promise<Reply> {
  const about = ['form', 'packet', 'document'].some((name) => name in fields)
  const body = {
    message_type: 'form_response_request',
    preferred_delivery_method: 'email',
    scheduled_at: inYears(10),
    ...(about ? {} : { form: await firstId(service, '/v2/forms') }),
    ...fields,
  }
  const reply = await service.call('POST', '/v2/messages', { body })
  if (reply.status < 300) {
    const id = createdId(service, reply)
    onTestFinished(async () => {
      await service.call('DELETE', `/v2/messages/${id}`)
    })
  }
  return reply
}

/** A message by `postMessage`, for a patient of its own. */
export async function scheduleMessage(service: ServiceUnderTest, fields: Loose = {}): Promise<Loose> {
  const patient = 'patient' in fields ? fields.patient : idOf(await createPatient(service))
  const reply = await postMessage(service, { patient, ...fields })
  expectDone(service, reply, 201)
  return reply.body
}

export async function firstId(service: ServiceUnderTest, path: string): Promise<string> {
  const [first] = rowsOf(await service.call('GET', path))
  if (first === undefined) throw new Error(`the team has nothing at ${path}`)
  return idOf(first)
}

export async function subscribe(
  service: ServiceUnderTest,
  receiver: { readonly url: string },
  fields: Loose = {},
): Promise<{ id: string; secret: string }> {
  const reply = await service.call('POST', '/v2/webhooks', { body: { target_url: receiver.url, ...fields } })
  expectDone(service, reply, 201)
  const id = createdId(service, reply)
  onTestFinished(async () => {
    await service.call('DELETE', `/v2/webhooks/${id}`)
  })
  expect(reply.body.signature_secret).toMatch(/\S/)
  return { id, secret: reply.body.signature_secret }
}
