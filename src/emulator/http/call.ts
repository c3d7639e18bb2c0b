/**
 * What a handler is given and what it gives back.
 *
 * Invariant: a handler decides status and content in the service's default shape; how that is written (shapes), and
 * what goes wrong on the way (faults), is decided after it, in one place.
 */
import type { FiredFaults } from '../faults/fired.ts'
import type { Shape } from '../shapes/shape.ts'
import type { World } from '../world/world.ts'

export const RESOURCES = ['patients', 'forms', 'packets', 'documents'] as const
export type Resource = (typeof RESOURCES)[number]

export interface Call {
  readonly world: World
  readonly method: string
  /** Scheme, host and port as the caller wrote them. */
  readonly origin: string
  /** An origin that is not this one: where faults send callers. */
  readonly elsewhere: string
  readonly path: string
  readonly query: URLSearchParams
  readonly params: Readonly<Record<string, string>>
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  readonly body: Buffer
  /** The value of `X-API-VERSION`, empty without it. */
  readonly version: string
  readonly defaultPageSize: number
  readonly shape: Shape
  readonly faults: FiredFaults
}

export type JsonRecord = Readonly<Record<string, unknown>>

export type Answer =
  | {
      readonly type: 'record'
      readonly status: 200 | 201
      readonly resource: Resource
      readonly record: JsonRecord
    }
  | ({ readonly type: 'page' } & Page)
  | { readonly type: 'empty'; readonly status: 204 }
  | Failure

export interface Page {
  readonly resource: Resource
  readonly rows: readonly JsonRecord[]
  readonly count: number
  readonly next: string | null
  readonly previous: string | null
}

export interface Failure {
  readonly type: 'failure'
  readonly status: number
  readonly detail: string
  /** The field at fault, for shapes that tell it. */
  readonly field?: string
  readonly headers?: Readonly<Record<string, string>>
}

export type Handler = (call: Call) => Answer | Promise<Answer>

export interface Route {
  readonly path: string
  readonly methods: Readonly<Partial<Record<'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE', Handler>>>
}

export function failure(status: number, detail: string, field?: string): Failure {
  return { type: 'failure', status, detail, ...(field === undefined ? {} : { field }) }
}

export const NOT_FOUND: Readonly<Record<Resource, string>> = {
  patients: 'Patient not found.',
  forms: 'Form not found.',
  packets: 'Packet not found.',
  documents: 'Document not found.',
}
