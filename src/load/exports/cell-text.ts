/**
 * A cell's bytes as text that Postgres can store.
 *
 * Invariant: a byte that is not UTF-8 becomes `\x96`, a NUL becomes `\u0000`, and in a file that is a JSON string an
 * escaped lone surrogate becomes `\ud83d`; all other bytes are decoded as UTF-8.
 */
import { isUtf8 } from 'node:buffer'

/** `cell` has one character per byte. */
export function decodedCell(cell: string): string {
  return isAscii(cell) ? cell : Buffer.from(cell, 'latin1').toString('utf8')
}

/** As `decodedCell`, for a cell that may contain bytes that cannot be stored. */
export function visibleCell(
  cell: string,
  fromJson: boolean,
): { readonly text: string; readonly changed: boolean } {
  const bytes = Buffer.from(cell, 'latin1')
  if (isUtf8(bytes) && !bytes.includes(0)) return { text: bytes.toString('utf8'), changed: false }
  let text = ''
  for (let index = 0; index < bytes.length; ) {
    const length = characterLength(bytes, index)
    const surrogate = fromJson && length === 0 ? surrogateAt(bytes, index) : null
    if (length > 0) text += bytes[index] === 0 ? '\\u0000' : bytes.toString('utf8', index, index + length)
    else if (surrogate !== null) text += `\\u${surrogate.toString(16)}`
    else text += `\\x${bytes[index]!.toString(16)}`
    index += length > 0 ? length : surrogate === null ? 1 : 3
  }
  return { text, changed: true }
}

function isAscii(text: string): boolean {
  for (let index = 0; index < text.length; index++) if (text.charCodeAt(index) > 0x7f) return false
  return true
}

/** Length of the character at `at`; 0 when there is none. */
function characterLength(bytes: Buffer, at: number): number {
  const first = bytes[at]!
  if (first < 0x80) return 1
  const length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2
  return at + length <= bytes.length && isUtf8(bytes.subarray(at, at + length)) ? length : 0
}

function surrogateAt(bytes: Buffer, at: number): number | null {
  const [first, second = 0, third = 0] = bytes.subarray(at, at + 3)
  if (first !== 0xed || second < 0xa0 || second > 0xbf || (third & 0xc0) !== 0x80) return null
  return 0xd000 | ((second & 0x3f) << 6) | (third & 0x3f)
}

/**
 * Checks incrementally whether a stream of bytes can be stored as text.
 *
 * Invariant: `allStorable` becomes false with the piece in which the first NUL or byte that is not UTF-8 can be detected;
 * a character that is split between two pieces is valid.
 */
export interface Utf8Watch {
  readonly allStorable: boolean
  see(piece: Buffer): void
  end(): void
}

export function watchUtf8(): Utf8Watch {
  let allStorable = true
  let cut: Buffer = Buffer.alloc(0)
  return {
    get allStorable() {
      return allStorable
    },
    see(piece) {
      if (!allStorable) return
      const bytes = cut.length === 0 ? piece : Buffer.concat([cut, piece])
      const whole = bytes.length - cutLength(bytes)
      cut = Buffer.from(bytes.subarray(whole))
      allStorable = isUtf8(bytes.subarray(0, whole)) && !piece.includes(0)
    },
    end() {
      if (cut.length > 0) allStorable = false
    },
  }
}

/** Number of bytes at the end that may be the start of a character. */
function cutLength(bytes: Buffer): number {
  for (let back = 1; back <= Math.min(3, bytes.length); back++) {
    const byte = bytes[bytes.length - back]!
    if (byte < 0x80) return 0
    if (byte >= 0xc0) {
      const needs = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : 2
      return back < needs ? back : 0
    }
  }
  return 0
}
