/**
 * `/_control`: webhook counts and faults of a running emulator. Not part of the service: it requires no credentials;
 * the emulator listens on loopback only.
 *
 * Invariant: an invalid specification changes nothing and is answered 400 with the reason.
 */

import { readFile } from 'node:fs/promises'
import type { FastifyInstance } from 'fastify'
import { parse } from 'yaml'
import type { Control } from '../control.ts'
import type { FaultRule } from '../faults/parse.ts'
import { withDeclared } from '../resources/describe.ts'

export function addControlRoutes(app: FastifyInstance, control: Control): void {
  app.get('/_control/webhooks', async (request, reply) => {
    try {
      const { pending, retrying } = control.webhooks((request.query as { team?: string }).team)
      return { pending, retrying }
    } catch (error) {
      if (!(error instanceof RangeError)) throw error
      return reply.code(400).send({ detail: error.message })
    }
  })
  app.get('/_control/faults', async () => ({ faults: control.faults().map(written) }))
  app.post('/_control/faults', async (request, reply) => {
    try {
      const body: unknown = JSON.parse(String(request.body ?? ''))
      const spec = typeof body === 'object' && body !== null && 'faults' in body ? body.faults : body
      if (typeof spec !== 'string')
        return reply.code(400).send({ detail: 'Send {"faults": "name=probability,…"}.' })
      control.setFaults(spec)
      return { faults: control.faults().map(written) }
    } catch (error) {
      if (!(error instanceof SyntaxError) && !(error instanceof RangeError)) throw error
      return reply.code(400).send({ detail: error.message })
    }
  })
}

function written({ name, resource, probability, argument }: FaultRule): string {
  const target = resource === null ? '' : `@${resource}`
  return `${name}${target}=${probability}${argument === null ? '' : `:${argument}`}`
}

/*
 * `GET /openapi.json`: the OpenAPI description of the service.
 *
 * Invariant: the answer is docs/openapi.yaml of this package as JSON, with the declared resources. It is read once; the route requires no credentials, and neither the rate
 * limit nor faults apply.
 */

/** The same distance from src/ and from dist/. */
const SOURCE = new URL('../../../docs/openapi.yaml', import.meta.url)

let described: string | undefined

export function addOpenApiRoute(app: FastifyInstance): void {
  app.get('/openapi.json', async (_request, reply) => {
    described ??= JSON.stringify(withDeclared(parse(await readFile(SOURCE, 'utf8'))))
    return reply.type('application/json').send(described)
  })
}
