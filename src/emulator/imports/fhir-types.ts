/**
 * Maps types and controls of FHIR items to question types.
 *
 * Invariant: every item has a question type; a type that the service does not have becomes a text with the FHIR type as
 * its subtype.
 */
import type { Question, QuestionType } from '../world/records.ts'
import { type Fhir, isFhir, listOf, textOf } from './fhir-answers.ts'

const TYPES: Readonly<Record<string, QuestionType>> = {
  boolean: 'checkbox',
  decimal: 'number',
  integer: 'number',
  quantity: 'number',
  date: 'date',
  dateTime: 'datetime',
  time: 'time',
  string: 'short_text',
  url: 'short_text',
  reference: 'short_text',
  text: 'long_text',
  attachment: 'file',
  display: 'display_only',
  group: 'display_only',
}

const CHOICES = new Set(['choice', 'open-choice', 'coding'])
const TABLES = new Set(['table', 'htable', 'gtable', 'atable', 'grid', 'group-table'])

export function questionTypeOf(item: Fhir): Question['question_type'] {
  const type = textOf(item.type)
  const control = controlsOf(item)[0] ?? null
  if (CHOICES.has(type)) {
    const question_type = item.repeats === true ? 'multiple_choice' : 'single_choice'
    return { question_type, question_subtype: control ?? (type === 'choice' ? null : type) }
  }
  const question_type = TYPES[type] ?? 'short_text'
  const said = control ?? (question_type === type.replace('string', 'short_text') ? null : type)
  return { question_type, question_subtype: said === '' ? null : said }
}

/** True for a group that is shown as a table. */
export function isTable(item: Fhir): boolean {
  return controlsOf(item).some((code) => TABLES.has(code))
}

/** Codes of the item's control, from the extension or the field that some servers use. */
function controlsOf(item: Fhir): string[] {
  const extensions = listOf(item.extension).filter(({ url }) =>
    textOf(url).endsWith('questionnaire-itemControl'),
  )
  const concepts = [item.itemControl, ...extensions.map((one) => one.valueCodeableConcept)].filter(isFhir)
  return concepts.flatMap((concept) => listOf(concept.coding)).map(({ code }) => textOf(code))
}
