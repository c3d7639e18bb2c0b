/**
 * Adds the declared resources to the OpenAPI description: list, record by id, events and schemas.
 *
 * Invariant: the added parts have the same parameters, errors and envelopes as those of docs/openapi.yaml.
 */

import type { DeclaredResource } from '../world/declared.ts'
import { DECLARED } from '../world/declared-catalogue.ts'

interface Description {
  readonly tags: readonly object[]
  readonly paths: object
  readonly webhooks: object
  readonly components: { readonly schemas: object }
}

export function withDeclared<D extends Description>(document: D): D {
  if (DECLARED.length === 0) return document
  const { tags, paths, webhooks, components } = document
  return {
    ...document,
    tags: [
      ...tags,
      ...DECLARED.map(({ resource, about }) => ({ name: titled(resource), description: about })),
    ],
    paths: Object.assign({}, paths, ...DECLARED.map(pathsOf)),
    webhooks: Object.assign({}, webhooks, ...DECLARED.map(webhookOf)),
    components: {
      ...components,
      schemas: Object.assign({}, components.schemas, ...DECLARED.map(schemasOf)),
    },
  }
}

/** `packet_response` → `PacketResponse`. */
const titled = (name: string) =>
  name.replaceAll(/(?:^|_)(\w)/g, (_whole, initial: string) => initial.toUpperCase())

const ref = (kind: string, name: string) => ({ $ref: `#/components/${kind}/${name}` })
const json = (schema: object) => ({ 'application/json': { schema } })

function pathsOf({ resource, source, about }: DeclaredResource): object {
  const one = titled(source)
  const answered = (text: string, schema: string) => ({
    responses: {
      200: {
        description: text,
        headers: { 'X-Service-Environment': ref('headers', 'ServiceEnvironment') },
        content: json(ref('schemas', schema)),
      },
      401: ref('responses', 'Unauthenticated'),
      403: ref('responses', 'Forbidden'),
      404: ref('responses', 'NotFound'),
      429: ref('responses', 'Throttled'),
      default: ref('responses', 'OtherError'),
    },
  })
  const parameters = (...names: string[]) => ({ parameters: names.map((name) => ref('parameters', name)) })
  const common = { tags: [titled(resource)], description: about }
  return {
    [`/v2/${resource}`]: {
      get: {
        ...common,
        operationId: `list${titled(resource)}`,
        summary: `List ${resource}`,
        ...parameters('Page', 'PageSize', 'Limit', 'Offset', 'ApiVersion'),
        ...answered(`One page of the team's ${resource}.`, `${one}Page`),
      },
    },
    [`/v2/${resource}/{id}`]: {
      get: {
        ...common,
        operationId: `get${one}`,
        summary: `Read one of the ${resource}`,
        ...parameters('Id', 'ApiVersion'),
        ...answered('The record.', one),
      },
    },
  }
}

function webhookOf({ source, about }: DeclaredResource): object {
  const one = titled(source)
  return {
    [source]: {
      post: {
        tags: ['Events'],
        operationId: `receive${one}Event`,
        summary: `A record of source ${source} was created, updated or deleted`,
        description: about,
        security: [],
        parameters: [ref('parameters', 'Signature')],
        requestBody: { required: true, content: json(ref('schemas', `${one}Event`)) },
        responses: { '2XX': ref('responses', 'Acknowledged'), '4XX': ref('responses', 'Rejected') },
      },
    },
  }
}

function schemasOf({ source, about, fields }: DeclaredResource): object {
  const one = titled(source)
  const id = { type: 'string', minLength: 1 }
  const times = { type: 'string', format: 'date-time' }
  const properties = { id, ...fields, created_at: times, updated_at: times }
  const all = (base: string, extra: object) => ({
    description: about,
    allOf: [ref('schemas', base), { type: 'object', ...extra }],
  })
  return {
    [one]: { description: about, type: 'object', required: Object.keys(properties), properties },
    [`${one}Page`]: all('Page', {
      properties: { results: { type: 'array', items: ref('schemas', one) } },
    }),
    [`${one}Event`]: all('Envelope', {
      ...{ properties: { source: { const: source } }, if: ref('schemas', 'LivingEvent') },
      // biome-ignore lint/suspicious/noThenProperty: a keyword of JSON Schema
      then: { type: 'object', properties: { data: ref('schemas', one) } },
    }),
  }
}
