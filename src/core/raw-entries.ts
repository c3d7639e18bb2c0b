/**
 * The entries of a list as bytes, cut out of its body without parsing them.
 *
 * Invariant: body and entries are JSON exactly where the body is: an entry begins and ends where a parser would find it,
 * and the rest is parsed with a text in its place. Errors in an entry are found when it is parsed.
 */
import { isUtf8 } from 'node:buffer'
import { randomBytes } from 'node:crypto'
import { type ParsedJson, parseJson } from './json.ts'

/** An object in a list that is the body, or one of its fields. */
export class RawEntry {
  readonly bytes: Buffer
  constructor(bytes: Buffer) {
    this.bytes = bytes
  }
  /** Throws `SyntaxError`. */
  parse(): unknown {
    return parseJson(this.bytes).value
  }
}

/** Stands for an entry while the rest is parsed. No sender knows it. */
const MARK = randomBytes(12).toString('base64')

const QUOTE = 0x22
const COMMA = 0x2c
const ARRAY = 0x5b
const BACKSLASH = 0x5c
const OBJECT = 0x7b

/**
 * Parses a body with its list entries as `RawEntry`; one that is not UTF-8 as a whole. Throws `SyntaxError`, though not
 * for the entries.
 */
export function parseEntries(body: Uint8Array): ParsedJson {
  const bytes = Buffer.from(body.buffer, body.byteOffset, body.byteLength)
  if (!isUtf8(bytes)) return parseJson(body)
  const entries: RawEntry[] = []
  const { value } = parseJson(Buffer.from(withoutEntries(bytes, entries)))
  const lists = Array.isArray(value) ? [value] : Object.values(value ?? {}).filter(Array.isArray)
  for (const list of lists) {
    for (let index = 0; index < list.length; index++) {
      const item: unknown = list[index]
      if (typeof item === 'string' && item.startsWith(MARK))
        list[index] = entries[Number(item.slice(MARK.length))]
    }
  }
  return { value, invalidUtf8: false }
}

/** The body's text with a marked string for each entry. */
function withoutEntries(body: Buffer, entries: RawEntry[]): string {
  const parts: string[] = []
  let [from, start, depth, listDepth] = [0, 0, 0, 0]
  for (let index = 0; index < body.length; index++) {
    const byte = body[index]!
    if (byte === QUOTE) {
      index += 1
      while (index < body.length && body[index] !== QUOTE) index += body[index] === BACKSLASH ? 2 : 1
    } else if (byte <= COMMA) {
    } else if (byte === OBJECT || byte === ARRAY) {
      if (depth === listDepth && depth > 0 && byte === OBJECT) start = index
      depth += 1
      // The body itself, or the value of one of its fields.
      if (byte === ARRAY && (depth === 1 || (depth === 2 && listDepth === 0))) listDepth = depth
    } else if (byte === OBJECT + 2 || byte === ARRAY + 2) {
      depth -= 1
      if (depth < listDepth) listDepth = 0
      else if (depth === listDepth && start > 0) {
        parts.push(body.toString('utf8', from, start), `"${MARK}${entries.length}"`)
        entries.push(new RawEntry(body.subarray(start, index + 1)))
        from = index + 1
        start = 0
      }
    }
  }
  parts.push(body.toString('utf8', from))
  return parts.join('')
}
