/** Hands a rendered answer to Fastify, as it is. */
import type { FastifyReply } from 'fastify'
import type { Rendered } from './render.ts'

export function send(
  reply: FastifyReply,
  { status, headers, body }: Omit<Rendered, 'body'> & { readonly body: string | Buffer },
): FastifyReply {
  return reply.code(status).headers(headers).send(body)
}
