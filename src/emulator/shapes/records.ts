/**
 * Alternative notations of records: other ids and references, absent, null or nested fields, and other types.
 *
 * Invariant: as in forms.ts, only answers change.
 */
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

/** Renames every `id` to `name`, at any depth, and rewrites it and each reference with `write`. */
function withIds(value: unknown, name: string, write: (id: string) => unknown): unknown {
  if (Array.isArray(value)) return value.map((item) => withIds(item, name, write))
  if (typeof value !== 'object' || value === null) return value
  const changed: Record<string, unknown> = {}
  for (const [key, item] of Object.entries(value)) {
    if (key === 'id' && typeof item === 'string') changed[name] = write(item)
    else if (key === 'answers' && !Array.isArray(item)) changed[key] = keysRewritten(item, name, write)
    else if (typeof item === 'string' && refers(key, item)) changed[key] = write(item)
    else if (key === 'responses' && Array.isArray(item)) changed[key] = item.map((id) => write(String(id)))
    else if (key === 'custom_fields') changed[key] = item
    else changed[key] = withIds(item, name, write)
  }
  return changed
}

/** Fields that contain the id of another record of the service. */
const ID_FIELDS = new Set([
  'block',
  'patient',
  'form',
  'packet',
  'document',
  'row',
  'column',
  'webhook_config',
])
const OWN = /^(?:patient|form|packet|document|question|choice)_id$/

const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/

function refers(key: string, value: string): boolean {
  return UUID.test(value) && (ID_FIELDS.has(key) || OWN.test(key))
}

/** An object by id. */
function keysRewritten(value: unknown, name: string, write: (id: string) => unknown): unknown {
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(
    Object.entries(value).map(([key, item]) => [
      UUID.test(key) ? String(write(key)) : key,
      withIds(item, name, write),
    ]),
  )
}

const prefix = (id: string, digits: number) => id.replaceAll('-', '').slice(0, digits)
const small = (id: string) => Number.parseInt(prefix(id, 12), 16)
const huge = (id: string) => String(BigInt(`0x1${prefix(id, 15)}`))

/** JSON.stringify cannot write integers beyond 2^53, so they are inserted into its result. */
const BIG = /"#number:(\d+)#"/g

/** Each maps the UUIDs of the default shape one to one. */
export const IDS = {
  'uid-ids': {
    matter: 'ids',
    summary: 'identifiers are named `uid`',
    record: (record) => withIds(record, 'uid', (id) => id) as JsonRecord,
  },
  'numeric-ids': {
    matter: 'ids',
    summary: 'identifiers are JSON numbers',
    record: (record) => withIds(record, 'id', small) as JsonRecord,
    idText: (id) => String(small(id)),
    id: (text, ids) =>
      /^\d{1,16}$/.test(text) ? ids.withPrefix(Number(text).toString(16).padStart(12, '0')) : undefined,
  },
  'huge-ids': {
    matter: 'ids',
    summary: 'identifiers are JSON numbers beyond 2^53, which most readers round',
    record: (record) => withIds(record, 'id', (id) => `#number:${huge(id)}#`) as JsonRecord,
    idText: huge,
    text: (json) => json.replace(BIG, '$1'),
    id: (text, ids) => {
      const hex = /^\d{1,20}$/.test(text) ? BigInt(text).toString(16) : ''
      return hex.length === 16 && hex.startsWith('1') ? ids.withPrefix(hex.slice(1)) : undefined
    },
  },
} satisfies Record<string, ShapePart>
