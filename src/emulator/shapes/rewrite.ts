/** Records with a part left out or changed. Invariant: the record that was given is not touched. */
import type { JsonRecord } from '../http/answer.ts'

export const without = (record: JsonRecord, ...names: string[]): JsonRecord =>
  Object.fromEntries(Object.entries(record).filter(([name]) => !names.includes(name)))

/** The questions of a record changed one by one, wherever they stand. */
export function withQuestions(record: JsonRecord, change: (question: JsonRecord) => JsonRecord): JsonRecord {
  const one = (form: JsonRecord): JsonRecord =>
    Array.isArray(form.questions) ? { ...form, questions: form.questions.map(change) } : form
  const { packet } = record
  if (typeof packet === 'object' && packet !== null && 'forms' in packet) {
    return { ...record, packet: withQuestions(packet as JsonRecord, change) }
  }
  return Array.isArray(record.forms) ? { ...record, forms: record.forms.map(one) } : one(record)
}
