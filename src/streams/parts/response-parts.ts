/**
 * The matrix cells, files and e-signatures of a response, under each of their known names, in the response or in its
 * answers.
 *
 * Invariant: every part is found once, and numbered within the response: first parts of answers, in the order of the
 * answers, then parts of the response itself. A part of an answer has the question of that answer.
 */

import type { Problem } from '../../core/envelope.ts'
import { isObject, type JsonObject } from '../../core/json.ts'
import { answeredQuestionOf, answersOf, questionIdOf } from './answers.ts'
import type { Cell } from './cell.ts'
import { itemsOf, objectOf } from './parts.ts'

export const CELL_FIELDS = ['matrix_cells', 'matrix_answers', 'matrix'] as const
export const FILE_FIELDS = ['files', 'uploads', 'attachments'] as const
export const SIGNATURE_FIELDS = ['e_signatures', 'esignatures', 'signatures'] as const

export interface Part {
  readonly record: JsonObject
  readonly position: number
  readonly path: string
  readonly questionId: Cell
}

/** The parts under any of `fields`. */
export function partsOf(
  response: JsonObject,
  fields: readonly string[],
  problems: Problem[],
): readonly Part[] {
  const parts: Part[] = []
  let places = 0

  function collect(holder: JsonObject, path: string, questionOf: () => Cell): void {
    for (const field of fields) {
      const list = holder[field]
      if (list === undefined || list === null) continue
      for (const item of itemsOf(list, path === '' ? field : `${path}.${field}`, problems)) {
        const record = objectOf(item.value, item.path, problems)
        if (record === null) continue
        const questionId = questionOf() ?? questionIdOf(record, item.path, problems)
        parts.push({ record, position: places + item.position, path: item.path, questionId })
      }
      places += Array.isArray(list) ? list.length : 0
    }
  }

  if (mayNest(response.answers, fields)) {
    for (const answer of answersOf(response, []))
      collect(answer.record, answer.path, () => answeredQuestionOf(answer, []))
  }
  collect(response, '', () => null)
  return parts
}

/** Quick test: false if no answer has a part, which is usual. */
function mayNest(answers: unknown, fields: readonly string[]): boolean {
  if (!Array.isArray(answers)) return isObject(answers)
  return answers.some((answer) => isObject(answer) && fields.some((field) => field in answer))
}
