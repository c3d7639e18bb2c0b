/**
 * Reading keys that contain an escape.
 *
 * Since V8 13 (Node 24), `JSON.parse` reads some keys of one or two characters that contain an escape as other keys, such
 * as a backslash. It reads values well, so such keys are read as values.
 */
import { LosslessNumber } from 'lossless-json'

export const MISREADS_KEYS = Number.parseInt(process.versions.v8, 10) >= 13

/**
 * JSON in which each key with an escape is `mark` and its place in `keys`, and so is each other key that says the same: of
 * keys that repeat, the last one counts. Throws `SyntaxError` for a wrong escape.
 */
export function withoutEscapedKeys(text: string, mark: string, keys: string[]): string {
  const escaped: string[] = []
  withoutKeys(text, mark, escaped, new Set())
  return escaped.length === 0 ? text : withoutKeys(text, mark, keys, new Set(escaped))
}

function withoutKeys(text: string, mark: string, keys: string[], also: ReadonlySet<string>): string {
  const parts: string[] = []
  let from = 0
  let slash = text.indexOf('\\')
  for (let start = text.indexOf('"'); start >= 0 && (slash >= 0 || also.size > 0); ) {
    let [end, isEscaped] = [text.indexOf('"', start + 1), false]
    while (slash >= 0 && slash < end) {
      isEscaped = true
      if (end <= slash + 1) end = text.indexOf('"', slash + 2)
      slash = text.indexOf('\\', slash + 2)
    }
    if (end < 0) break
    const isMarked = isEscaped || (also.size > 0 && also.has(text.slice(start + 1, end)))
    if (isMarked && isBeforeColon(text, end + 1)) {
      parts.push(text.slice(from, start), `"${mark}${keys.length}"`)
      keys.push(JSON.parse(text.slice(start, end + 1)) as string)
      from = end + 1
    }
    start = text.indexOf('"', end + 1)
  }
  return from === 0 ? text : parts.join('') + text.slice(from)
}

function isBeforeColon(text: string, index: number): boolean {
  let next = index
  while (text.charCodeAt(next) <= 0x20) next += 1
  return text[next] === ':'
}

/** The value with its keys in the place of marked ones. */
export function withKeys(value: unknown, mark: string, keys: readonly string[]): unknown {
  if (typeof value !== 'object' || value === null || value instanceof LosslessNumber) return value
  if (Array.isArray(value)) return value.map((item) => withKeys(item, mark, keys))
  // A repeated key keeps its first place and its last value; `__proto__` is a key like others.
  return Object.fromEntries(
    Object.entries(value).map(([key, item]) => [
      key.startsWith(mark) ? keys[Number(key.slice(mark.length))]! : key,
      withKeys(item, mark, keys),
    ]),
  )
}
