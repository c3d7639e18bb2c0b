/**
 * Compares answers of a service with docs/openapi.yaml and the declared resources.
 *
 * Invariant: findings name places and rules, never a value of an answer. An answer that the document does not describe
 * (path, method, status, content type) is a finding.
 */
import { readFileSync } from 'node:fs'
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js'
import addFormats from 'ajv-formats'
import { parse } from 'yaml'
import { withDeclared } from '../../src/emulator/http/describe-declared.ts'

export const DESCRIPTION = new URL('../../docs/openapi.yaml', import.meta.url)
export const METHODS = ['get', 'post', 'put', 'patch', 'delete'] as const

export interface Operation {
  readonly operationId?: string
  readonly summary?: string
  readonly description?: string
  readonly tags?: readonly string[]
  readonly responses: Readonly<Record<string, Described>>
}

interface Described {
  readonly $ref?: string
  readonly headers?: Readonly<Record<string, { readonly $ref?: string; readonly required?: boolean }>>
  readonly content?: Readonly<Record<string, { readonly schema: object }>>
}

export interface OpenApi {
  readonly paths: Readonly<Record<string, Readonly<Partial<Record<(typeof METHODS)[number], Operation>>>>>
  readonly webhooks: Readonly<Record<string, { readonly post: Operation }>>
  readonly components: { readonly schemas: Readonly<Record<string, { readonly description?: string }>> }
}

export const description = withDeclared(parse(readFileSync(DESCRIPTION, 'utf8'))) as OpenApi

const ajv = new Ajv2020({ allErrors: true, strict: true, strictRequired: false, allowUnionTypes: true })
// The package is CommonJS: its exports are `default` of its default export.
addFormats.default(ajv)
ajv.addVocabulary(Object.keys(description))
ajv.addSchema({ ...description, $id: 'description' })
const validators = new Map<string, ValidateFunction>()

export interface CheckedReply {
  readonly method: string
  /** Path and query, or a full URL. */
  readonly url: string
  readonly status: number
  readonly headers: Headers
  readonly text: string
}

/** Differences between an answer of the service and the description; empty if there are none. */
export function problemsOf({ method, url, status, headers, text }: CheckedReply): string[] {
  const found = templateOf(new URL(url, 'http://service').pathname)
  const item = found === undefined ? undefined : description.paths[found]
  const operation = item?.[method.toLowerCase() as (typeof METHODS)[number]]
  if (found === undefined || operation === undefined) {
    const wanted = found === undefined ? [401, 403, 404] : [401, 403, 405]
    const problems = wanted.includes(status) ? [] : [`${status} where the document has no such operation`]
    return [...problems, ...bodyProblems('/components/schemas/Error', text)]
  }
  const response = operation.responses[String(status)]
  if (response === undefined) return [`status ${status} is not described`]
  const path = response.$ref?.slice(1) ?? pointer('paths', found, method.toLowerCase(), 'responses', status)
  const { headers: named = {}, content } = at(path) as Described
  const problems = Object.entries(named).flatMap(([name, header]) => {
    const { required } = (header.$ref === undefined ? header : at(header.$ref.slice(1))) as typeof header
    return required === true && !headers.has(name) ? [`header ${name} is missing`] : []
  })
  if (content === undefined) return text === '' ? problems : [...problems, 'a body where none is described']
  const type = headers.get('content-type')?.split(';')[0]?.trim() ?? ''
  if (content[type] === undefined) return [...problems, `content type ${type} is not described`]
  if (type !== 'application/json') return problems
  return [...problems, ...bodyProblems(`${path}/content/application~1json/schema`, text)]
}

/** Differences between a webhook event of this source and the description. */
export function eventProblems(source: string, text: string): string[] {
  const name = source.replaceAll(/(?:^|_)(\w)/g, (_whole, initial: string) => initial.toUpperCase())
  const path = `/components/schemas/${name}Event`
  return at(path) === undefined ? [`source ${source} is not described`] : bodyProblems(path, text)
}

/** The path of the document that matches a request path; literal segments take precedence over parameters. */
export function templateOf(path: string): string | undefined {
  const segments = path.split('/')
  const fits = (template: string) => {
    const parts = template.split('/')
    const same = (part: string, segment: string) => (part.startsWith('{') ? segment !== '' : part === segment)
    return parts.length === segments.length && parts.every((part, index) => same(part, segments[index]!))
  }
  const parameters = (template: string) => template.split('{').length
  return Object.keys(description.paths)
    .filter(fits)
    .toSorted((a, b) => parameters(a) - parameters(b))[0]
}

function bodyProblems(path: string, text: string): string[] {
  let body: unknown
  try {
    body = JSON.parse(text)
  } catch {
    return ['the body is not JSON']
  }
  const validate = validators.get(path) ?? ajv.compile({ $ref: `description#${encodeURI(path)}` })
  validators.set(path, validate)
  if (validate(body)) return []
  return (validate.errors ?? []).map(({ instancePath, message }) => `${instancePath}: ${message}`)
}

function pointer(...names: readonly (string | number)[]): string {
  return names.map((name) => `/${String(name).replaceAll('~', '~0').replaceAll('/', '~1')}`).join('')
}

function at(path: string): unknown {
  const names = path.split('/').slice(1)
  const name = (text: string) => text.replaceAll('~1', '/').replaceAll('~0', '~')
  return names.reduce<unknown>((value, text) => (value as Record<string, unknown>)?.[name(text)], description)
}
