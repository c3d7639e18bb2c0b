/** Notations of the references of messages and responses. */
import type { JsonRecord } from '../http/answer.ts'
import type { ShapePart } from './shape.ts'

const NAMES = new Set(['patient', 'form', 'packet', 'document'])

/** A message or response with each reference rewritten; `id` is null where there is none. */
function withReferences(
  record: JsonRecord,
  write: (name: string, id: unknown) => readonly [string, unknown],
): JsonRecord {
  return Object.fromEntries(
    Object.entries(record).map(([name, value]) =>
      NAMES.has(name) ? write(name, (value as JsonRecord | null)?.id ?? null) : [name, value],
    ),
  )
}

const REFERRING = new Set(['messages', 'responses'])

export const REFERENCES = {
  'references-as-ids': {
    matter: 'references',
    summary: 'messages and responses refer to other records by bare ids',
    record: (record, { resource }) =>
      REFERRING.has(resource) ? withReferences(record, (name, id) => [name, id]) : record,
  },
  'references-as-siblings': {
    matter: 'references',
    summary: 'messages and responses refer to other records by patient_id, form_id, packet_id, document_id',
    record: (record, { resource }) =>
      REFERRING.has(resource) ? withReferences(record, (name, id) => [`${name}_id`, id]) : record,
  },
} satisfies Record<string, ShapePart>
