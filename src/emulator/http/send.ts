/**
 * Sends a rendered answer through Fastify.
 *
 * Invariant: a streamed body is read only as fast as the caller takes it and is abandoned when the caller disconnects;
 * a failure in the middle closes the connection.
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

/** The complete text of a body. */
export async function whole(body: string | AsyncIterable<string>): Promise<string> {
  if (typeof body === 'string') return body
  let text = ''
  for await (const piece of body) text += piece
  return text
}
