/**
 * Alternative notations of forms, packets, documents, messages and events. Signatures cover the bytes that are sent.
 *
 * Invariant: a shape rewrites an answer after its handler; the records of the world do not change.
 */
import type { JsonRecord } from '../http/answer.ts'
import { groupBy, type ShapePart, without, withQuestions } from './shape.ts'

export const FORMS = {
  'question-type-string': {
    matter: 'question-type',
    summary: 'question_type is a bare string',
    record: (record) =>
      withQuestions(record, (question) => ({
        ...question,
        question_type: (question.question_type as JsonRecord).question_type,
      })),
  },
  'bare-choices': {
    matter: 'choices',
    summary: 'choices are bare strings',
    record: (record) =>
      withQuestions(record, (question) => ({
        ...question,
        choices: (question.choices as JsonRecord[]).map(({ text_value }) => text_value),
      })),
  },
  'nested-questions': {
    matter: 'questions',
    summary: 'questions are in pages[].sections[].rows[].questions[]',
    record: (record) =>
      Array.isArray(record.questions)
        ? { ...without(record, 'questions'), pages: nested(record.questions) }
        : record,
  },
  'summary-lists': {
    matter: 'questions',
    summary: 'list entries have no questions, forms or input fields; fetch each by id',
    record: (record, { inList }) => (inList ? without(record, 'questions', 'forms', 'input_fields') : record),
  },
  'forms-as-ids': {
    matter: 'packet-forms',
    summary: 'the forms of a packet are ids',
    record: (record) =>
      Array.isArray(record.forms)
        ? { ...record, forms: record.forms.map(({ id }: JsonRecord) => id) }
        : record,
  },
  'nested-forms': {
    matter: 'packet-forms',
    summary: 'the forms of a packet are whole, with their questions',
    flags: ['nested-forms'],
  },
  'input-fields-object': {
    matter: 'input-fields',
    summary: 'input_fields is an object keyed by name',
    record: (record) =>
      Array.isArray(record.input_fields)
        ? {
            ...record,
            input_fields: Object.fromEntries(
              record.input_fields.map((field: JsonRecord) => [field.name, without(field, 'name')]),
            ),
          }
        : record,
  },
  'input-fields-null': {
    matter: 'input-fields',
    summary: 'input_fields is null',
    record: (record) => ('input_fields' in record ? { ...record, input_fields: null } : record),
  },
  'input-fields-absent': {
    matter: 'input-fields',
    summary: 'input_fields is absent whatever version is requested',
    record: (record) => without(record, 'input_fields'),
  },
} satisfies Record<string, ShapePart>

function nested(questions: readonly JsonRecord[]): unknown[] {
  const group = (items: readonly JsonRecord[], name: string) =>
    [...groupBy(items, (item) => Number(item[name])).entries()].toSorted(([a], [b]) => a - b)
  return group(questions, 'page').map(([page, inPage]) => ({
    number: page,
    sections: group(inPage, 'section').map(([section, inSection]) => ({
      number: section,
      rows: group(inSection, 'row').map(([row, inRow]) => ({ number: row, questions: inRow })),
    })),
  }))
}

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

/** Changes the `data` of `deleted` events. */
const onDeletion = (write: (data: JsonRecord) => JsonRecord | null) => (envelope: JsonRecord) =>
  envelope.event_type === 'deleted' ? { ...envelope, data: write(envelope.data as JsonRecord) } : envelope

/** Notations of events and delivery records. */
export const WEBHOOKS = {
  'deleted-id': {
    matter: 'deleted-data',
    summary: 'the data of a `deleted` event is only the id',
    event: onDeletion((data) =>
      Object.fromEntries(Object.entries(data).filter(([name]) => name === 'id' || name === 'uid')),
    ),
  },
  'deleted-empty': {
    matter: 'deleted-data',
    summary: 'the data of a `deleted` event is {}',
    event: onDeletion(() => ({})),
  },
  'deleted-null': {
    matter: 'deleted-data',
    summary: 'the data of a `deleted` event is null',
    event: onDeletion(() => null),
  },
  'event-record-envelope-id': {
    matter: 'event-records',
    summary: 'the id of a webhook event record is that of the envelope, so that attempts share it',
    record: (record, { resource }) =>
      resource === 'events' && typeof record.event_id === 'string'
        ? { ...record, id: record.event_id }
        : record,
  },
} satisfies Record<string, ShapePart>
