/**
 * The body of an answer as it comes: unpacked, counted, and never held whole.
 *
 * Invariant: the stream either ends after the last byte the service sent, or fails with the error of the call; a cut
 * connection is no end. Whichever way it closes, even unread, the connection is freed and `closed` is called once.
 */
import { type Readable, Transform } from 'node:stream'
import { BodyFault, type Unpacker, unpackerOf } from './encodings.ts'
import type { WireStream } from './wire.ts'

export interface Streamed {
  readonly status: number
  /** Names in lower case; the body's type is under `content-type`. */
  readonly headers: { readonly [name: string]: string }
  /** When the attempt that succeeded was started, and when its head was there, in microseconds of our own clock. */
  readonly startedAt: number
  readonly receivedAt: number
  /** The `Date` header in milliseconds since 1970 of the service's clock, or null. */
  readonly serviceDate: number | null
  /**
   * The body, unpacked. It holds one of the client's requests in flight until it is read to its end or destroyed, and
   * fails with `ApiError` (or the reason of an abort): what was read until then is not the whole.
   */
  readonly stream: Readable
  /** False for a body that neither tells its length nor comes in chunks: its end cannot be told from a cut. */
  readonly endKnown: boolean
}

export interface StreamEnd {
  readonly maxBytes: number
  /** The error that a fault of the connection, the packing or the size becomes. */
  failed(thrown: unknown): Error
  closed(): void
}

/** Throws `BodyFault`, having freed the connection, when the body is packed in a way unknown to us. */
export function unpackedStream(came: WireStream, end: StreamEnd): Readable {
  const { packed } = came
  // Whoever gives a stream up has no ear for its last words.
  packed.on('error', () => {})
  let unpacker: Unpacker | null
  try {
    unpacker = unpackerOf(came.headers)
  } catch (error) {
    packed.destroy()
    came.letGo()
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
    came.letGo()
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
      // Nothing at all is an empty body, whatever its packing is called.
      if (packed.readableEnded && unpacking.bytesWritten === 0) body.end()
      else body.destroy(end.failed(new BodyFault('encoding')))
    })
    packed.pipe(unpacking).pipe(body)
  }
  return body
}

/** True when the head tells how the body's end is known: a length, or chunks. */
export function endKnownBy(headers: { readonly [name: string]: string }): boolean {
  return 'content-length' in headers || /\bchunked\b/i.test(headers['transfer-encoding'] ?? '')
}
