/**
 * Reads the body of a message (specification, section 2.2), with the validation of the service.
 *
 * Invariant: the result contains only fields of a message, each of its type, and references in the world's notation. A
 * reference to a missing record is answered 404 as its resource, any other error 400.
 */

import { parse } from 'lossless-json'
import type { MessageFields } from '../../clinic/messages.ts'
import { readStamp } from '../../clock.ts'
import { type Failure, failure, NOT_FOUND } from '../answer.ts'
import type { Call } from '../call.ts'
import { readEmail } from './patient-body.ts'

type Fields = Partial<{ -readonly [K in keyof MessageFields]: MessageFields[K] }>

const REFERENCES = { patient: 'patients', form: 'forms', packet: 'packets', document: 'documents' } as const
/** Accepted names for the recipient of an SMS. */
const PHONES = ['target_phone_number', 'target_phone', 'phone_number'] as const

/** The fields of the body. */
export function readMessageFields(call: Call): Fields | Failure {
  const body = readObject(call.body)
  if (body === undefined) return refused('non_field_errors')
  const fields: Fields = {}
  for (const [name, resource] of Object.entries(REFERENCES) as [keyof typeof REFERENCES, 'forms'][]) {
    if (body[name] === undefined) continue
    const id = referenceOf(body[name])
    if (id === undefined) return refused(name)
    if (id === null) {
      if (name === 'patient') return refused(name)
      fields[name] = null
      continue
    }
    const table = call.world[resource]
    const own = call.shape.id(id, table.ids)
    const found = own === undefined ? undefined : table.get(own)
    if (found === undefined) return failure(404, NOT_FOUND[resource])
    fields[name] = found.id
  }
  const { message_type, preferred_delivery_method: method, target_email, scheduled_at } = body
  if (message_type !== undefined) {
    if (typeof message_type !== 'string' || message_type === '') return refused('message_type')
    fields.message_type = message_type
  }
  if (method !== undefined) {
    if (method !== 'email' && method !== 'sms') return refused('preferred_delivery_method')
    fields.preferred_delivery_method = method
  }
  if (target_email !== undefined) {
    const read = readEmail(target_email)
    if (read === undefined) return refused('target_email')
    fields.target_email = read.value || null
  }
  const phone = PHONES.find((name) => body[name] !== undefined)
  if (phone !== undefined) {
    const value = body[phone]
    if (value !== null && typeof value !== 'string') return refused(phone)
    fields.target_phone_number = value || null
  }
  if (scheduled_at !== undefined) {
    const text = scheduled_at === '' ? null : scheduled_at
    if (text !== null && (typeof text !== 'string' || readStamp(text) === undefined))
      return refused('scheduled_at')
    fields.scheduled_at = text
  }
  return fields
}

/** A new message, or the failure to answer. */
export function readNewMessage(call: Call): MessageFields | Failure {
  const read = readMessageFields(call)
  if ('type' in read) return read
  const { patient, form = null, packet = null, document = null, preferred_delivery_method: method } = read
  if (patient === undefined) return refused('patient')
  if (form === null && packet === null && document === null) return refused('non_field_errors')
  if (method === undefined) return refused('preferred_delivery_method')
  return addressed(call, {
    ...{ patient, form, packet, document },
    message_type: read.message_type ?? 'form_response_request',
    preferred_delivery_method: method,
    target_email: read.target_email ?? null,
    target_phone_number: read.target_phone_number ?? null,
    scheduled_at: read.scheduled_at ?? null,
  })
}

/** The message with its recipient, by default the patient; a failure if there is none. */
export function addressed({ world }: Call, fields: MessageFields): MessageFields | Failure {
  const patient = world.patients.get(fields.patient)
  if (fields.preferred_delivery_method === 'email') {
    const target_email = fields.target_email || patient?.email || null
    return target_email === null ? refused('target_email') : { ...fields, target_email }
  }
  const target_phone_number = fields.target_phone_number || patient?.phone_number || null
  return target_phone_number === null ? refused('target_phone_number') : { ...fields, target_phone_number }
}

export function refused(field: string): Failure {
  return failure(400, 'Validation error.', field)
}

/** The JSON object of a body; undefined if it is not one. */
export function readObject(body: Buffer): Readonly<Record<string, unknown>> | undefined {
  try {
    const text = body.toString('utf8')
    // Ids can be numbers beyond the precision of a double: keep their digits.
    const value = /\d{16}/.test(text) ? parse(text, undefined, numberOf) : JSON.parse(text)
    return isObject(value) ? value : undefined
  } catch {
    return undefined
  }
}

function numberOf(digits: string): number | string {
  const number = Number(digits)
  return /^-?\d+$/.test(digits) && !Number.isSafeInteger(number) ? digits : number
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** Reads an id or an object with one; null if empty, undefined if invalid. */
function referenceOf(value: unknown): string | null | undefined {
  if (value === null || value === '') return null
  const id = isObject(value) ? (value.id ?? value.uid) : value
  return typeof id === 'string' || typeof id === 'number' ? String(id) : undefined
}
