/**
 * Canonical JSON: sorted keys and no blanks, so that equal contents give equal text whatever order the service writes.
 *
 * Invariant: numbers keep the digits that were received, and the text is what `intake_raw` stores and the content hash
 * covers. Written by hand because it is the hottest loop of a run: the sorted key order of each shape of object is
 * cached, and text is escaped only where needed.
 */
import { hash } from 'node:crypto'
import { IntakeError } from './errors.ts'
import { isLosslessNumber } from './json.ts'

/** Deeper than any record of the service, and shallow enough for every Postgres to read as jsonb. */
const DEEPEST = 400

/**
 * Prefix of a number that Postgres cannot store. It is not valid JSON, and such a text is never stored: it is hashed,
 * and then written again from the storable form of its value.
 */
const UNSTORABLE = '\\u'

const NEEDS_ESCAPE = /["\\\u0000-\u001f\ud800-\udfff]/

/** A number that jsonb returns with other digits: one with an exponent, or negative zero. */
const REWRITTEN = /[eE]|^-0(?:\.0*)?$/

/** A counter rather than a return value: such numbers are rare, and `canonicalText` recurses. */
let rewritten = 0

/** Numbers so far that jsonb writes differently. A text contains one if writing it raised this count. */
export function rewrittenNumbersMet(): number {
  return rewritten
}

/** Shapes cached for each number of keys; a source whose keys are data must not fill the memory. */
const REMEMBERED = 16

/** Digits on either side of the point that Postgres' `numeric` always accepts. */
const NUMERIC_DIGITS = 10_000

/** Keys in the order of the object, sorted, and the text before the value of each (`quoted`: before a string value). */
interface Shape {
  readonly keys: readonly string[]
  readonly sorted: readonly string[]
  readonly leads: readonly string[]
  readonly quoted: readonly string[]
}

const shapes = new Map<number, Shape[]>()

/** The canonical JSON text of a parsed value. Throws `IntakeError` (verdict `dead_letter`) when it is nested too deeply. */
export function canonicalText(value: unknown, depth = 0): string {
  if (typeof value === 'string') return NEEDS_ESCAPE.test(value) ? JSON.stringify(value) : `"${value}"`
  if (value === null || value === undefined) return 'null'
  if (typeof value !== 'object') return JSON.stringify(value)
  if (isLosslessNumber(value)) {
    if (REWRITTEN.test(value.value)) rewritten += 1
    return isWithinNumeric(value.value) ? value.value : `${UNSTORABLE}${value.value}`
  }
  if (depth > DEEPEST) {
    throw new IntakeError(`nested more than ${DEEPEST} levels deep`, {
      code: 'too_deep',
      verdict: 'dead_letter',
    })
  }
  if (Array.isArray(value)) {
    let text = '['
    for (let index = 0; index < value.length; index++)
      text += (index ? ',' : '') + canonicalText(value[index], depth + 1)
    return `${text}]`
  }
  const { sorted, leads, quoted } = shapeOf(Object.keys(value))
  if (sorted.length === 0) return '{}'
  let text = ''
  for (let index = 0; index < sorted.length; index++) {
    const item = (value as Record<string, unknown>)[sorted[index]!]
    if (typeof item === 'string' && !NEEDS_ESCAPE.test(item)) text += `${quoted[index]!}${item}"`
    else text += leads[index]! + canonicalText(item, depth + 1)
  }
  return `${text}}`
}

/** The content hash of a canonical text: the first 128 bits of its SHA-256, as 32 hex digits. */
export function contentHash(text: string): string {
  return hash('sha256', text, 'hex').slice(0, 32)
}

/** True when `numeric`, and so jsonb, can hold the number that `text` writes. */
export function isWithinNumeric(text: string): boolean {
  const [digits, exponent] = text.toLowerCase().split('e')
  return digits!.length + Math.abs(Number(exponent ?? 0)) <= NUMERIC_DIGITS
}

/** Object keys are interned, so comparing them one by one costs less than a lookup by the joined keys. */
function shapeOf(keys: readonly string[]): Shape {
  const known = shapes.get(keys.length) ?? []
  for (const shape of known) {
    if (hasKeys(shape, keys)) return shape
  }
  const sorted = [...keys].sort()
  const leads = sorted.map((key, index) => `${index === 0 ? '{' : ','}${JSON.stringify(key)}:`)
  const shape = { keys, sorted, leads, quoted: leads.map((lead) => `${lead}"`) }
  if (known.length < REMEMBERED) shapes.set(keys.length, [...known, shape])
  return shape
}

function hasKeys(shape: Shape, keys: readonly string[]): boolean {
  for (let index = 0; index < keys.length; index++) if (shape.keys[index] !== keys[index]) return false
  return true
}
