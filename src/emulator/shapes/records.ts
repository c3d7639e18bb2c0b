/** Alternative notations of records: absent, null or nested fields, and other types. */

import type { JsonRecord } from '../http/answer.ts'
import { type ShapePart, without, withQuestions } from './shape.ts'

const isEmpty = (value: unknown) =>
  value === null || value === '' || (typeof value === 'object' && Object.keys(value as object).length === 0)

/** Required by the service even when empty. */
const KEPT = new Set(['id', 'first_name', 'last_name', 'name', 'questions', 'forms'])

export const RECORDS = {
  'no-timestamps': {
    matter: 'timestamps',
    summary: 'records have neither created_at nor updated_at',
    record: (record) => without(record, 'created_at', 'updated_at'),
  },
  'null-optionals': {
    matter: 'optionals',
    summary: 'optional parts that are empty are null',
    record: (record) =>
      Object.fromEntries(
        Object.entries(record).map(([name, value]) => [
          name,
          isEmpty(value) && !KEPT.has(name) ? null : value,
        ]),
      ),
  },
  'absent-optionals': {
    matter: 'optionals',
    summary: 'optional parts that are empty are omitted',
    record: (record) =>
      Object.fromEntries(Object.entries(record).filter(([name, value]) => !isEmpty(value) || KEPT.has(name))),
  },
  'empty-contact': {
    matter: 'optionals',
    summary: 'a missing emergency contact is {}',
    record: (record, { resource }) =>
      resource === 'patients' ? { ...record, emergency_contact: record.emergency_contact ?? {} } : record,
  },
  'non-string-custom-fields': {
    matter: 'custom-fields',
    summary: 'values of custom fields are numbers, booleans, null, arrays and objects too',
    record: (record, { resource }) =>
      resource === 'patients' ? { ...record, custom_fields: otherTypes(record.custom_fields) } : record,
  },
  'unknown-fields': {
    matter: 'unknown-fields',
    summary: 'records have undocumented fields',
    record: (record) => ({
      ...withQuestions(record, (question) => ({ ...question, is_scored: false })),
      rev: 7,
      audit: { by: 'system', tags: ['a', null] },
    }),
  },
  'naughty-text': {
    matter: 'text',
    summary: 'texts contain NUL, half a surrogate pair, controls and right-to-left marks',
    record: (record) => {
      const name = ['last_name', 'text', 'content', 'form_name'].find(
        (one) => typeof record[one] === 'string',
      )
      return name === undefined
        ? record
        : { ...record, [name]: `${String(record[name])}\u0000\ud83d\u0007\u202e\ufeff"\\` }
    },
  },
} satisfies Record<string, ShapePart>

function otherTypes(fields: unknown): unknown {
  const kinds = [
    (text: string) => ({ value: text }),
    (text: string) => [text],
    Number.parseFloat,
    () => true,
    () => null,
  ]
  return Object.fromEntries(
    Object.entries((fields ?? {}) as Record<string, string>).map(([key, value]) => {
      if (/^\d{1,6}$/.test(value) && !value.startsWith('0')) return [key, Number(value)]
      const made = kinds[(key.length + value.length) % kinds.length]!(value)
      return [key, typeof made === 'number' && !Number.isFinite(made) ? value : made]
    }),
  )
}

/** Notations of the references of messages and responses. */
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
