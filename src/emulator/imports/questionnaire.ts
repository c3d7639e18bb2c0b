/**
 * Converts a FHIR Questionnaire to a form.
 *
 * Invariant: every item that asks or shows something, and every group without items, is one question that keeps the
 * item's linkId and text, in the order of the file, questions inside questions included. A group that is a table or
 * repeats is a question of its own as well (`matrix`, `repeated_block`), and its items name it as their block.
 */
import { readdirSync } from 'node:fs'
import { join, relative } from 'node:path'
import { parse as parseYaml } from 'yaml'
import { stamp } from '../clock.ts'
import { Draw, type IdSpace, type Key, stableId } from '../world/draw.ts'
import type { Form, Question, QuestionType } from '../world/records.ts'
import { makeTimes } from '../world/seeded/make-patient.ts'
import type { Imported } from '../world/seeded/seed.ts'
import { type AnswerOption, type Fhir, isFhir, listOf, optionsOf, textOf } from './fhir-answers.ts'
import { readText, reasonOf } from './read-text.ts'

interface Plan extends Omit<Question, 'id' | 'choices' | 'rows' | 'columns' | 'block'> {
  readonly options: readonly AnswerOption[]
  readonly rowTexts?: readonly string[]
  readonly columnTexts?: readonly string[]
  /** Place of the table or repeated block in the list of plans. */
  readonly blockAt?: number
}

interface Place {
  readonly page: number
  readonly section: number
  readonly blockAt?: number
}

/** The form of a questionnaire; `build` adds the parts that depend on its index. Throws if it is malformed. */
function formOf(questionnaire: Fhir): {
  questions: number
  build: (ids: IdSpace, key: Key, index: number) => Form
} {
  const plans = plan(questionnaire)
  const name = textOf(questionnaire.title) || textOf(questionnaire.name) || textOf(questionnaire.id)
  const text = textOf(questionnaire.description)
  const enabled = questionnaire.status !== 'retired'
  return {
    questions: plans.length,
    build(ids, key, index) {
      const times = makeTimes(new Draw(key, index))
      const [created_at, updated_at] = [stamp(times.created), stamp(times.updated)]
      const questions = plans.map((one, position) => questionOf(one, position, key, index))
      return { id: ids.idAt(index), name, text, enabled, created_at, updated_at, questions }
    },
  }
}

function questionOf(plan: Plan, position: number, key: Key, index: number): Question {
  const { options, rowTexts, columnTexts, blockAt, ...rest } = plan
  const id = (place: number) => stableId(key, index, (position + 1) * 100_000 + place)
  const headings = (texts: readonly string[], from: number) =>
    texts.map((text, place) => ({ id: id(from + place), text }))
  return {
    id: stableId(key, index, position + 1),
    ...rest,
    choices: options.map((option, place) => ({ id: id(place), ...option })),
    ...(rowTexts === undefined ? {} : { rows: headings(rowTexts, 40_000) }),
    ...(columnTexts === undefined ? {} : { columns: headings(columnTexts, 70_000) }),
    ...(blockAt === undefined ? {} : { block: stableId(key, index, blockAt + 1) }),
  }
}

function plan(questionnaire: Fhir): Plan[] {
  const plans: Plan[] = []
  const lastRow = new Map<string, number>()
  const add = (item: Fhir, place: Place, more: Partial<Plan> = {}) => {
    const where = `${place.page}/${place.section}`
    const row = (lastRow.get(where) ?? 0) + 1
    lastRow.set(where, row)
    plans.push({
      question_type: questionTypeOf(item),
      text: textOf(item.text),
      help_text: textOf(item.prefix),
      order: plans.length + 1,
      page: place.page,
      section: place.section,
      row,
      link_id: textOf(item.linkId),
      options: optionsOf(item, questionnaire),
      ...(place.blockAt === undefined ? {} : { blockAt: place.blockAt }),
      ...more,
    })
    return plans.length - 1
  }
  const walk = (items: readonly Fhir[], depth: number, start: Place) => {
    let place = start
    for (const item of items) {
      const children = listOf(item.item)
      if (item.type !== 'group' || children.length === 0) {
        add(item, place)
        walk(children, depth + 1, place)
        continue
      }
      const table = isTable(item)
      const blockAt =
        table || item.repeats === true ? add(item, place, blockPlan(item, children, table)) : undefined
      walk(children, depth + 1, blockAt === undefined ? place : { ...place, blockAt })
      // Items after a group start a new page on the outermost level, a new section on the next.
      if (depth === 0) place = { ...place, page: place.page + 1 }
      else if (depth === 1) place = { ...place, section: place.section + 1 }
    }
  }
  walk(listOf(questionnaire.item), 0, { page: 1, section: 1 })
  return plans
}

