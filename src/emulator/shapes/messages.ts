/** Alternative notations of messages. */
import type { JsonRecord } from '../http/answer.ts'
import { type ShapePart, without } from './shape.ts'

/** A shape of messages only. */
const messages = (
  matter: string,
  summary: string,
  change: (message: JsonRecord) => JsonRecord,
): ShapePart => ({
  matter,
  summary,
  record: (record, { resource }) => (resource === 'messages' ? change(record) : record),
})

const renamed = (from: string, to: string) => (message: JsonRecord) => ({
  ...without(message, from),
  [to]: message[from],
})

const OTHER_STATUSES: Readonly<Record<string, string>> = {
  sent: 'delivered',
  failed: 'bounced',
  pending: 'queued',
  cancelled: 'canceled',
}

export const MESSAGES = {
  'other-statuses': messages(
    'message-status-words',
    'messages are queued, delivered, bounced and canceled',
    (message) => ({ ...message, status: OTHER_STATUSES[String(message.status)] ?? message.status }),
  ),
  'delivery-status': messages(
    'message-status',
    'the status of a message is named delivery_status',
    renamed('status', 'delivery_status'),
  ),
  'status-object': messages('message-status', 'the status of a message is an object', (message) => ({
    ...message,
    status: { status: message.status, changed_at: message.updated_at ?? null },
  })),
  'nested-scheduled': messages(
    'message-schedule',
    'the time of a message is in an object with its own id',
    ({ scheduled_at, ...message }) => ({
      ...message,
      scheduled: scheduled_at === null ? null : { id: reversed(String(message.id)), scheduled_at },
    }),
  ),
  'target-phone': messages(
    'message-phone',
    'the recipient of an SMS is named target_phone',
    renamed('target_phone_number', 'target_phone'),
  ),
  'phone-number': messages(
    'message-phone',
    'the recipient of an SMS is named phone_number',
    renamed('target_phone_number', 'phone_number'),
  ),
} satisfies Record<string, ShapePart>

/** Derives another id. */
function reversed(id: string): string {
  const hex = [...id.replaceAll('-', '')].reverse().join('')
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join('-')
}
