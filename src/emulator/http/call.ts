/**
 * What a handler is given and what it gives back.
 *
 * Invariant: a handler decides status and content in the service's default shape; how that is written (shapes), and
 * what goes wrong on the way (faults), is decided after it, in one place.
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

export type Handler = (call: Call) => Answer | Promise<Answer>

export interface Route {
  readonly path: string
  readonly methods: Readonly<Partial<Record<'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE', Handler>>>
}

/** How the records of an answer are shown. */
export function showingOf({ world, version, shape }: Call): Showing {
  return { world, version, nestedForms: shape.has('nested-forms') }
}

/** The id of the path as the world writes it, undefined when it can be none. */
export function pathId(
  { shape, params }: Call,
  ids: { readonly withPrefix: (hex: string) => string | undefined },
): string | undefined {
  return shape.id(params.id ?? '', ids)
}
