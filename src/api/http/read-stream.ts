/**
 * The body of an answer as a stream: uncompressed, limited in size, never in memory as a whole.
 *
 * Invariant: the stream ends after the last byte that the service sent, or fails with the error of the call; a cut
 * connection is a failure. However the stream closes, even unread, it frees the connection and calls `closed` once.
 */
import { type Readable, Transform } from 'node:stream'
import type { WireStream } from './wire.ts'
import { BodyFault, type Unpacker, unpackerOf } from './wire.ts'

export interface Streamed {
  readonly status: number
  /** Names in lower case; the body's type is under `content-type`. */
  readonly headers: { readonly [name: string]: string }
  /** Start of the successful attempt, and arrival of the answer's head, in microseconds of our own clock. */
  readonly startedAt: number
  readonly receivedAt: number
  /** The `Date` header in milliseconds since 1970 of the service's clock, or null. */
  readonly serviceDate: number | null
  /**
   * The uncompressed body. It counts towards the client's `concurrency` until it is read to its end or destroyed. It
   * fails with `ApiError`, or with the reason of an abort, if it is incomplete.
   */
  readonly stream: Readable
  /** False for a body without a length that is not chunked: its end looks like a cut connection. */
  readonly endKnown: boolean
}

export interface StreamEnd {
  readonly maxBytes: number
  /** The error for a fault of the connection, the compression or the size. */
  failed(thrown: unknown): Error
  closed(): void
}

/** Throws `BodyFault` and frees the connection if the compression is unknown. */
export function unpackedStream(received: WireStream, end: StreamEnd): Readable {
  const { packed } = received
  // An abandoned stream may still emit errors, which would end the process.
  packed.on('error', () => {})
  let unpacker: Unpacker | null
  try {
    unpacker = unpackerOf(received.headers)
  } catch (error) {
    packed.destroy()
    received.release()
    throw error
  }

  let size = 0
  const body = new Transform({
    transform(piece: Buffer, _encoding, done) {
      size += piece.length
      if (size > end.maxBytes) body.destroy(end.failed(new BodyFault('too_large')))
      else done(null, piece)
    },
  })
  body.on('error', () => {})
  body.once('close', () => {
    packed.destroy()
    unpacker?.destroy()
    received.release()
    end.closed()
  })
  packed.once('error', (thrown) => body.destroy(end.failed(thrown)))
  packed.once('close', () => {
    if (!packed.readableEnded) body.destroy(end.failed(new Error('closed before its end')))
  })
  if (unpacker === null) {
    packed.pipe(body)
  } else {
    const unpacking = unpacker
    unpacking.once('error', () => {
      // No byte at all is an empty body, whatever the declared compression.
      if (packed.readableEnded && unpacking.bytesWritten === 0) body.end()
      else body.destroy(end.failed(new BodyFault('encoding')))
    })
    packed.pipe(unpacking).pipe(body)
  }
  return body
}

/** True if the headers mark the end of the body: a length, or chunks. */
export function endKnownBy(headers: { readonly [name: string]: string }): boolean {
  return 'content-length' in headers || /\bchunked\b/i.test(headers['transfer-encoding'] ?? '')
}
