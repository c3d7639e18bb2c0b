/**
 * Messages (specification, sections 2.2, 3.1 and 4.2).
 *
 * Invariant: a message that was sent, failed or was cancelled no longer changes: such a request is answered 400. A
 * reference to a missing record is answered 404 as its resource.
 */
import { parse } from 'lossless-json'
import { readStamp } from '../../clock.ts'
import {
  cancelMessage,
  changeMessage,
  createMessage,
  isUnsent,
  type MessageFields,
} from '../../world/clinic-messages.ts'
import { filtered } from '../../world/find-responses.ts'
import type { Message } from '../../world/records.ts'
import type { Listing } from '../../world/table.ts'
import { type Answer, type Failure, failure, NOT_FOUND } from '../answer.ts'
import { type Call, pathId, type Route, showingOf } from '../call.ts'
import { listPage } from '../paging.ts'
import { readEmail } from './patient-body.ts'
import { showMessage } from './show.ts'

type Fields = Partial<{ -readonly [K in keyof MessageFields]: MessageFields[K] }>

const REFERENCES = { patient: 'patients', form: 'forms', packet: 'packets', document: 'documents' } as const
/** Accepted names for the recipient of an SMS. */
const PHONES = ['target_phone_number', 'target_phone', 'phone_number'] as const

/** The fields of the body. */
function readMessageFields(call: Call): Fields | Failure {
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
    const worldId = call.shape.id(id, table.ids)
    const found = worldId === undefined ? undefined : table.get(worldId)
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
function readNewMessage(call: Call): MessageFields | Failure {
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
function addressed({ world }: Call, fields: MessageFields): MessageFields | Failure {
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

const FILTERED_REFERENCES = Object.keys(REFERENCES) as readonly (keyof typeof REFERENCES)[]
const EXACT = [
  'preferred_delivery_method',
  'status',
  'message_type',
  'target_email',
  'target_phone_number',
] as const

async function list(call: Call): Promise<Answer> {
  const showing = showingOf(call)
  const known = [...FILTERED_REFERENCES, ...EXACT, 'delivery_method']
  return listPage(call, 'messages', await matching(call), known, (message) => showMessage(message, showing))
}

async function matching({ world, query, shape }: Call): Promise<Listing<Message>> {
  const tables = {
    patient: world.patients,
    form: world.forms,
    packet: world.packets,
    document: world.documents,
  }
  const references = FILTERED_REFERENCES.flatMap((name) => {
    const text = query.get(name)
    return text === null ? [] : [{ name, id: shape.id(text, tables[name].ids)?.toLowerCase() }]
  })
  const exact = EXACT.flatMap((name) => (query.has(name) ? [{ name, text: query.get(name) }] : []))
  const method = query.get('delivery_method')
  if (method !== null) exact.push({ name: 'preferred_delivery_method', text: method })
  if (references.length === 0 && exact.length === 0) return world.messages
  return filtered(
    world.messages,
    (message) =>
      references.every(({ name, id }) => id !== undefined && message[name] === id) &&
      exact.every(({ name, text }) => message[name] === text),
  )
}

function create(call: Call): Answer {
  const fields = readNewMessage(call)
  if ('type' in fields) return fields
  return shown(call, createMessage(call.world, fields), 201)
}

/** PUT changes only the fields of the body: the specification says "changed fields". */
function change(call: Call): Answer {
  const message = found(call)
  if (message === undefined) return failure(404, NOT_FOUND.messages)
  if (!isUnsent(message)) return tooLate()
  const read = readMessageFields(call)
  if ('type' in read) return read
  const merged = { ...message, ...read }
  if (merged.form === null && merged.packet === null && merged.document === null)
    return refused('non_field_errors')
  const fields = addressed(call, merged)
  if ('type' in fields) return fields
  const { target_email, target_phone_number } = fields
  const changed = changeMessage(call.world, message.id, { ...read, target_email, target_phone_number })
  return changed === undefined ? tooLate() : shown(call, changed)
}

function cancel(call: Call): Answer {
  const message = found(call)
  if (message === undefined) return failure(404, NOT_FOUND.messages)
  if (cancelMessage(call.world, message.id) === undefined) return tooLate()
  return { type: 'empty', status: 204 }
}

/** `PATCH …/scheduled`: cancels or reschedules a scheduled message. */
function changeScheduled(call: Call): Answer {
  const message = found(call)
  if (message === undefined) return failure(404, NOT_FOUND.messages)
  const status = readObject(call.body)?.status
  if (status !== undefined && status !== 'cancelled') return refused('status')
  if (message.status !== 'scheduled') return tooLate()
  const read = readMessageFields(call)
  if ('type' in read) return read
  if (status === undefined && read.scheduled_at === undefined) return refused('status')
  if (status === 'cancelled') return shown(call, cancelMessage(call.world, message.id)!)
  return shown(call, changeMessage(call.world, message.id, { scheduled_at: read.scheduled_at! })!)
}

function tooLate(): Answer {
  return refused('status')
}

function found(call: Call): Message | undefined {
  const id = pathId(call, call.world.messages.ids)
  return id === undefined ? undefined : call.world.messages.get(id)
}

function shown(call: Call, message: Message, status: 200 | 201 = 200): Answer {
  return { type: 'record', status, resource: 'messages', record: showMessage(message, showingOf(call)) }
}

export const MESSAGE_ROUTES: readonly Route[] = [
  { path: '/v2/messages', methods: { GET: list, POST: create } },
  {
    path: '/v2/messages/:id',
    methods: {
      GET: (call) => {
        const message = found(call)
        return message === undefined ? failure(404, NOT_FOUND.messages) : shown(call, message)
      },
      PUT: change,
      DELETE: cancel,
    },
  },
  { path: '/v2/messages/:id/scheduled', methods: { PATCH: changeScheduled } },
]
