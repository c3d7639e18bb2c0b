/** How records are written: what is absent, null, nested, or of another type. */
import type { JsonRecord } from '../http/answer.ts'
import { groupBy } from './group.ts'
import type { ShapePart } from './shape.ts'

const without = (record: JsonRecord, ...names: string[]): JsonRecord =>
  Object.fromEntries(Object.entries(record).filter(([name]) => !names.includes(name)))

const isEmpty = (value: unknown) =>
  value === null || value === '' || (typeof value === 'object' && Object.keys(value as object).length === 0)

/** Required by the service even when empty. */
const KEPT = new Set(['id', 'first_name', 'last_name', 'name', 'questions', 'forms'])

/** The questions of a record changed one by one, wherever they stand. */
function withQuestions(record: JsonRecord, change: (question: JsonRecord) => JsonRecord): JsonRecord {
  const one = (form: JsonRecord): JsonRecord =>
    Array.isArray(form.questions) ? { ...form, questions: form.questions.map(change) } : form
  return Array.isArray(record.forms) ? { ...record, forms: record.forms.map(one) } : one(record)
}

export const RECORDS = {
  'no-timestamps': {
    matter: 'timestamps',
    summary: 'records carry neither created_at nor updated_at',
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
    summary: 'optional parts that are empty are left out',
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
    summary: 'questions stand in pages[].sections[].rows[].questions[]',
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
    summary: 'input_fields is absent whatever version is asked for',
    record: (record) => without(record, 'input_fields'),
  },
  'unknown-fields': {
    matter: 'unknown-fields',
    summary: 'records carry fields that no document names',
    record: (record) => ({
      ...withQuestions(record, (question) => ({ ...question, is_scored: false })),
      rev: 7,
      audit: { by: 'system', tags: ['a', null] },
    }),
  },
  'naughty-text': {
    matter: 'text',
    summary: 'texts hold NUL, half a surrogate pair, controls and right-to-left marks',
    record: (record) => {
      const text = 'last_name' in record ? 'last_name' : 'text'
      return { ...record, [text]: `${String(record[text])}\u0000\ud83d\u0007\u202e\ufeff"\\` }
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
