/**
 * One attempt over HTTP: sends a request to the configured origin and reads the whole answer.
 *
 * Invariant: the pool is bound to one origin and follows no redirect, so nothing that an answer says can make a
 * request, or a credential, go elsewhere. A body is either whole or a failure.
 */
import { promisify } from 'node:util'
import { brotliDecompress, gunzip, inflate } from 'node:zlib'
import { Pool } from 'undici'

export interface Timeouts {
  /** Milliseconds until the connection must stand. */
  readonly connect: number
  /** Milliseconds until the first byte of the answer. */
  readonly headers: number
  /** Milliseconds between two pieces of the body. */
  readonly bodyIdle: number
  /** Milliseconds for one attempt as a whole. */
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

export interface WireAnswer {
  readonly status: number
  /** Names in lower case; repeated headers joined with a comma. */
  readonly headers: { readonly [name: string]: string }
  readonly body: Uint8Array
}

export interface Wire {
  send(request: WireRequest, signals: readonly AbortSignal[]): Promise<WireAnswer>
  close(): Promise<void>
}

/** A fault of ours about an answer that came: see `failureOfBody`. */
export class BodyFault extends Error {
  readonly fault: 'too_large' | 'encoding'

  constructor(fault: 'too_large' | 'encoding') {
    super(fault)
    this.fault = fault
  }
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
    const abort = new AbortController()
    const timer = setTimeout(() => abort.abort(new AttemptTimeout('attempt timed out')), timeouts.attempt)
    // Not AbortSignal.any: on Node 20 it keeps every short-lived signal alive as long as the run's own.
    const relays = signals.map((signal) => {
      const relay = () => abort.abort(signal.reason)
      if (signal.aborted) relay()
      else signal.addEventListener('abort', relay, { once: true })
      return () => signal.removeEventListener('abort', relay)
    })
    try {
      const answer = await pool.request({
        method: request.method,
        path: request.target,
        headers: request.headers,
        body: request.body,
        signal: abort.signal,
      })
      const headers = flat(answer.headers)
      const body = await read(answer.body, headers)
      return { status: answer.statusCode, headers, body }
    } finally {
      clearTimeout(timer)
      for (const stop of relays) stop()
    }
  }

  async function read(
    stream: AsyncIterable<Buffer>,
    headers: { readonly [name: string]: string },
  ): Promise<Uint8Array> {
    const pieces: Buffer[] = []
    let size = 0
    for await (const piece of stream) {
      size += piece.length
      // Leaving the loop destroys the stream, and with it the connection.
      if (size > maxBytes) throw new BodyFault('too_large')
      pieces.push(piece)
    }
    const body = pieces.length === 1 ? pieces[0]! : Buffer.concat(pieces, size)
    const encoding = headers['content-encoding']?.trim().toLowerCase() ?? 'identity'
    return size === 0 || encoding === 'identity' || encoding === '' ? body : unpack(body, encoding)
  }

  async function unpack(body: Uint8Array, encoding: string): Promise<Uint8Array> {
    const decode = DECODERS[encoding]
    if (decode === undefined) throw new BodyFault('encoding')
    try {
      return await decode(body, { maxOutputLength: maxBytes })
    } catch (error) {
      throw new BodyFault(
        (error as { code?: string }).code === 'ERR_BUFFER_TOO_LARGE' ? 'too_large' : 'encoding',
      )
    }
  }

  return { send, close: () => pool.destroy() }
}

export const ACCEPTED_ENCODINGS = 'gzip, deflate, br'

const DECODERS: {
  readonly [encoding: string]: (body: Uint8Array, options: { maxOutputLength: number }) => Promise<Uint8Array>
} = {
  gzip: promisify(gunzip),
  'x-gzip': promisify(gunzip),
  deflate: promisify(inflate),
  br: promisify(brotliDecompress),
}

function flat(headers: { [name: string]: string | string[] | undefined }): { [name: string]: string } {
  const result: { [name: string]: string } = {}
  for (const [name, value] of Object.entries(headers)) {
    if (value !== undefined) result[name.toLowerCase()] = Array.isArray(value) ? value.join(', ') : value
  }
  return result
}