/** A table that repeats is a block of questions; one that does not has its items, or their items, as rows. */
function blockPlan(item: Fhir, children: readonly Fhir[], table: boolean): Partial<Plan> {
  if (!table || item.repeats === true) {
    return { question_type: { question_type: 'repeated_block', question_subtype: table ? 'table' : null } }
  }
  const rowTexts = children.map((child) => textOf(child.text))
  const inner = children.flatMap((child) => listOf(child.item)).map((child) => textOf(child.text))
  const shared = inner.length > 0 ? inner : optionsOf(children[0]!, {}).map(({ text_value }) => text_value)
  const type = { question_type: 'matrix', question_subtype: 'table' } as const
  return { question_type: type, rowTexts, columnTexts: [...new Set(shared)] }
}

/**
 * Maps types and controls of FHIR items to question types.
 *
 * Invariant: every item has a question type. One that does not say the FHIR type has it as its subtype; any other has
 * the control, if there is one.
 */
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

/** The FHIR types that a question type says. */
const IMPLIED = new Set([
  ...['boolean', 'decimal', 'date', 'dateTime', 'time', 'string', 'text', 'attachment', 'display'],
])

const CHOICES = new Set(['choice', 'open-choice', 'coding'])
const TABLES = new Set(['table', 'htable', 'gtable', 'atable', 'grid', 'group-table'])

function questionTypeOf(item: Fhir): Question['question_type'] {
  const type = textOf(item.type)
  // One that has the name of a type would be read as that.
  const control = controlsOf(item).find((code) => !(code in TYPES) && !CHOICES.has(code)) ?? null
  if (CHOICES.has(type)) {
    const question_type = item.repeats === true ? 'multiple_choice' : 'single_choice'
    return { question_type, question_subtype: type === 'choice' ? control : type }
  }
  const question_type = TYPES[type] ?? 'short_text'
  return { question_type, question_subtype: IMPLIED.has(type) || type === '' ? control : type }
}

/** True for a group that is shown as a table. */
function isTable(item: Fhir): boolean {
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

/**
 * Imports all FHIR Questionnaires of a folder and its sub-folders.
 *
 * Invariant: each .json, .yaml and .yml file is a form, or skipped as something else, or failed with the reason; a bad
 * file does not stop the others. Files are in the order of their paths, on every machine.
 */
export interface ImportedForms {
  readonly forms: Imported['forms'][number][]
  readonly questions: number
  readonly skipped: readonly string[]
  readonly failed: readonly { readonly file: string; readonly reason: string }[]
}

export function importQuestionnaires(folder: string): ImportedForms {
  const forms: Imported['forms'][number][] = []
  const skipped: string[] = []
  const failed: { file: string; reason: string }[] = []
  let questions = 0
  for (const file of filesIn(folder)) {
    try {
      const content = read(join(folder, file))
      if (!isFhir(content) || content.resourceType !== 'Questionnaire') {
        skipped.push(file)
        continue
      }
      const form = formOf(content)
      forms.push(form.build)
      questions += form.questions
    } catch (error) {
      failed.push({ file, reason: reasonOf(error) })
    }
  }
  return { forms, questions, skipped, failed }
}

function filesIn(folder: string): string[] {
  const entries = readdirSync(folder, { recursive: true, withFileTypes: true })
  return entries
    .filter((entry) => entry.isFile() && /\.(json|ya?ml)$/i.test(entry.name))
    .map((entry) => relative(folder, join(entry.parentPath, entry.name)))
    .sort((a, b) => (a < b ? -1 : 1))
}

function read(file: string): unknown {
  const text = readText(file)
  return file.toLowerCase().endsWith('.json') ? JSON.parse(text) : parseYaml(text, { logLevel: 'error' })
}
