/**
 * Messages to patients (specification, section 2.2; status, SMS recipient and schedule are not shown).
 *
 * Invariant: a status is stored as received, whatever its words, from each of the known places.
 */
import type { Problem } from '../core/envelope.ts'
import { isObject, type JsonObject } from '../core/json.ts'
import { type Cell, readCell } from './parts/cell.ts'
import { objectOf } from './parts/parts.ts'
import { type Column, firstOf, reference, type Stream, text, time } from './stream.ts'

/** A status is text, or an object with the text under one of these keys. */
const IN_STATUS = ['status', 'name', 'value']

const status: Column = {
  ...text('status', 'delivery_status'),
  read(record, _path, problems) {
    for (const field of status.from) {
      const cell = statusIn(record[field], field, problems)
      if (cell !== null) return cell
    }
    // The scheduled part of a message has a status of its own (section 3.1); it is used if the message has none.
    return isObject(record.scheduled) ? statusIn(record.scheduled.status, 'scheduled.status', problems) : null
  },
}

function statusIn(value: unknown, path: string, problems: Problem[]): Cell {
  if (!isObject(value)) return readCell('text', value, path, problems)
  if (Object.keys(value).length === 0) return null
  const { field, value: inner } = firstOf(value, IN_STATUS)
  // An object with none of the keys is stored whole, as JSON text.
  return inner === null
    ? readCell('text', IN_STATUS.some((name) => name in value) ? null : value, path, problems)
    : readCell('text', inner, `${path}.${field}`, problems)
}

const scheduledAt: Column = {
  ...time('scheduled_at', 'scheduled'),
  read(record: JsonObject, _path, problems) {
    const own = record.scheduled_at
    if (own !== undefined && own !== null) return readCell('time', own, 'scheduled_at', problems)
    const scheduled = objectOf(record.scheduled, 'scheduled', problems)
    return scheduled === null
      ? null
      : readCell('time', scheduled.scheduled_at, 'scheduled.scheduled_at', problems)
  },
}

export const messages: Stream = {
  name: 'messages',
  source: 'message',
  sourceIsGuess: true,
  list: { name: 'messages', path: '/v2/messages' },
  one: { name: 'message', path: '/v2/messages/{id}' },
  table: 'messages',
  columns: [
    reference('patient_id', 'patients', 'patient'),
    reference('form_id', 'forms', 'form'),
    reference('packet_id', 'packets', 'packet'),
    reference('document_id', 'documents', 'document'),
    text('message_type'),
    text('preferred_delivery_method'),
    text('target_email'),
    text('target_phone_number', 'target_phone', 'phone_number'),
    status,
    text('content'),
    scheduledAt,
    time('sent_at'),
    time('created_at'),
    time('updated_at'),
  ],
  children: [],
  otherFields: [],
  safeNames: ['scheduled_at'],
  analysts: { views: ['message_outcomes'] },
  // Only a message fetched by id is documented to have its content (section 4.2).
  isSummary: (record) => !('content' in record),
}
