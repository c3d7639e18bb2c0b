/**
 * One attempt over HTTP: sends a request to the configured origin and reads the whole answer, or its head.
 *
 * Invariant: the pool is bound to one origin and follows no redirect, so nothing that an answer says can make a
 * request, or a credential, go elsewhere. A body is either whole or a failure: one that cannot be unpacked to its end is
 * a `BodyFault`, never a shorter body, and no error of zlib leaves this file.
 */
import type { Readable, Transform } from 'node:stream'
import { promisify } from 'node:util'
import {
  brotliDecompress,
  createBrotliDecompress,
  createGunzip,
  createInflate,
  gunzip,
  inflate,
} from 'node:zlib'
import { Pool } from 'undici'
import { deadlineIn } from '../../core/clock.ts'

export interface Timeouts {
  /** Milliseconds until the connection must stand. */
  readonly connect: number
  /** Milliseconds until the first byte of the answer. */
  readonly headers: number
  /** Milliseconds between two pieces of the body. */
  readonly bodyIdle: number
  /** Milliseconds for one attempt as a whole; for a streamed answer, until its head is there. */
  readonly attempt: number
}

export const DEFAULT_TIMEOUTS: Timeouts = {
  connect: 10_000,
  headers: 60_000,
  bodyIdle: 30_000,
  attempt: 600_000,
}

export interface WireRequest {
  readonly method: string
  /** Path and query, beginning with a slash. */
  readonly target: string
  readonly headers: { readonly [name: string]: string }
  readonly body: Uint8Array | string | null
}

export interface WireHead {
  readonly status: number
  /** Names in lower case; repeated headers joined with a comma. */
  readonly headers: { readonly [name: string]: string }
}

export interface WireAnswer extends WireHead {
  readonly body: Uint8Array
}

/** A 2xx answer whose body is still to come. */
export interface WireStream extends WireHead {
  /** As it comes over the wire, perhaps packed. Destroying it closes the connection. */
  readonly packed: Readable
  /** To be called once, when the body is read or given up: stops listening to the signals. */
  readonly release: () => void
}

export interface Wire {
  send(request: WireRequest, signals: readonly AbortSignal[]): Promise<WireAnswer>
  /** As `send`, but the body of a 2xx answer is left to be read, without a deadline for the whole. */
  open(request: WireRequest, signals: readonly AbortSignal[]): Promise<WireAnswer | WireStream>
  close(): Promise<void>
}

class AttemptTimeout extends Error {
  readonly code = 'ATTEMPT_TIMEOUT'
}

export function openWire(origin: string, connections: number, timeouts: Timeouts, maxBytes: number): Wire {
  const pool = new Pool(origin, {
    connections,
    pipelining: 1,
    connect: { timeout: timeouts.connect },
    headersTimeout: timeouts.headers,
    bodyTimeout: timeouts.bodyIdle,
    keepAliveTimeout: 10_000,
  })

  async function send(request: WireRequest, signals: readonly AbortSignal[]): Promise<WireAnswer> {
    const deadline = deadlineOf(signals)
    try {
      const { packed, ...head } = await begin(request, deadline.signal)
      return { ...head, body: await whole(packed, head.headers) }
    } finally {
      deadline.release()
    }
  }

  async function open(
    request: WireRequest,
    signals: readonly AbortSignal[],
  ): Promise<WireAnswer | WireStream> {
    const deadline = deadlineOf(signals)
    let streams = false
    try {
      const { packed, ...head } = await begin(request, deadline.signal)
      streams = head.status >= 200 && head.status < 300
      return streams
        ? { ...head, packed, release: deadline.release }
        : { ...head, body: await whole(packed, head.headers) }
    } finally {
      deadline.stop()
      if (!streams) deadline.release()
    }
  }

  /** A signal that follows `signals`, and goes off by itself when the attempt takes too long. */
  function deadlineOf(signals: readonly AbortSignal[]) {
    return deadlineIn(timeouts.attempt, signals, () => new AttemptTimeout('attempt timed out'))
  }

  async function begin(request: WireRequest, signal: AbortSignal): Promise<WireHead & { packed: Readable }> {
    const answer = await pool.request({
      method: request.method,
      path: request.target,
      headers: request.headers,
      body: request.body,
      signal,
    })
    return { status: answer.statusCode, headers: flat(answer.headers), packed: answer.body }
  }

  async function whole(
    packed: AsyncIterable<Buffer>,
    headers: { readonly [name: string]: string },
  ): Promise<Uint8Array> {
    const pieces: Buffer[] = []
    let size = 0
    for await (const piece of packed) {
      size += piece.length
      // Leaving the loop destroys the stream, and with it the connection.
      if (size > maxBytes) throw new BodyFault('too_large')
      pieces.push(piece)
    }
    return unpack(pieces.length === 1 ? pieces[0]! : Buffer.concat(pieces, size), headers, maxBytes)
  }

  return { send, open, close: () => pool.destroy() }
}

function flat(headers: { [name: string]: string | string[] | undefined }): { [name: string]: string } {
  const result: { [name: string]: string } = {}
  for (const [name, value] of Object.entries(headers)) {
    if (value !== undefined) result[name.toLowerCase()] = Array.isArray(value) ? value.join(', ') : value
  }
  return result
}

export const ACCEPTED_ENCODINGS = 'gzip, deflate, br'

/** A fault of a received answer: see `failureOfBody`. */
export class BodyFault extends Error {
  readonly fault: 'too_large' | 'encoding'

  constructor(fault: 'too_large' | 'encoding') {
    super(fault)
    this.fault = fault
  }
}

export function isTooLarge(thrown: unknown): boolean {
  return thrown instanceof BodyFault && thrown.fault === 'too_large'
}

/** Counts the packed bytes it was given. */
export type Unpacker = Transform & { readonly bytesWritten: number }

interface Coding {
  readonly whole: (body: Uint8Array, options: { maxOutputLength: number }) => Promise<Uint8Array>
  readonly stream: () => Unpacker
}

const GZIP: Coding = { whole: promisify(gunzip), stream: createGunzip }

const CODINGS: { readonly [encoding: string]: Coding } = {
  gzip: GZIP,
  'x-gzip': GZIP,
  deflate: { whole: promisify(inflate), stream: createInflate },
  br: { whole: promisify(brotliDecompress), stream: createBrotliDecompress },
}

/** How a body with these headers is packed; null when it is not. Throws `BodyFault` for an encoding unknown to us. */
function codingOf(headers: { readonly [name: string]: string }): Coding | null {
  const encoding = headers['content-encoding']?.trim().toLowerCase() ?? ''
  if (encoding === '' || encoding === 'identity') return null
  const coding = Object.hasOwn(CODINGS, encoding) ? CODINGS[encoding] : undefined
  if (coding === undefined) throw new BodyFault('encoding')
  return coding
}

/** Unpacks a body that is there; at most `maxBytes` long once unpacked. */
async function unpack(
  body: Uint8Array,
  headers: { readonly [name: string]: string },
  maxBytes: number,
): Promise<Uint8Array> {
  const coding = body.length === 0 ? null : codingOf(headers)
  if (coding === null) return body
  try {
    return await coding.whole(body, { maxOutputLength: maxBytes })
  } catch (error) {
    throw new BodyFault(
      (error as { code?: string }).code === 'ERR_BUFFER_TOO_LARGE' ? 'too_large' : 'encoding',
    )
  }
}

/** What unpacks a body as it comes; null when it is not packed. Throws `BodyFault` for an encoding unknown to us. */
export function unpackerOf(headers: { readonly [name: string]: string }): Unpacker | null {
  return codingOf(headers)?.stream() ?? null
}
