/** Alternative notations of events and delivery records. Signatures cover the bytes that are sent. */
import type { JsonRecord } from '../http/answer.ts'
import type { ShapePart } from './shape.ts'

/** Changes the `data` of `deleted` events. */
const onDeletion = (write: (data: JsonRecord) => JsonRecord | null) => (envelope: JsonRecord) =>
  envelope.event_type === 'deleted' ? { ...envelope, data: write(envelope.data as JsonRecord) } : envelope

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
