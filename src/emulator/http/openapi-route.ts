/**
 * `GET /openapi.json`: the OpenAPI description of the service, docs/openapi.yaml of this package.
 *
 * Invariant: the answer is that file as JSON. It is read once; the route requires no credentials, and neither the rate
 * limit nor faults apply.
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
