/**
 * One text for one content: JSON with sorted keys and no blanks, whatever order the service wrote them in.
 *
 * Invariant: equal contents give equal text, numbers keep the digits they came with, and the text is what
 * `intake_raw` stores and what the content hash is taken of. Written by hand because it is the hottest loop of a
 * run: the sorted key order of each shape of object is remembered, and text is only escaped where it has to be.
 */
import { hash } from 'node:crypto'
import { IntakeError } from './errors.ts'
import { isLosslessNumber } from './json.ts'

/** Deeper than any record of the service, and shallow enough for every Postgres to read as jsonb. */
const DEEPEST = 400

const NEEDS_ESCAPE = /["\\\u0000-\u001f\ud800-\udfff]/

/** Shapes remembered at most; a source whose keys are data (custom fields) must not fill the memory. */
const REMEMBERED = 4096

const sortedKeys = new Map<string, readonly string[]>()
const quotedKeys = new Map<string, string>()

/** The canonical JSON text of a parsed value. Throws `IntakeError` (set aside) when it is nested too deeply. */
export function canonicalText(value: unknown, depth = 0): string {
  if (typeof value === 'string') return NEEDS_ESCAPE.test(value) ? JSON.stringify(value) : `"${value}"`
  if (value === null || value === undefined) return 'null'
  if (typeof value !== 'object') return JSON.stringify(value)
  if (isLosslessNumber(value)) return value.value
  if (depth > DEEPEST) {
    throw new IntakeError(`nested more than ${DEEPEST} levels deep`, {
      code: 'too_deep',
      verdict: 'set_aside',
    })
  }
  if (Array.isArray(value)) {
    let text = '['
    for (let at = 0; at < value.length; at++) text += (at ? ',' : '') + canonicalText(value[at], depth + 1)
    return `${text}]`
  }
  const keys = keysInOrder(value)
  let text = '{'
  for (let at = 0; at < keys.length; at++) {
    const key = keys[at]!
    text += (at ? ',' : '') + quoted(key) + canonicalText((value as Record<string, unknown>)[key], depth + 1)
  }
  return `${text}}`
}

/** The content hash of a canonical text: the first 128 bits of its SHA-256, as 32 hex digits. */
export function contentHash(text: string): string {
  return hash('sha256', text, 'hex').slice(0, 32)
}

function keysInOrder(value: object): readonly string[] {
  const keys = Object.keys(value)
  const shape = keys.join('\u0000')
  const known = sortedKeys.get(shape)
  if (known !== undefined && known.length === keys.length) return known
  // A key that holds the separator would make two shapes look alike: such a shape is not remembered.
  const tellable = !keys.some((key) => key.includes('\u0000'))
  keys.sort()
  if (tellable && sortedKeys.size < REMEMBERED) sortedKeys.set(shape, keys)
  return keys
}

function quoted(key: string): string {
  const known = quotedKeys.get(key)
  if (known !== undefined) return known
  const text = `${JSON.stringify(key)}:`
  if (quotedKeys.size < REMEMBERED) quotedKeys.set(key, text)
  return text
}
