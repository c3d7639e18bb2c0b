/**
 * The questions of a form, wherever the form keeps them: `questions`, or nested in pages, sections and rows
 * (specification, section 2.3).
 *
 * Invariant: every question is found once and keeps its place in the order of the payload.
 */
import { isObject, type JsonObject } from '../core/json.ts'
import type { Problem } from '../core/problem.ts'
import { type Item, itemsOf } from './parts.ts'

/** Levels that a form may nest its questions in, outermost first. */
const LEVELS = ['pages', 'sections', 'rows'] as const

export interface Question {
  readonly record: JsonObject
  readonly position: number
  readonly path: string
}

/** True when the form holds questions in some place, even if there are none. */
export function holdsQuestions(form: JsonObject): boolean {
  return 'questions' in form || LEVELS.some((level) => level in form)
}

export function questionsOf(form: JsonObject, problems: Problem[]): readonly Question[] {
  const items: Item[] = []
  collect(form, '', items, problems)
  const questions: Question[] = []
  items.forEach((item, at) => {
    if (isObject(item.value)) questions.push({ record: item.value, position: at + 1, path: item.path })
    else problems.push({ path: item.path, reason: 'not an object', original: item.value })
  })
  return questions
}

function collect(node: JsonObject, path: string, into: Item[], problems: Problem[]): void {
  const at = (field: string) => (path === '' ? field : `${path}.${field}`)
  const own = itemsOf(node.questions, at('questions'), problems)
  into.push(...own)
  // A form that lists its questions may repeat them in its pages.
  if (own.length > 0) return
  for (const level of LEVELS) {
    for (const item of itemsOf(node[level], at(level), problems)) {
      if (isObject(item.value)) collect(item.value, item.path, into, problems)
      else problems.push({ path: item.path, reason: 'not an object', original: item.value })
    }
  }
}
