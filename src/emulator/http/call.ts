/**
 * Arguments and results of request handlers.
 *
 * Invariant: a handler determines status and content in the default shape; shapes and faults are applied to its answer
 * in one place.
 */
import type { FiredFaults } from '../faults/fire.ts'
import type { Shape } from '../shapes/shape.ts'
import type { World } from '../world/world.ts'
import type { Answer } from './answer.ts'
import type { Showing } from './resources/show.ts'
import type { Team } from './teams.ts'

export interface Call {
  readonly team: Team
  readonly world: World
  readonly method: string
  /** Scheme, host and port of the request. */
  readonly origin: string
  /** Another origin, for faults that redirect callers. */
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

export type Handler = (call: Call) => Answer | Promise<Answer>

export interface Route {
  readonly path: string
  readonly methods: Readonly<Partial<Record<'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE', Handler>>>
}

/** Rendering options for the records of an answer. */
export function showingOf({ world, version, shape }: Call): Showing {
  return { world, version, nestedForms: shape.has('nested-forms') }
}

/** The id in the path, in the world's notation; undefined if it is not an id. */
export function pathId(
  { shape, params }: Call,
  ids: { readonly withPrefix: (hex: string) => string | undefined },
): string | undefined {
  return shape.id(params.id ?? '', ids)
}
