/**
 * Messages (specification, sections 2.2, 3.1 and 4.2).
 *
 * Invariant: a message that was sent, failed or was cancelled no longer changes: a request to change it is answered 400.
 */
import { cancelMessage, changeMessage, createMessage, isUnsent } from '../../clinic/messages.ts'
import { filtered } from '../../world/find-responses.ts'
import type { Message } from '../../world/records.ts'
import type { Listing } from '../../world/table.ts'
import { type Answer, failure, NOT_FOUND } from '../answer.ts'
import { type Call, pathId, type Route, showingOf } from '../call.ts'
import { listPage } from '../paging.ts'
import { addressed, readMessageFields, readNewMessage, readObject, refused } from './message-body.ts'
import { showMessage } from './show.ts'

const REFERENCES = ['patient', 'form', 'packet', 'document'] as const
const EXACT = [
  'preferred_delivery_method',
  'status',
  'message_type',
  'target_email',
  'target_phone_number',
] as const

async function list(call: Call): Promise<Answer> {
  const showing = showingOf(call)
  const known = [...REFERENCES, ...EXACT, 'delivery_method']
  return listPage(call, 'messages', await matching(call), known, (message) => showMessage(message, showing))
}

async function matching({ world, query, shape }: Call): Promise<Listing<Message>> {
  const tables = {
    patient: world.patients,
    form: world.forms,
    packet: world.packets,
    document: world.documents,
  }
  const references = REFERENCES.flatMap((name) => {
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
