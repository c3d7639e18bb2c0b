/**
 * The rows of `response_answers`: one per value, first the choices and then the free text.
 *
 * Invariant: an answer gives at least one row, and each of its texts is a `value_text`; equal values are separate rows.
 * An empty free text is a value if the answer has no choices (an empty string stays empty), and none otherwise.
 */
import { isWithinNumeric } from '../../core/canonical.ts'
import type { Problem } from '../../core/envelope.ts'
import { isLosslessNumber, isObject, type JsonObject } from '../../core/json.ts'
import { parseDate } from '../../core/time.ts'
import { type Child, column, text } from '../stream.ts'
import { type Answer, answeredQuestionOf, answersOf, questionTextOf } from './answers.ts'
import { type Cell, readCell } from './cell.ts'
import { cellsOf, type Item, idOrText, isEmpty, itemsOf } from './parts.ts'

const ANSWER_ID = [column('reference', 'id', 'uid')]

export const responseAnswers: Child = {
  table: 'response_answers',
  parent: 'response_id',
  columns: [
    'position',
    'value_position',
    'answer_id',
    'question_id',
    'question_text',
    'choice_id',
    'value_text',
    'value_number',
    'value_boolean',
    'value_date',
  ],
  rows(record, problems) {
    const rows: Cell[][] = []
    for (const answer of answersOf(record, problems)) {
      const position = String(answer.position)
      const [answerId] = cellsOf(ANSWER_ID, answer.record, answer.path, problems)
      const questionId = answeredQuestionOf(answer, problems)
      const questionText = questionTextOf(answer, problems)
      const values = valuesOf(answer, problems)
      for (let index = 0; index < values.length; index++) {
        const { choiceId, valueText } = values[index]!
        rows.push([
          position,
          String(index + 1),
          answerId!,
          questionId,
          questionText,
          choiceId,
          valueText,
          ...typedCells(valueText),
        ])
      }
    }
    return rows
  },
}

interface Value {
  readonly choiceId: Cell
  readonly valueText: Cell
}

const NOTHING: Value = { choiceId: null, valueText: null }

function valuesOf({ record, path }: Answer, problems: Problem[]): readonly Value[] {
  const values: Value[] = []
  for (const item of itemsOf(record.answer_choices, `${path}.answer_choices`, problems)) {
    const choice = choiceOf(item, problems)
    if (choice !== null) values.push(choice)
  }
  const valueText = readCell('text', record.answer_text, `${path}.answer_text`, problems)
  if (valueText !== null && (valueText !== '' || values.length === 0))
    values.push({ choiceId: null, valueText })
  if (values.length === 0) values.push(NOTHING)
  return values
}

const CHOICE = [
  column('reference', 'question_choice_id', 'choice_id', 'id', 'uid'),
  text('text_value', 'text', 'label', 'name'),
]

/** A choice that was made; null for one that is empty. */
function choiceOf({ value, path }: Item, problems: Problem[]): Value | null {
  if (isObject(value)) return choiceIn(value, path, problems)
  if (typeof value !== 'object' || isLosslessNumber(value))
    return { choiceId: null, valueText: readCell('text', value, path, problems) }
  problems.push({ path, reason: 'not a choice', original: value })
  return null
}

/** The choice itself, or an object around it. */
function choiceIn(value: JsonObject, path: string, problems: Problem[]): Value | null {
  const chosen = value.question_choice
  if (isObject(chosen)) return namedChoice(chosen, `${path}.question_choice`, problems)
  const { question_choice: _, ...rest } = value
  if (chosen === undefined || chosen === null) return namedChoice(rest, path, problems)
  const [id, own] = idOrText(chosen, `${path}.question_choice`, problems)
  const [, text] = cellsOf(CHOICE, rest, path, problems) as [Cell, Cell]
  return { choiceId: id, valueText: own ?? text }
}

function namedChoice(choice: JsonObject, path: string, problems: Problem[]): Value | null {
  if (isEmpty(choice)) return null
  const before = problems.length
  const [choiceId, valueText] = cellsOf(CHOICE, choice, path, problems) as [Cell, Cell]
  if (choiceId === null && valueText === null && problems.length === before)
    problems.push({ path, reason: 'not a choice', original: choice })
  return { choiceId, valueText }
}

/**
 * A text read as a number, a boolean and a date, whatever the type of its question.
 *
 * Invariant: the whole text, including blanks, must match; a text that does not match gives null without a problem,
 * because the text itself is stored in the same row. A number is digits with an optional sign, fraction and exponent
 * (`-2`, `+.5`, `1e3`), without separators, and fits Postgres' `numeric`.
 */
const NUMBER = /^[-+]?(?:\d+(?:\.\d+)?|\.\d+)(?:[eE][-+]?\d+)?$/

const BOOLEAN = /^(?:true|false|yes|no)$/i

/** Start of a number, a boolean or a date; most texts do not match. */
const MAY_BE = /^[-+.\dtfyn]/i

const NONE: readonly [Cell, Cell, Cell] = [null, null, null]

/** The cells of `value_number`, `value_boolean` and `value_date`. */
export function typedCells(text: Cell): readonly [number: Cell, boolean: Cell, date: Cell] {
  if (text === null || !MAY_BE.test(text)) return NONE
  const boolean = booleanOf(text)
  return boolean === null ? [numberOf(text), null, dateOf(text)] : [null, boolean, null]
}

/** The text of the number that `text` is. */
export function numberOf(text: string): Cell {
  return NUMBER.test(text) && isWithinNumeric(text) ? text : null
}

/** `t` for true and yes, `f` for false and no, in any case. */
export function booleanOf(text: string): Cell {
  if (!BOOLEAN.test(text)) return null
  const first = text[0]!
  return first === 't' || first === 'T' || first === 'y' || first === 'Y' ? 't' : 'f'
}

/** The ISO date, `YYYY-MM-DD`, that `text` is. */
export function dateOf(text: string): Cell {
  return parseDate(text)
}
