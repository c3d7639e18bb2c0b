/** What the endpoint answers: fixed texts, so that no answer can hold anything of an event (law 8). */
import type { FastifyReply } from 'fastify'
import type { Rejection } from './watch.ts'

const JSON_TYPE = 'application/json; charset=utf-8'
/** Seconds, of `Retry-After`. */
const RETRY_SOON = '1'

const STORED = { stored: '{"status":"stored"}', duplicate: '{"status":"duplicate"}' } as const

const STORED_HEADERS = {
  stored: { 'content-type': JSON_TYPE, 'content-length': STORED.stored.length },
  duplicate: { 'content-type': JSON_TYPE, 'content-length': STORED.duplicate.length },
} as const

const REFUSED: Readonly<Record<Rejection, readonly [status: number, detail: string]>> = {
  signature: [400, 'Missing or wrong signature.'],
  unknown_team: [404, 'Not found.'],
  malformed: [400, 'Bad Request.'],
  too_large: [413, 'The body is too large.'],
  overload: [503, 'Too much at once. Try again soon.'],
  unavailable: [503, 'The event cannot be stored now. Try again soon.'],
  no_secret: [503, 'No signature secret is known yet. Try again soon.'],
}

/** The one answer that is given thousands of times a second: written without Fastify's way of sending. */
export function answerStored(reply: FastifyReply, outcome: 'stored' | 'duplicate'): void {
  reply.hijack()
  const close = reply.getHeader('connection') === 'close'
  reply.raw.writeHead(
    200,
    close ? { ...STORED_HEADERS[outcome], connection: 'close' } : STORED_HEADERS[outcome],
  )
  reply.raw.end(STORED[outcome])
}

export function answerRefused(reply: FastifyReply, refusal: Rejection): void {
  const [status, detail] = REFUSED[refusal]
  if (status === 503) reply.header('retry-after', RETRY_SOON)
  if (refusal === 'malformed') reply.header('connection', 'close')
  answerDetail(reply, status, detail)
}

export function answerDetail(reply: FastifyReply, status: number, detail: string): void {
  reply.code(status).header('content-type', JSON_TYPE).send(JSON.stringify({ detail }))
}
