/** The endpoint's answers: fixed texts, so that no answer can contain anything of an event (law 8). */
import { type ServerResponse, STATUS_CODES } from 'node:http'
import type { Socket } from 'node:net'
import type { Rejection } from '../watch.ts'

/** A rejection with an answer. */
export type Refusal = Exclude<Rejection, 'crowded'>

const JSON_TYPE = 'application/json; charset=utf-8'
/** Seconds, of `Retry-After`. */
const RETRY_SOON = '1'

const STORED = { stored: '{"status":"stored"}', duplicate: '{"status":"duplicate"}' } as const

const STORED_HEADERS = {
  stored: { 'content-type': JSON_TYPE, 'content-length': STORED.stored.length },
  duplicate: { 'content-type': JSON_TYPE, 'content-length': STORED.duplicate.length },
} as const

const REFUSED: Readonly<Record<Refusal, readonly [status: number, detail: string]>> = {
  signature: [400, 'Missing or wrong signature.'],
  unknown_team: [404, 'Not found.'],
  malformed: [400, 'Bad Request.'],
  slow: [408, 'The body came too slowly.'],
  too_large: [413, 'The body is too large.'],
  overload: [503, 'Too much at once. Try again soon.'],
  unavailable: [503, 'The event cannot be stored now. Try again soon.'],
  no_secret: [503, 'No signature secret is known yet. Try again soon.'],
}

export function answerStored(response: ServerResponse, outcome: 'stored' | 'duplicate'): void {
  response.writeHead(200, STORED_HEADERS[outcome])
  response.end(STORED[outcome])
}

export function answerRefused(response: ServerResponse, refusal: Refusal): void {
  const [status, detail] = REFUSED[refusal]
  if (status === 503) response.setHeader('retry-after', RETRY_SOON)
  if (refusal === 'malformed' || refusal === 'slow') response.setHeader('connection', 'close')
  answerDetail(response, status, detail)
}

export function answerDetail(response: ServerResponse, status: number, detail: string): void {
  const body = JSON.stringify({ detail })
  response.writeHead(status, { 'content-type': JSON_TYPE, 'content-length': Buffer.byteLength(body) })
  response.end(body)
}

/**
 * Answers bytes that are not an HTTP request, or a request that was not finished in time, and closes the connection.
 * Invariant: the answer contains nothing that was sent.
 */
const STATUS: Readonly<Record<string, number>> = {
  ERR_HTTP_REQUEST_TIMEOUT: 408,
  HPE_HEADER_OVERFLOW: 431,
  HPE_CHUNK_EXTENSIONS_OVERFLOW: 413,
}

export function answerMalformed(error: Error & { code?: string }, socket: Socket): void {
  if (error.code === 'ECONNRESET' || !socket.writable) {
    socket.destroy()
    return
  }
  const status = STATUS[error.code ?? ''] ?? 400
  const body = JSON.stringify({ detail: `${STATUS_CODES[status]}.` })
  const head = [
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}`,
    'Content-Type: application/json; charset=utf-8',
    `Content-Length: ${Buffer.byteLength(body)}`,
    'Connection: close',
  ]
  socket.end(`${head.join('\r\n')}\r\n\r\n${body}`, () => socket.destroy())
}
