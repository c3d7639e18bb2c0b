/**
 * Arguments and results of request handlers, and the teams that send the requests (specification, section 5).
 *
 * Invariant: a handler determines status and content in the default shape; shapes and faults are applied to its answer
 * in one place. A refusal distinguishes missing credentials from a wrong pair, and reveals nothing else about a pair.
 */
import { timingSafeEqual } from 'node:crypto'
import type { FiredFaults } from '../faults.ts'
import type { SlidingWindow } from '../options.ts'
import type { Shape } from '../shapes/shape.ts'
import type { Webhooks } from '../webhooks/engine.ts'
import { keyOf, stableId } from '../world/draw.ts'
import type { World } from '../world/world.ts'
import { type Answer, type Failure, failure } from './answer.ts'
import type { Showing } from './resources/show.ts'
import type { Uploads } from './resources/upload-work.ts'

export interface Team {
  readonly name: string
  readonly environment: string
  readonly apiKey: string
  readonly apiSecret: string
  readonly world: World
  readonly window: SlidingWindow
  readonly webhooks: Webhooks
  readonly uploads: Uploads
}

type Headers = Readonly<Record<string, string | string[] | undefined>>

export function authenticate(teams: readonly Team[], headers: Headers): Team | Failure {
  const key = headers['x-api-key']
  const secret = headers['x-api-secret']
  if (typeof key !== 'string' || typeof secret !== 'string' || key === '' || secret === '') {
    return failure(401, 'No credentials provided.')
  }
  const team = teams.find((one) => same(one.apiKey, key) && same(one.apiSecret, secret))
  return team ?? failure(403, 'Invalid credentials.')
}

function same(expected: string, given: string): boolean {
  const a = Buffer.from(expected)
  const b = Buffer.from(given)
  return a.length === b.length && timingSafeEqual(a, b)
}

/** Credentials derived from the seed. */
export function makeCredentials(seed: string, ...path: (string | number)[]): { key: string; secret: string } {
  const key = keyOf(seed, 'credentials', ...path)
  return { key: stableId(key, 0, 1), secret: (stableId(key, 0, 2) + stableId(key, 0, 3)).replaceAll('-', '') }
}

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
