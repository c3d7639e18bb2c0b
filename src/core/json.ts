/**
 * Reading JSON without losing a value (law 4).
 *
 * Invariant: every number in the result either prints back exactly as it was written, or is a `LosslessNumber` that
 * holds its text, as every one with an exponent is; every byte that was not UTF-8 is a lone surrogate U+DC80…U+DCFF
 * in the result (`\x96` right after a lone high one), and `invalidUtf8` says so. A repeated key keeps its last value, as
 * `JSON.parse` does.
 *
 * The native parser is about twenty times faster than any parser written in JavaScript, so it reads every body. Numbers
 * that it would change are strings while it does: a large body with one of them must not take longer than the others.
 */
import { isUtf8 } from 'node:buffer'
import { randomBytes } from 'node:crypto'
import { LosslessNumber } from 'lossless-json'
import { MISREADS_KEYS, withKeys, withoutEscapedKeys } from './escaped-keys.ts'

export interface ParsedJson {
  readonly value: unknown
  readonly invalidUtf8: boolean
}

/** A JSON object, as every record of the service is. */
export type JsonObject = { readonly [key: string]: unknown }

export function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && !isLosslessNumber(value)
}

/** Only values parsed here contain one, so one class is enough to test for; the library's own test is slower. */
export function isLosslessNumber(value: unknown): value is LosslessNumber {
  return value instanceof LosslessNumber
}

export { LosslessNumber }

/**
 * A number whose text may differ from what JavaScript prints for it: -0, more than fifteen digits, an ending zero
 * after the point, one that is small enough to be printed with an exponent, an exponent. A match inside a string
 * costs time only.
 */
const LOSSY_NUMBER =
  /(?:^|[[:,\s])(?=[-\d])(?:-0|-?[\d.]{16,}|-?\d+\.\d*0|-?0\.000000\d+|-?\d[\d.]*[eE][-+]?\d+)(?=[\s,\]}]|$)/

/** Parses a body of the service. Throws `SyntaxError` when it is not JSON, or is nested too deeply to read. */
export function parseJson(body: Uint8Array): ParsedJson {
  const invalidUtf8 = !isUtf8(body)
  const text = withoutBom(
    invalidUtf8
      ? decodeEscaping(body)
      : Buffer.from(body.buffer, body.byteOffset, body.byteLength).toString('utf8'),
  )
  return { value: parseText(text), invalidUtf8 }
}

/** The text that is stored in place of a value that is nested too deeply. */
export const TOO_DEEP = '(nested too deeply to be written)'

/** More levels and values than any record of the service has; parsed, each value costs fifty bytes and a microsecond. */
const MAX_DEPTH = 512
const MAX_VALUES = 100_000
/** A body of so few bytes can do no harm. */
const HARMLESS_BYTES = 2_048

/** A body that is not parsed, because it has too many levels or values. */
export class TooComplex extends SyntaxError {}

/** As `parseJson`, for a body that its sender chose freely: it is measured before it costs memory. */
export function parseBounded(body: Uint8Array): ParsedJson {
  if (isTooComplex(body)) throw new TooComplex('too many levels or values to read')
  return parseJson(body)
}

const QUOTE = 0x22
const BACKSLASH = 0x5c
const COMMA = 0x2c

/** Counts brackets and commas outside of strings; says nothing about the rest of the grammar. */
export function isTooComplex(body: Uint8Array): boolean {
  if (body.length <= HARMLESS_BYTES) return false
  let depth = 0
  let values = 0
  for (let index = 0; index < body.length; index += 1) {
    const byte = body[index]!
    if (byte === QUOTE) {
      index += 1
      while (index < body.length && body[index] !== QUOTE) index += body[index] === BACKSLASH ? 2 : 1
    } else if (byte === COMMA) {
      values += 1
    } else if ((byte | 0x20) === 0x7b) {
      // `[` or `{`
      depth += 1
      values += 1
      if (depth > MAX_DEPTH) return true
    } else if ((byte | 0x20) === 0x7d) {
      depth -= 1
    }
    if (values > MAX_VALUES) return true
  }
  return false
}

