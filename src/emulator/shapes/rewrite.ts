/** Copies of records with fields removed or changed. */
import type { JsonRecord } from '../http/answer.ts'

export const without = (record: JsonRecord, ...names: string[]): JsonRecord =>
  Object.fromEntries(Object.entries(record).filter(([name]) => !names.includes(name)))

/** Changes each question of a record, also in its forms and its packet. */
export function withQuestions(record: JsonRecord, change: (question: JsonRecord) => JsonRecord): JsonRecord {
  const one = (form: JsonRecord): JsonRecord =>
    Array.isArray(form.questions) ? { ...form, questions: form.questions.map(change) } : form
  const { packet } = record
  if (typeof packet === 'object' && packet !== null && 'forms' in packet) {
    return { ...record, packet: withQuestions(packet as JsonRecord, change) }
  }
  return Array.isArray(record.forms) ? { ...record, forms: record.forms.map(one) } : one(record)
}
