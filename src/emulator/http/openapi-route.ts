/**
 * `GET /openapi.json`: the description of the service for machines, which is docs/openapi.yaml of this package.
 *
 * Invariant: what is sent is that file, whole and unchanged but for its notation; it is read once, asks for no
 * credentials and is neither throttled nor struck by faults.
 */
import { readFile } from 'node:fs/promises'
import type { FastifyInstance } from 'fastify'
import { parse } from 'yaml'

/** The same distance from src/ and from dist/. */
const SOURCE = new URL('../../../docs/openapi.yaml', import.meta.url)

let described: string | undefined

export function addOpenApiRoute(app: FastifyInstance): void {
  app.get('/openapi.json', async (_request, reply) => {
    described ??= JSON.stringify(parse(await readFile(SOURCE, 'utf8')))
    return reply.type('application/json').send(described)
  })
}
