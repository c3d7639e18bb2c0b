/** Forms (specification, section 2.3), with their questions and choices. */

import type { Problem } from '../core/envelope.ts'
import { isObject } from '../core/json.ts'
import { type Cell, readCell } from './parts/cell.ts'
import { cellsOf, itemsOf, objectOf } from './parts/parts.ts'
import { hasQuestions, type Question, questionsOf } from './parts/questions.ts'
import { type Child, column, firstOf, type Stream, text, time } from './stream.ts'

const QUESTION_TEXTS = [text('text'), text('help_text'), column('integer', 'order', 'sort_order')]

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
  ],
  rows: (record, problems) =>
    questionsOf(record, problems).map((question) => [
      String(question.position),
      ...cellsOf([QUESTION_ID], question.record, question.path, problems),
      ...typeCells(question, problems),
      ...cellsOf(QUESTION_TEXTS, question.record, question.path, problems),
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

const CHOICE_COLUMNS = [column('reference', 'id', 'uid'), text('text_value', 'text', 'label', 'name')]

const choices: Child = {
  table: 'question_choices',
  parent: 'form_id',
  columns: ['question_position', 'position', 'question_id', 'choice_id', 'text'],
  rows: (record, problems) => questionsOf(record, []).flatMap((question) => choiceRows(question, problems)),
}

function choiceRows(question: Question, problems: Problem[]): Cell[][] {
  const { field, value } = firstOf(question.record, CHOICE_FIELDS)
  const questionId = cellsOf([QUESTION_ID], question.record, question.path, [])[0] ?? null
  const rows: Cell[][] = []
  for (const item of itemsOf(value, `${question.path}.${field}`, problems)) {
    const place = [String(question.position), String(item.position), questionId]
    if (typeof item.value === 'string') rows.push([...place, null, item.value])
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
    ...['order', 'sort_order', 'choices', 'question_choices'],
  ],
  analysts: { views: ['form_completion'] },
  isSummary: (record) => !hasQuestions(record),
}
