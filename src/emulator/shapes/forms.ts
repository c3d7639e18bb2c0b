/** Alternative notations of forms, packets and documents. */
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
