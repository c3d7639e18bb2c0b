/**
 * The questions of a form, wherever the form keeps them: `questions`, or nested in pages, sections and rows
 * (specification, section 2.3).
 *
 * Invariant: every question is found once and keeps its place in the order of the payload.
 */

import type { Problem } from '../../core/envelope.ts'
import { isObject, type JsonObject } from '../../core/json.ts'
import { type Item, itemsOf } from './parts.ts'

/** Levels that a form may nest its questions in, outermost first. */
const LEVELS = ['pages', 'sections', 'rows'] as const

export interface Question {
  readonly record: JsonObject
  readonly position: number
  readonly path: string
}

/** True when the form holds questions in some place, even if there are none. */
export function hasQuestions(form: JsonObject): boolean {
  return 'questions' in form || LEVELS.some((level) => level in form)
}

export function questionsOf(form: JsonObject, problems: Problem[]): readonly Question[] {
  const found: Found = { items: [], places: 0 }
  collect(form, '', found, problems)
  const questions: Question[] = []
  for (const { value, position, path } of found.items) {
    if (isObject(value)) questions.push({ record: value, position, path })
    else problems.push({ path, reason: 'not an object', original: value })
  }
  return questions
}

interface Found {
  readonly items: Item[]
  /** Places passed so far, those of nulls included. */
  places: number
}

function collect(node: JsonObject, path: string, into: Found, problems: Problem[]): void {
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
