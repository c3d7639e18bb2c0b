/**
 * Reads the exact bytes of a request's body, whatever its headers say they are.
 *
 * Invariant: what is held never exceeds what was granted, also when a body comes byte by byte; a body that is too long
 * or does not fit is read to its end and forgotten, so that its sender sees the answer. One that comes in thousands of
 * crumbs, each of which costs as much as a whole event, is `malformed`.
 */
import type { IncomingMessage } from 'node:http'
import type { Hold } from './in-flight.ts'

export type RawBody = Buffer | 'too_large' | 'overload' | 'malformed' | 'aborted'

const EMPTY = Buffer.alloc(0)
/** The least room for a body that comes in several parts and does not tell its length. */
const ROOM = 4 * 1024
/** Parts of any size, and the least mean size, in bytes, of more. */
const PARTS = 2_000
const CRUMB = 64

export function readRawBody(request: IncomingMessage, limit: number, hold: Hold): Promise<RawBody> {
  const told = Number(request.headers['content-length'] ?? 0)
  return new Promise((resolve) => {
    let held: Buffer | null = EMPTY
    let length = 0
    let parts = 0
    const end = (result: RawBody) => {
      if (held === null) return
      held = null
      resolve(result)
    }
    request.on('data', (part: Buffer) => {
      // After the end of what is wanted, the rest is read and forgotten.
      if (held === null) return
      const before = length
      length += part.length
      parts += 1
      if (length > limit) return end('too_large')
      if (parts > PARTS && length < parts * CRUMB) return end('malformed')
      if (length > held.length) {
        const room = before === 0 ? Math.max(told, length) : Math.min(limit, Math.max(ROOM, length * 2))
        if (!hold.grow(room - held.length)) return end('overload')
        // Nearly every body is one part, and is held as it came.
        const larger = room === part.length ? part : Buffer.allocUnsafeSlow(room)
        held.copy(larger, 0, 0, before)
        held = larger
      }
      if (held !== part) part.copy(held, before)
    })
    request.on('end', () => {
      if (held !== null) end(length === held.length ? held : held.subarray(0, length))
    })
    request.on('close', () => end('aborted'))
    // An aborted request tells of it twice.
    request.on('error', () => {})
  })
}
