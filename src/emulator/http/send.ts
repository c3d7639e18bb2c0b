/**
 * Hands a rendered answer to Fastify, as it is.
 *
 * Invariant: a body that comes in pieces is asked for the next one only when the caller has taken those before; it is
 * given up when the caller goes away, and a failure in its middle ends the connection.
 */
import { Readable } from 'node:stream'
import type { FastifyReply } from 'fastify'

export interface Rendered {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

export interface RenderedStream extends Omit<Rendered, 'body'> {
  readonly body: AsyncIterable<string>
}

export function send(
  reply: FastifyReply,
  {
    status,
    headers,
    body,
  }: Omit<Rendered, 'body'> & { readonly body: string | Buffer | AsyncIterable<string> },
): FastifyReply {
  const isWhole = typeof body === 'string' || Buffer.isBuffer(body)
  return reply
    .code(status)
    .headers(headers)
    .send(isWhole ? body : Readable.from(body, { objectMode: false }))
}

/** A body that comes in pieces as one text. */
export async function whole(body: string | AsyncIterable<string>): Promise<string> {
  if (typeof body === 'string') return body
  let text = ''
  for await (const piece of body) text += piece
  return text
}
