/**
 * The answers of a response, in either form: a list, or an object keyed by question id.
 *
 * Invariant: every answer is found once, with its position in the payload; a null in a list is no answer but counts as a
 * position, while every key of an object is an answered question, even with a null.
 */
import type { Problem } from '../../core/envelope.ts'
import { isLosslessNumber, isObject, type JsonObject } from '../../core/json.ts'
import { column, firstOf } from '../stream.ts'
import { type Cell, readCell } from './cell.ts'
import { cellsOf, type Item, itemsOf } from './parts.ts'

export interface Answer {
  /** A bare text is wrapped in an object as `answer_text`. */
  readonly record: JsonObject
  readonly position: number
  readonly path: string
  /** Id of the question it was found under. */
  readonly key: string | null
}

/** Each answer, in order. */
export function answersOf(response: JsonObject, problems: Problem[]): readonly Answer[] {
  const { answers } = response
  const items: Iterable<KeyedItem> = isObject(answers)
    ? underKeys(answers)
    : itemsOf(answers, 'answers', problems)
  const found: Answer[] = []
  for (const { value, position, path, key = null } of items) {
    const record = asRecord(value)
    if (record === null) problems.push({ path, reason: 'not an answer', original: value })
    else found.push({ record, position, path, key })
  }
  return found
}

interface KeyedItem extends Item {
  readonly key?: string
}

function* underKeys(answers: JsonObject): Generator<KeyedItem> {
  let position = 0
  for (const [key, value] of Object.entries(answers)) {
    const path = `answers.${key}`
    if (!Array.isArray(value) || value.length === 0) {
      // An empty list is an answer of nothing.
      position += 1
      yield { value: Array.isArray(value) ? null : value, position, path, key }
    } else {
      for (let index = 0; index < value.length; index++) {
        position += 1
        yield { value: value[index], position, path: `${path}[${index}]`, key }
      }
    }
  }
}

const NOTHING: JsonObject = {}

function asRecord(value: unknown): JsonObject | null {
  if (isObject(value)) return value
  if (value === null) return NOTHING
  return typeof value !== 'object' || isLosslessNumber(value) ? { answer_text: value } : null
}

const QUESTION_ID = [column('reference', 'id', 'uid')]

/** Id of the question of a part: its own reference, or an object with the question's id. */
export function questionIdOf(record: JsonObject, path: string, problems: Problem[]): Cell {
  const { question } = record
  const own = isObject(question)
    ? cellsOf(QUESTION_ID, question, `${path}.question`, problems)[0]!
    : readCell('reference', question, `${path}.question`, problems)
  return own ?? readCell('reference', record.question_id, `${path}.question_id`, problems)
}

/** Id of the question of an answer. */
export function answeredQuestionOf({ record, path, key }: Answer, problems: Problem[]): Cell {
  return questionIdOf(record, path, problems) ?? readCell('reference', key, path, problems)
}

const QUESTION_TEXT = ['text', 'question_text']

/** Text of the question of an answer, or of a part that has its question. */
export function questionTextOf(
  { record, path, key = null }: Pick<Answer, 'record' | 'path'> & Partial<Pick<Answer, 'key'>>,
  problems: Problem[],
): Cell {
  if (isObject(record.question)) {
    const { field, value } = firstOf(record.question, QUESTION_TEXT)
    if (value !== null) return readCell('text', value, `${path}.question.${field}`, problems)
  }
  // Under its question's id, the text of an answer is in answer_text, and `text` is the question's.
  const { field, value } = firstOf(record, key === null ? ['question_text'] : ['question_text', 'text'])
  return readCell('text', value, `${path}.${field}`, problems)
}
