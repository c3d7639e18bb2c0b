/**
 * The common parts of shapes, and records of the service as values of their shape.
 *
 * Invariant: shapes describe, they do not filter: an optional part may be null, empty or absent. The result of `typed`
 * matches the shape, whatever the service sent. Unknown fields stay. A field or list element of an unexpected type is left
 * out and reported (law 4 does the same with a column); nothing throws because of a field, since the call may have been a
 * write. A problem names the place and the expected type, never the value.
 */
import { z } from 'zod'
import { isLosslessNumber } from '../../core/json.ts'

/** The service does not promise UUIDs: an id is text or a number, under `id` or `uid`. */
export const Id = z.union([z.string(), z.number()])

export const Optional = z.string().nullish()

export const identified = { id: Id.optional(), uid: Id.optional() }

/** A reference to another record: its id, an object with the id, or nothing. */
export const Reference = z.union([Id, z.looseObject({ ...identified, name: Optional })]).nullish()

/** A field that could not be read as its type. */
export interface FieldProblem {
  /** From the record or the list, as `answers.0.question_id`. */
  readonly path: string
  /** As `string`, or `string or number`. */
  readonly expected: string
}

export interface Typed<Shape> {
  readonly record: Shape
  readonly problems: readonly FieldProblem[]
}

/** Deeper than any record; what is below is returned as received. */
const DEEPEST = 200

type Path = readonly PropertyKey[]
type Issue = z.core.$ZodIssue

/** Null if `value` is no record at all, or lacks a field without which it is none. */
export function typed<Schema extends z.ZodType>(
  schema: Schema,
  value: unknown,
): Typed<z.output<Schema>> | null {
  const problems: FieldProblem[] = []
  let current = plain(value)
  for (;;) {
    const result = schema.safeParse(current)
    // Shapes check and change nothing, so the value itself is of their type.
    if (result.success) return { record: current as z.output<Schema>, problems }
    const found = result.error.issues.flatMap((issue) => wrongFields(issue, []))
    // From the back, so that the places of earlier elements stay right.
    const places = [...new Map(found.map((each) => [each.path.join('\0'), each])).values()].reverse()
    const before = problems.length
    for (const { path, expected } of places) {
      const next = without(current, path)
      if (next === undefined) continue
      current = next
      problems.push({ path: path.map(String).join('.'), expected })
    }
    if (problems.length === before) return null
  }
}

interface WrongField {
  readonly path: Path
  readonly expected: string
}

/** The fields behind an issue: of a union, those of the alternative that is of the value's kind, if there is one. */
function wrongFields(issue: Issue, above: Path): readonly WrongField[] {
  const path = [...above, ...issue.path]
  if (issue.code === 'invalid_union') {
    const inner = issue.errors.find((issues) => issues.every((each) => each.path.length > 0))
    if (inner !== undefined) return inner.flatMap((each) => wrongFields(each, path))
  }
  return [{ path, expected: expectedBy(issue) }]
}

function expectedBy(issue: Issue): string {
  if (issue.code === 'invalid_union') return [...new Set(issue.errors.flat().map(expectedBy))].join(' or ')
  if (issue.code !== 'invalid_type') return 'another value'
  return issue.expected === 'record' ? 'object' : issue.expected
}

/** A copy of `value` without the field or element at `path`; undefined if there is none. */
function without(value: unknown, [key, ...rest]: Path): unknown {
  if (key === undefined || typeof value !== 'object' || value === null) return undefined
  if (rest.length > 0) {
    const inner = without((value as Record<PropertyKey, unknown>)[key], rest)
    if (inner === undefined) return undefined
    if (Array.isArray(value)) return value.map((each, index) => (index === key ? inner : each))
    return { ...value, [key]: inner }
  }
  if (Array.isArray(value))
    return (key as number) < value.length ? value.filter((_, index) => index !== key) : undefined
  if (!Object.hasOwn(value, key)) return undefined
  return Object.fromEntries(Object.entries(value).filter(([name]) => name !== key))
}

/** Numbers as JavaScript has them; an integer that it cannot carry is the text of its digits. */
function plain(value: unknown, depth = 0): unknown {
  if (isLosslessNumber(value)) {
    const number = Number(value.value)
    return Number.isInteger(number) && !Number.isSafeInteger(number) ? value.value : number
  }
  if (typeof value !== 'object' || value === null || depth > DEEPEST) return value
  if (Array.isArray(value)) return value.map((each) => plain(each, depth + 1))
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, plain(inner, depth + 1)]))
}
