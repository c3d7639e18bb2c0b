/**
 * Reads the exact bytes of a request's body, whatever its headers declare.
 *
 * Invariant: the buffer never exceeds twice the received bytes, nor the reserved ones. A body that is too long, does not fit
 * or is not to be kept is read to its end and discarded, so that its sender sees the answer. A body that arrives in
 * thousands of tiny parts is `malformed`: each part costs as much as a whole event. A body that arrives slower than the
 * least rate ends as `slow`; its connection is closed.
 */
import type { IncomingMessage } from 'node:http'
import type { Clock } from '../../core/clock.ts'
import type { IngestLimits, Reservation } from './in-flight.ts'

export type RawBody = Buffer | 'too_large' | 'overload' | 'malformed' | 'slow' | 'aborted'

export interface Bodies {
  /** `reservation` null: the bytes are not kept, and the result is empty. */
  read(request: IncomingMessage, reservation: Reservation | null): Promise<RawBody>
}

const EMPTY = Buffer.alloc(0)
/** The smallest buffer for a body in several parts. */
const MIN_BUFFER = 4 * 1024
/** Parts that may have any size, and the least mean size, in bytes, of a body with more parts. */
const PARTS = 2_000
const MIN_MEAN = 64
/** Bytes of a discarded body that are read at once, and the pause after each further part (of 64 KiB at most). */
const FREE_BYTES = 128 * 1024
const PAUSE_MS = 50
/** How often rates are looked at. */
const LOOK_MS = 250

interface ArrivingBody {
  readonly since: number
  readonly received: () => number
  /** Answered before it ended, and its connection is closed: Node emits no 'close' for such a request. */
  readonly isGone: () => boolean
  readonly slow: () => void
}

export function openBodies(
  limits: Pick<IngestLimits, 'body' | 'graceMs' | 'bytesPerSecond'>,
  clock: Clock,
): Bodies {
  const arriving = new Set<ArrivingBody>()
  let isLooking = false

  /** Runs while a body arrives. */
  const look = async () => {
    isLooking = true
    for (let before = clock.now(); arriving.size > 0; ) {
      await clock.sleep(LOOK_MS)
      const now = clock.now()
      // A process that was stopped has not read what arrived meanwhile.
      const isLate = now - before > 4 * LOOK_MS * 1000
      before = now
      if (isLate) continue
      for (const each of arriving) {
        if (each.isGone()) arriving.delete(each)
        const seconds = (now - each.since) / 1_000_000 - limits.graceMs / 1000
        if (seconds > 0 && each.received() < seconds * limits.bytesPerSecond) each.slow()
      }
    }
    isLooking = false
  }

  return {
    read(request, reservation) {
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
        const entry: ArrivingBody = {
          since: clock.now(),
          received: () => length,
          isGone: () => buffer === null && request.socket.destroyed,
          slow() {
            arriving.delete(entry)
            if (buffer === null) request.destroy()
            else end('slow')
          },
        }
        reservation?.onDisplaced(() => end('overload'))
        request.on('data', (part: Buffer) => {
          const before = length
          length += part.length
          if (length > FREE_BYTES && (buffer === null || reservation === null)) slowDown(request)
          // The result is known: the rest is read and discarded.
          if (buffer === null) return
          parts += 1
          if (length > limits.body) return end('too_large')
          if (parts > PARTS && length < parts * MIN_MEAN) return end('malformed')
          if (reservation === null) return
          // Nearly every body is one part: it is used without a copy, and reserved once its signature was checked.
          if (before === 0 && length === declared) {
            buffer = part
            return
          }
          if (length > buffer.length) {
            const room = before === 0 ? length : roomFor(length, declared, limits.body)
            if (!reservation.grow(room - buffer.length)) return end('overload')
            const larger = room === part.length ? part : Buffer.allocUnsafeSlow(room)
            buffer.copy(larger, 0, 0, before)
            buffer = larger
          }
          if (buffer !== part) part.copy(buffer, before)
        })
        request.on('end', () => {
          arriving.delete(entry)
          if (buffer !== null) end(length === buffer.length ? buffer : buffer.subarray(0, length))
        })
        request.on('close', () => {
          arriving.delete(entry)
          end('aborted')
        })
        // An aborted request emits both 'error' and 'close'.
        request.on('error', () => {})
        arriving.add(entry)
        if (!isLooking) void look()
      })
    },
  }
}

/** Reads the rest of a body that is discarded at a megabyte a second: reading costs as much as storing. */
function slowDown(request: IncomingMessage): void {
  request.pause()
  setTimeout(() => request.resume(), PAUSE_MS)
}

function roomFor(length: number, declared: number, most: number): number {
  const room = Math.min(most, Math.max(MIN_BUFFER, length * 2))
  return declared >= length ? Math.min(room, declared) : room
}
