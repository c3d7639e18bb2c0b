/**
 * Text gathered as bytes outside the JavaScript heap: a batch of lines held as strings would be copied by the
 * garbage collector again and again. Invariant: `take` hands over what was appended, and starts anew, with as much memory
 * as was needed before; what was taken stays as it is until it is given back.
 */
export interface TextBuffer {
  readonly length: number
  append(text: string): void
  take(): Buffer
  /** Takes back what was taken, once nobody reads it any more, to be written over. */
  giveBack(taken: Buffer): void
}

const FIRST_SIZE = 64 * 1024

/** `latin1` is for text that holds a byte in each character. */
export function openTextBuffer(encoding: 'utf8' | 'latin1' = 'utf8'): TextBuffer {
  // Memory is used again because getting and clearing it costs as much as writing it, and asks for collections.
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
