/**
 * The paths that the typed client requests (specification, section 4; those it does not show are guesses that the
 * configuration's `paths` corrects), and the service's `next` links. The pipeline reads the paths of its streams from their
 * declarations (src/streams).
 *
 * Invariant: an id never leaves its own segment of a path. It is percent-encoded, and `.` and `..`, which encoding
 * does not change and a server may resolve, are refused. Only the query of a link is used (law 7); scheme, host, port and
 * path are discarded.
 */
import { IntakeError, UsageError } from '../core/errors.ts'

export const DEFAULT_PATHS = {
  patients: '/v2/patients',
  patient: '/v2/patients/{id}',
  patientUploads: '/v2/patients/batch-upload',
  patientUpload: '/v2/patients/batch-upload/{id}',
  messages: '/v2/messages',
  message: '/v2/messages/{id}',
  scheduledMessage: '/v2/messages/{id}/scheduled',
  forms: '/v2/forms',
  form: '/v2/forms/{id}',
  packets: '/v2/packets',
  packet: '/v2/packets/{id}',
  documents: '/v2/documents',
  document: '/v2/documents/{id}',
  responses: '/v2/responses',
  response: '/v2/responses/{id}',
  exports: '/v2/export-csv',
  webhookConfigs: '/v2/webhooks',
  webhookConfig: '/v2/webhooks/{id}',
  webhookDeliveries: '/v2/webhooks/events',
  webhookTest: '/v2/webhooks/events/test',
} as const

/** Keys of request bodies that the specification does not show, as the configuration's `bodyKeys` names them. */
export const DEFAULT_BODY_KEYS = {
  /** Of the requested export, in `POST /v2/export-csv`. */
  exportId: 'id',
  /** Of the configuration, in `POST /v2/webhooks/events/test`. */
  webhookTestId: 'id',
} as const

export type PathName = keyof typeof DEFAULT_PATHS
export type Paths = { readonly [name in PathName]: string }

/** A path of the service, and the name under which the configuration's `paths` replaces it. */
export interface Endpoint {
  readonly name: string
  readonly path: string
}

/**
 * The default table, and the paths of `endpoints`, with the team's own paths over them. Throws `UsageError` for an unknown
 * name or an unusable path.
 */
export function pathsWith(
  overrides: { readonly [name: string]: string } = {},
  endpoints: readonly Endpoint[] = [],
): Paths {
  const defaults: { readonly [name: string]: string } = {
    ...DEFAULT_PATHS,
    ...Object.fromEntries(endpoints.map(({ name, path }) => [name, path])),
  }
  const paths = { ...defaults }
  for (const [name, path] of Object.entries(overrides)) {
    const standard = Object.hasOwn(defaults, name) ? defaults[name] : undefined
    if (standard === undefined) {
      throw new UsageError(
        `paths.${name} is not a path of the service`,
        `Use one of: ${Object.keys(defaults).join(', ')}.`,
        'paths',
      )
    }
    if (problemOf(path) !== null || path.includes('{id}') !== standard.includes('{id}')) {
      throw new UsageError(
        `paths.${name} ${problemOf(path) ?? (standard.includes('{id}') ? 'must contain {id}' : 'must not contain {id}')}`,
        `Write it like the default, ${standard}.`,
        'paths',
      )
    }
    paths[name] = path
  }
  return paths as { readonly [name: string]: string } & Paths
}

/** Why a path cannot be requested, or null. */
function problemOf(path: string): string | null {
  if (!path.startsWith('/') || path.startsWith('//')) return 'must begin with one slash'
  if (!/^[\x21-\x7e]*$/.test(path) || /[?#\\]/.test(path)) return 'must be a plain path, without a query'
  if (path.split('/').some((segment) => isDots(segment))) return 'must not hold a segment of dots'
  return null
}

function isDots(segment: string): boolean {
  return /^(?:\.|%2e){1,2}$/i.test(segment)
}

/**
 * The path to request: `template` with each `{name}` replaced by the encoded value of `params`. Throws with verdict
 * `dead_letter` for an id that no path can carry, `stop` for a template that is no path.
 */
export function expandPath(
  template: string,
  params: { readonly [name: string]: string | undefined } = {},
): string {
  const path = template.replace(/\{(\w+)\}/g, (_, name: string) => {
    const value = params[name]
    if (value === undefined || value === '' || isDots(value) || !value.isWellFormed()) {
      throw new IntakeError(`${template}: a path cannot contain this ${name}`, {
        code: 'bad_id',
        verdict: 'dead_letter',
        hint: 'An id must be text that is not empty, "." or "..".',
      })
    }
    return encodeURIComponent(value)
  })
  const problem = problemOf(path)
  if (problem !== null) throw new UsageError(`the path ${problem}`, 'Write it like /v2/patients.')
  return path
}

type QueryValue = string | number | boolean | null | undefined
/** Null and undefined omit a parameter. A string is a query received from the service, sent back unchanged. */
export type Query = { readonly [name: string]: QueryValue } | string

/** `?a=1&b=2`, or empty. */
export function queryText(query: Query | undefined): string {
  if (query === undefined) return ''
  if (typeof query === 'string') return query === '' ? '' : `?${query}`
  const pairs = new URLSearchParams()
  for (const [name, value] of Object.entries(query)) {
    if (value !== null && value !== undefined) pairs.append(name, String(value))
  }
  return pairs.size === 0 ? '' : `?${pairs}`
}

/** The query of a link, without the question mark; empty if there is none. */
export function queryOfLink(link: string): string {
  const start = link.indexOf('?')
  if (start < 0) return ''
  const query = link.slice(start + 1).split('#', 1)[0]!
  // Encodes only characters that a request line cannot contain, since a cursor may depend on every other one.
  return query.replace(/[^\x21-\x7e]+/g, (text) => encodeURIComponent(text.toWellFormed()))
}

/** `query` plus our own filters that it lacks, so that following a link cannot widen the list. */
export function withFilters(query: string, filters: Query | undefined): string {
  const missing = new URLSearchParams()
  const present = new URLSearchParams(query)
  for (const [name, value] of new URLSearchParams(queryText(filters))) {
    if (!present.has(name)) missing.append(name, value)
  }
  if (missing.size === 0) return query
  return query === '' ? missing.toString() : `${query}&${missing}`
}

/** `query` with one parameter set to another number, otherwise unchanged. */
export function withNumber(query: string, name: string, value: number): string {
  return query
    .split('&')
    .map((pair) => (decoded(pair.split('=', 1)[0]!) === name ? `${name}=${value}` : pair))
    .join('&')
}

/** The value of a parameter that occurs once and is a whole number of 0 or more; else null. */
export function numberIn(query: string, name: string): number | null {
  const values = new URLSearchParams(query).getAll(name)
  return values.length === 1 && /^\d{1,15}$/.test(values[0]!) ? Number(values[0]) : null
}

function decoded(name: string): string {
  return new URLSearchParams(`${name}=`).keys().next().value ?? ''
}