/** As `parseJson`, for text that is decoded already. */
export function parseText(text: string): unknown {
  const keys: string[] = []
  const plain = MISREADS_KEYS && text.includes('\\') ? withoutEscapedKeys(text, MARK, keys) : text
  const value: unknown = JSON.parse(plain)
  const isLossy = LOSSY_NUMBER.test(plain)
  if (!isLossy && keys.length === 0) return value
  try {
    const read = isLossy ? withNumbers(JSON.parse(withoutLossyNumbers(plain))) : value
    return keys.length === 0 ? read : withKeys(read, MARK, keys)
  } catch (error) {
    if (error instanceof RangeError) throw new SyntaxError('nested too deeply to read')
    throw error
  }
}

/** Before the text of a number that is kept as a string for a moment. No sender knows it. */
const MARK = randomBytes(12).toString('base64')
const MINUS = 0x2d

/** Valid JSON in which each number that JavaScript would print differently is a string: `MARK` and the number. */
function withoutLossyNumbers(text: string): string {
  const parts: string[] = []
  let from = 0
  for (let index = 0; index < text.length; index += 1) {
    const unit = text.charCodeAt(index)
    if (unit === QUOTE) {
      index += 1
      for (let each = text.charCodeAt(index); each !== QUOTE; each = text.charCodeAt(index))
        index += each === BACKSLASH ? 2 : 1
    } else if (unit === MINUS || isDigit(unit)) {
      const start = index
      while (isPartOfNumber(text.charCodeAt(index + 1))) index += 1
      const number = text.slice(start, index + 1)
      if (number.length < 25 && !/e/i.test(number) && String(Number(number)) === number) continue
      parts.push(text.slice(from, start), '"', MARK, number, '"')
      from = index + 1
    }
  }
  parts.push(text.slice(from))
  return parts.join('')
}

const isDigit = (unit: number) => unit >= 0x30 && unit <= 0x39

/** A digit, `+`, `-`, `.`, `e` or `E`. */
const isPartOfNumber = (unit: number) =>
  isDigit(unit) || unit === 0x2b || unit === MINUS || unit === 0x2e || (unit | 0x20) === 0x65

/** The value with a number in the place of each marked string; changes it in place. */
function withNumbers(value: unknown): unknown {
  if (typeof value === 'string')
    return value.startsWith(MARK) ? new LosslessNumber(value.slice(MARK.length)) : value
  if (typeof value !== 'object' || value === null) return value
  if (Array.isArray(value)) {
    for (let index = 0; index < value.length; index++) {
      const read = withNumbers(value[index])
      if (read !== value[index]) value[index] = read
    }
    return value
  }
  for (const key of Object.keys(value)) {
    const own = (value as Record<string, unknown>)[key]
    const read = withNumbers(own)
    // A key may be `__proto__`, which an assignment would not set.
    if (read !== own)
      Object.defineProperty(value, key, { value: read, enumerable: true, writable: true, configurable: true })
  }
  return value
}

const HIGH_SURROGATE_ESCAPE = /^\\u[dD][89abAB][\da-fA-F]{2}$/

function withoutBom(text: string): string {
  return text.charCodeAt(0) === 0xfeff ? text.slice(1) : text
}

/** UTF-8 where it is UTF-8; every other byte as the lone surrogate U+DC00 + byte. */
function decodeEscaping(body: Uint8Array): string {
  let text = ''
  let start = 0
  const buffer = Buffer.from(body.buffer, body.byteOffset, body.byteLength)
  for (let index = 0; index < buffer.length; ) {
    const length = sequenceLength(buffer, index)
    if (length > 0) {
      index += length
      continue
    }
    text += buffer.toString('utf8', start, index)
    // After an escaped high surrogate a lone one would make a pair, which is a character that nobody sent.
    text += HIGH_SURROGATE_ESCAPE.test(buffer.toString('latin1', Math.max(0, index - 6), index))
      ? `\\\\x${buffer[index]!.toString(16)}`
      : String.fromCharCode(0xdc00 + buffer[index]!)
    index += 1
    start = index
  }
  return text + buffer.toString('utf8', start)
}

/** Length of the valid UTF-8 sequence at `at`, 0 when there is none. */
function sequenceLength(buffer: Buffer, at: number): number {
  const first = buffer[at]!
  if (first < 0x80) return 1
  const length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2
  // A sequence that the end of the body cuts short is none.
  return isUtf8(buffer.subarray(at, at + length)) ? length : 0
}
