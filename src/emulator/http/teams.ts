/**
 * The teams of one environment and their credentials (specification, section 5).
 *
 * Invariant: an answer distinguishes missing headers from a wrong pair, and reveals nothing else about a pair.
 */
import { randomUUID, timingSafeEqual } from 'node:crypto'
import type { Webhooks } from '../webhooks/engine.ts'
import { keyOf } from '../world/draw.ts'
import { stableId } from '../world/id-space.ts'
import type { World } from '../world/world.ts'
import { type Failure, failure } from './answer.ts'
import type { Uploads } from './resources/upload-work.ts'
import type { SlidingWindow } from './settings.ts'

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

/** Credentials derived from the seed; random without one. */
export function makeCredentials(
  seed: string | null,
  ...path: (string | number)[]
): { key: string; secret: string } {
  if (seed === null) return { key: randomUUID(), secret: randomUUID().replaceAll('-', '') }
  const key = keyOf(seed, 'credentials', ...path)
  return { key: stableId(key, 0, 1), secret: (stableId(key, 0, 2) + stableId(key, 0, 3)).replaceAll('-', '') }
}
