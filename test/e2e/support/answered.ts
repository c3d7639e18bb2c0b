/** Responses of a test's own making, with the stamps that it needs, and what a run asked of their list. */

import { expect } from 'vitest'
import { type Instant, instantOf, microsOf, parseInstant } from '../../../src/core/time.ts'
import type { Response } from '../../../src/emulator/world/records.ts'
import type { World } from '../../../src/emulator/world/world.ts'
import { expectedOf, heldBy } from './expected.ts'
import { query, type Scene } from './scene.ts'

export const MINUTE = 60_000_000
export const DAY = 1_440 * MINUTE

/** The latest submission of a world: the checkpoint of whoever has read it all. */
export function newestOf(world: World): Instant {
  const stamps = responsesOf(world).flatMap(({ submitted_at }) => submitted_at ?? [])
  return parseInstant(stamps.sort().at(-1)!)!
}

export function responsesOf({ responses }: World): readonly Response[] {
  return Array.from({ length: responses.end }, (_, at) => responses.at(at) ?? []).flat()
}

/** `micros` after a moment; before it, when negative. */
export function plus(moment: string, micros: number): Instant {
  return instantOf(microsOf(parseInstant(moment)!) + micros)
}

/** A response, answered like another of this world, that was submitted then. */
export function submitAt(world: World, submitted_at: string): Response {
  const like = responsesOf(world).find(
    ({ is_submitted, packet, answers }) => is_submitted && packet === null && answers.length > 0,
  )!
  const stamps = { submitted_at, created_at: submitted_at, updated_at: submitted_at }
  return world.responses.create((id) => ({ ...like, ...stamps, id, is_archived: false }))
}

export interface Asked {
  /** `submitted_after` of each page of the list that was asked for; null where there was none. */
  readonly after: readonly (string | null)[]
  /** Ids that were asked for. */
  readonly ids: readonly string[]
}

/** Runs a backfill of responses alone, and tells what it asked for. */
export async function readResponses({ emulator, backfill }: Scene, ...args: string[]) {
  emulator.control.resetCounters()
  const run = await backfill('--streams', 'responses', '--json', ...args)
  const urls = emulator.control.requests().map(({ url }) => new URL(url, 'http://any.invalid'))
  const asked: Asked = {
    after: urls
      .filter(({ pathname }) => pathname === '/v2/responses')
      .map(({ searchParams }) => searchParams.get('submitted_after')),
    ids: urls.flatMap(({ pathname }) => /^\/v2\/responses\/(.+)$/.exec(pathname)?.[1] ?? []),
  }
  const document = JSON.parse(run.stdout) as {
    streams: { responses: Readonly<Record<string, number>> & { note: string | null; status: string } }
  }
  return { code: run.code, stderr: run.stderr, asked, ...document.streams.responses }
}

/** What the checkpoint of responses holds. */
export async function cursorIn(url: string): Promise<Readonly<Record<string, unknown>>> {
  const [row] = await query<{ cursor: Record<string, unknown> }>(
    url,
    "select cursor from intake_ops.checkpoints where stream = 'responses'",
  )
  return row!.cursor
}

export async function setCursor(url: string, cursor: unknown): Promise<void> {
  await query(url, "update intake_ops.checkpoints set cursor = $1::jsonb where stream = 'responses'", [
    JSON.stringify(cursor),
  ])
}

/** Holds the tables of responses against the world. */
export async function expectResponses(scene: Scene): Promise<void> {
  const own = (tables: Readonly<Record<string, readonly string[]>>) =>
    Object.fromEntries(Object.entries(tables).filter(([name]) => name.startsWith('response')))
  expect(own(await heldBy(scene.url))).toEqual(own(expectedOf(scene.emulator.control.world())))
}
