/**
 * Checks incrementally whether a stream of bytes can be stored as text.
 *
 * Invariant: `allStorable` becomes false with the piece in which the first NUL or byte that is not UTF-8 can be detected;
 * a character that is split between two pieces is valid.
 */
import { isUtf8 } from 'node:buffer'

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
