/**
 * Text collected as bytes outside the JavaScript heap: the garbage collector would copy a batch of strings again and
 * again. Invariant: `take` returns the appended bytes and starts an empty buffer of the same capacity; returned bytes do
 * not change until they are given back.
 */
export interface TextBuffer {
  readonly length: number
  append(text: string): void
  take(): Buffer
  /** Reuses a returned buffer that nobody reads any more. */
  giveBack(taken: Buffer): void
}

const FIRST_SIZE = 64 * 1024

/** `latin1` is for text with one byte per character. */
export function openTextBuffer(encoding: 'utf8' | 'latin1' = 'utf8'): TextBuffer {
  // Reused because allocating and clearing memory costs as much as writing it, and causes collections.
  const spares: Buffer[] = []
  let bytes: Buffer = Buffer.alloc(0)
  let length = 0
  let first = FIRST_SIZE
  return {
    get length() {
      return length
    },
    append(text) {
      // UTF-8 takes three bytes at most for each unit of a JavaScript string.
      const needed = length + text.length * (encoding === 'utf8' ? 3 : 1)
      if (needed > bytes.length) {
        const larger = Buffer.allocUnsafeSlow(Math.max(first, bytes.length * 2, needed))
        bytes.copy(larger, 0, 0, length)
        bytes = larger
      }
      length += bytes.write(text, length, encoding)
    },
    take() {
      const taken = bytes.subarray(0, length)
      first = Math.max(FIRST_SIZE, length)
      bytes = spares.pop() ?? Buffer.alloc(0)
      length = 0
      return taken
    },
    giveBack(taken) {
      spares.push(Buffer.from(taken.buffer))
    },
  }
}
