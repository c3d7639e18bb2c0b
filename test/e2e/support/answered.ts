/** Responses that a test creates with the stamps that it needs, and the requests of a run for their list. */

import { expect } from 'vitest'
import { type Instant, instantOf, microsOf, parseInstant } from '../../../src/core/time.ts'
import type { Response } from '../../../src/emulator/world/records.ts'
import type { World } from '../../../src/emulator/world/world.ts'
import { expectedOf, storedTables } from './expected.ts'
import { query, type Scene } from './scene.ts'

export const MINUTE = 60_000_000
export const DAY = 1_440 * MINUTE

/** The latest submission of a world: the checkpoint after everything was read. */
export function newestOf(world: World): Instant {
  const stamps = responsesOf(world).flatMap(({ submitted_at }) => submitted_at ?? [])
  return parseInstant(stamps.sort().at(-1)!)!
}

export function responsesOf({ responses }: World): readonly Response[] {
  return Array.from({ length: responses.end }, (_, at) => responses.at(at) ?? []).flat()
}

/** `micros` microseconds after a time; before it if negative. */
export function plus(moment: string, micros: number): Instant {
  return instantOf(microsOf(parseInstant(moment)!) + micros)
}

/** A response submitted at that time, with the answers of another one of this world. */
export function submitAt(world: World, submitted_at: string): Response {
  const like = responsesOf(world).find(
    ({ is_submitted, packet, answers }) => is_submitted && packet === null && answers.length > 0,
  )!
  const stamps = { submitted_at, created_at: submitted_at, updated_at: submitted_at }
  return world.responses.create((id) => ({ ...like, ...stamps, id, is_archived: false }))
}

export interface Asked {
  /** `submitted_after` of each requested page of the list; null where there was none. */
  readonly after: readonly (string | null)[]
  /** Ids that were requested. */
  readonly ids: readonly string[]
}

/** Runs a backfill of responses only, and returns its requests. */
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

/** The stored checkpoint of responses. */
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

/** Compares the tables of responses with the world. */
export async function expectResponses(scene: Scene): Promise<void> {
  const own = (tables: Readonly<Record<string, readonly string[]>>) =>
    Object.fromEntries(Object.entries(tables).filter(([name]) => name.startsWith('response')))
  expect(own(await storedTables(scene.url))).toEqual(own(expectedOf(scene.emulator.control.world())))
}
