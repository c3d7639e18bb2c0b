/**
 * An incremental decoder of a JSON string, for a file that is one.
 *
 * Invariant: the output does not depend on how the input is split into pieces. An escaped lone surrogate is decoded to
 * three bytes that are not UTF-8, so that it is found and escaped visibly like any such byte.
 */
import { MalformedFile } from './file-problems.ts'

export interface JsonString {
  /** Decodes a piece. Throws `MalformedFile` if it is not part of a JSON string. */
  write(piece: Buffer): Buffer
  /** Throws `MalformedFile` when the string has no end. */
  end(): void
}

const QUOTE = 0x22
const BACKSLASH = 0x5c
const BLANK = new Set([0x20, 0x09, 0x0a, 0x0d])

const SHORT: ReadonlyMap<number, number> = new Map(
  [...'"\\/bfnrt'].map((character, index) => [character.charCodeAt(0), '"\\/\b\f\n\r\t'.charCodeAt(index)]),
)

/** The input may start with blanks before the opening quote. */
export function openJsonString(): JsonString {
  let place: 'before' | 'inside' | 'after' = 'before'
  /** An escape that has begun: the bytes after its backslash, null outside of one. */
  let escaped: string | null = null
  /** A high surrogate whose other half may follow. */
  let high: number | null = null
  let line = 1
  let out = Buffer.alloc(0)
  let length = 0

  function put(bytes: Uint8Array | readonly number[]): void {
    for (const byte of bytes) out[length++] = byte
  }

  function putUnit(unit: number): void {
    if (high !== null) {
      const first = high
      high = null
      if (unit >= 0xdc00 && unit <= 0xdfff) {
        put(Buffer.from(String.fromCharCode(first, unit)))
        return
      }
      put(threeBytes(first))
    }
    if (unit >= 0xd800 && unit <= 0xdbff) high = unit
    else if (unit >= 0xdc00 && unit <= 0xdfff) put(threeBytes(unit))
    else put(Buffer.from(String.fromCharCode(unit)))
  }

  function flushHigh(): void {
    if (high !== null) put(threeBytes(high))
    high = null
  }

  /** Reads the next byte of the current escape. */
  function readEscape(begun: string, byte: number): void {
    const plain = begun === '' ? SHORT.get(byte) : undefined
    const text = begun + String.fromCharCode(byte)
    if (plain !== undefined) {
      if (plain === 0x0a) line += 1
      putUnit(plain)
      escaped = null
    } else if (/^u[\da-fA-F]{4}$/.test(text)) {
      putUnit(Number.parseInt(text.slice(1), 16))
      escaped = null
    } else if (/^u[\da-fA-F]{0,3}$/.test(text)) {
      escaped = text
    } else {
      throw new MalformedFile('an escape that JSON does not have', line)
    }
  }

  function write(piece: Buffer): Buffer {
    // An escape is longer than its value; a pending surrogate adds a few bytes.
    out = Buffer.allocUnsafe(piece.length + 8)
    length = 0
    for (let index = 0; index < piece.length; index++) {
      const byte = piece[index]!
      if (escaped !== null) {
        readEscape(escaped, byte)
      } else if (place !== 'inside') {
        if (BLANK.has(byte)) continue
        if (place === 'after' || byte !== QUOTE)
          throw new MalformedFile('bytes outside the JSON string', line)
        place = 'inside'
      } else if (byte === BACKSLASH) {
        escaped = ''
      } else {
        flushHigh()
        if (byte === QUOTE) place = 'after'
        else out[length++] = byte
      }
    }
    return out.subarray(0, length)
  }

  function end(): void {
    if (place !== 'after') throw new MalformedFile('a JSON string without end', line)
  }

  return { write, end }
}

/** As UTF-8 would write a surrogate if it were a character. */
function threeBytes(unit: number): readonly number[] {
  return [0xe0 | (unit >> 12), 0x80 | ((unit >> 6) & 0x3f), 0x80 | (unit & 0x3f)]
}
