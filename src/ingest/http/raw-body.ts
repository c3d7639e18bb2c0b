/**
 * Reads the exact bytes of a request's body, whatever its headers declare.
 *
 * Invariant: the buffer never exceeds the reserved bytes, also when a body arrives byte by byte. A body that is too long
 * or does not fit is read to its end and discarded, so that its sender sees the answer. A body that arrives in thousands
 * of tiny parts is `malformed`: each part costs as much as a whole event.
 */
import type { IncomingMessage } from 'node:http'
import type { Reservation } from './in-flight.ts'

export type RawBody = Buffer | 'too_large' | 'overload' | 'malformed' | 'aborted'

const EMPTY = Buffer.alloc(0)
/** The smallest buffer for a body in several parts without a Content-Length. */
const LEAST_BUFFER = 4 * 1024
/** Parts that may have any size, and the least mean size, in bytes, of a body with more parts. */
const PARTS = 2_000
const LEAST_MEAN = 64

export function readRawBody(
  request: IncomingMessage,
  limit: number,
  reservation: Reservation,
): Promise<RawBody> {
  const declared = Number(request.headers['content-length'] ?? 0)
  return new Promise((resolve) => {
    let buffer: Buffer | null = EMPTY
    let length = 0
    let parts = 0
    const end = (result: RawBody) => {
      if (buffer === null) return
      buffer = null
      resolve(result)
    }
    request.on('data', (part: Buffer) => {
      // The result is known: the rest is read and discarded.
      if (buffer === null) return
      const before = length
      length += part.length
      parts += 1
      if (length > limit) return end('too_large')
      if (parts > PARTS && length < parts * LEAST_MEAN) return end('malformed')
      if (length > buffer.length) {
        const room =
          before === 0 ? Math.max(declared, length) : Math.min(limit, Math.max(LEAST_BUFFER, length * 2))
        if (!reservation.grow(room - buffer.length)) return end('overload')
        // Nearly every body is one part, which is used without a copy.
        const larger = room === part.length ? part : Buffer.allocUnsafeSlow(room)
        buffer.copy(larger, 0, 0, before)
        buffer = larger
      }
      if (buffer !== part) part.copy(buffer, before)
    })
    request.on('end', () => {
      if (buffer !== null) end(length === buffer.length ? buffer : buffer.subarray(0, length))
    })
    request.on('close', () => end('aborted'))
    // An aborted request emits both 'error' and 'close'.
    request.on('error', () => {})
  })
}
