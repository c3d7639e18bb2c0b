/**
 * Forms (specification, section 2.3), with their questions and choices.
 *
 * Invariant: every question is found once, in `questions` or nested in pages, sections and rows, and keeps its place in
 * the order of the payload.
 */
import type { Problem } from '../core/envelope.ts'
import { isObject, type JsonObject } from '../core/json.ts'
import { type Cell, readCell } from './parts/cell.ts'
import { cellsOf, type Item, itemsOf, objectOf } from './parts/parts.ts'
import { type Child, column, firstOf, type Stream, text, time } from './stream.ts'

/** Levels that a form may nest its questions in, outermost first. */
const LEVELS = ['pages', 'sections', 'rows'] as const

interface Question {
  readonly record: JsonObject
  readonly position: number
  readonly path: string
}

/** True when the form holds questions in some place, even if there are none. */
function hasQuestions(form: JsonObject): boolean {
  return 'questions' in form || LEVELS.some((level) => level in form)
}

export function questionsOf(form: JsonObject, problems: Problem[]): readonly Question[] {
  const found: FoundQuestions = { items: [], places: 0 }
  collect(form, '', found, problems)
  const questions: Question[] = []
  for (const { value, position, path } of found.items) {
    if (isObject(value)) questions.push({ record: value, position, path })
    else problems.push({ path, reason: 'not an object', original: value })
  }
  return questions
}

interface FoundQuestions {
  readonly items: Item[]
  /** Places passed so far, those of nulls included. */
  places: number
}

function collect(node: JsonObject, path: string, into: FoundQuestions, problems: Problem[]): void {
  const at = (field: string) => (path === '' ? field : `${path}.${field}`)
  const own = itemsOf(node.questions, at('questions'), problems)
  into.items.push(...own.map((item) => ({ ...item, position: into.places + item.position })))
  // A form that lists its questions may repeat them in its pages.
  if (own.length > 0) {
    into.places += Array.isArray(node.questions) ? node.questions.length : 0
    return
  }
  for (const level of LEVELS) {
    for (const item of itemsOf(node[level], at(level), problems)) {
      if (isObject(item.value)) collect(item.value, item.path, into, problems)
      else problems.push({ path: item.path, reason: 'not an object', original: item.value })
    }
  }
}

const QUESTION_FIELDS = [
  ...[text('text'), text('help_text'), column('integer', 'order', 'sort_order')],
  // The specification shows none of these; a form that was imported from a FHIR Questionnaire may have them.
  ...[text('link_id'), column('integer', 'page'), column('reference', 'block', 'block_id')],
]

const QUESTION_ID = column('reference', 'id', 'uid')

const questions: Child = {
  table: 'form_questions',
  parent: 'form_id',
  columns: [
    'position',
    'question_id',
    'question_type',
    'question_subtype',
    'text',
    'help_text',
    'sort_order',
    'link_id',
    'page',
    'block_id',
  ],
  rows: (record, problems) =>
    questionsOf(record, problems).map((question) => [
      String(question.position),
      ...cellsOf([QUESTION_ID], question.record, question.path, problems),
      ...typeCells(question, problems),
      ...cellsOf(QUESTION_FIELDS, question.record, question.path, problems),
    ]),
}

/** Type and subtype, from an object with both or from a bare name with the subtype next to it. */
function typeCells(question: Question, problems: Problem[]): Cell[] {
  const { record, path } = question
  const type = record.question_type
  const holder = isObject(type) ? type : record
  const at = isObject(type) ? `${path}.question_type` : path
  return [
    readCell('text', holder.question_type, `${at}.question_type`, problems),
    readCell('text', holder.question_subtype, `${at}.question_subtype`, problems),
  ]
}

const CHOICE_FIELDS = ['choices', 'question_choices', 'answer_choices']

const CHOICE_COLUMNS = [
  ...[column('reference', 'id', 'uid'), text('text_value', 'text', 'label', 'name')],
  ...[text('code'), column('number', 'points')],
]

const choices: Child = {
  table: 'question_choices',
  parent: 'form_id',
  columns: ['question_position', 'position', 'question_id', 'choice_id', 'text', 'code', 'points'],
  rows: (record, problems) => questionsOf(record, []).flatMap((question) => choiceRows(question, problems)),
}

function choiceRows(question: Question, problems: Problem[]): Cell[][] {
  const { field, value } = firstOf(question.record, CHOICE_FIELDS)
  const questionId = cellsOf([QUESTION_ID], question.record, question.path, [])[0] ?? null
  const rows: Cell[][] = []
  for (const item of itemsOf(value, `${question.path}.${field}`, problems)) {
    const place = [String(question.position), String(item.position), questionId]
    if (typeof item.value === 'string') rows.push([...place, null, item.value, null, null])
    else {
      const choice = objectOf(item.value, item.path, problems)
      if (choice !== null) rows.push([...place, ...cellsOf(CHOICE_COLUMNS, choice, item.path, problems)])
    }
  }
  return rows
}

export const forms: Stream = {
  name: 'forms',
  source: 'form',
  list: { name: 'forms', path: '/v2/forms' },
  one: { name: 'form', path: '/v2/forms/{id}' },
  table: 'forms',
  columns: [text('name'), text('text'), column('boolean', 'enabled'), time('created_at'), time('updated_at')],
  children: [questions, choices],
  otherFields: ['questions', 'pages', 'sections', 'rows'],
  safeNames: [
    ...['pages', 'sections', 'rows', 'questions', 'question_type', 'question_subtype', 'help_text'],
    ...['order', 'sort_order', 'choices', 'question_choices', 'link_id', 'page', 'block', 'code', 'points'],
  ],
  analysts: { views: ['form_completion'] },
  isSummary: (record) => !hasQuestions(record),
}
