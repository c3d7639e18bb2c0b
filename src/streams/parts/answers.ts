/**
 * The answers of a response, whichever way they are written: a list, or an object keyed by the questions' ids.
 *
 * Invariant: every answer is found once and has its place in the order of the payload; nulls in a list are no answers
 * and keep their place, while a question that an object names was answered, if with nothing.
 */
import { isLosslessNumber, isObject, type JsonObject } from '../../core/json.ts'
import type { Problem } from '../../core/problem.ts'
import { column } from '../stream.ts'
import { type Cell, readCell } from './cell.ts'
import { cellsOf, type Item, itemsOf } from './parts.ts'

export interface Answer {
  /** One that came as bare text stands in `answer_text` of an object. */
  readonly record: JsonObject
  readonly position: number
  readonly path: string
  /** Id of the question it was found under. */
  readonly key: string | null
}

/** Each answer, in order. */
export function answersOf(response: JsonObject, problems: Problem[]): readonly Answer[] {
  const { answers } = response
  const items: Iterable<Keyed> = isObject(answers)
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

interface Keyed extends Item {
  readonly key?: string
}

function* underKeys(answers: JsonObject): Generator<Keyed> {
  let position = 0
  for (const [key, held] of Object.entries(answers)) {
    const path = `answers.${key}`
    if (!Array.isArray(held) || held.length === 0) {
      // An empty list is an answer of nothing.
      position += 1
      yield { value: Array.isArray(held) ? null : held, position, path, key }
    } else {
      for (let at = 0; at < held.length; at++) {
        position += 1
        yield { value: held[at], position, path: `${path}[${at}]`, key }
      }
    }
  }
}

const NOTHING: JsonObject = {}

function asRecord(value: unknown): JsonObject | null {
  if (isObject(value)) return value
  if (value === null || value === undefined) return NOTHING
  return typeof value !== 'object' || isLosslessNumber(value) ? { answer_text: value } : null
}

const QUESTION_ID = [column('reference', 'id', 'uid')]

/** Id of the question that something answers: its own reference, or an object with the question's id. */
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
