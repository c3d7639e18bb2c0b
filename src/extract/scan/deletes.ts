/**
 * Finds and proves deletes (law 6).
 *
 * Invariant: a tombstone is written only for an id that a stable scan missed and that a GET by id then answered with
 * 404. When more ids are missing than the guard allows, none is fetched and no tombstone is written.
 */
import type { Envelope } from '../../core/envelope.ts'
import { instantOf, microsOf } from '../../core/time.ts'
import { type DeadLetter, tombstone } from '../../normalize/read-record.ts'
import type { Session } from '../../warehouse/connect.ts'
import { fetchForRun } from '../conflicts/fetch-by-id.ts'
import type { Source } from '../source.ts'
import { openBatcher } from './batcher.ts'
import type { ScanReport } from './scan.ts'
import { countLive } from './seen-ids.ts'

/** Deletes of one scan that need no `--allow-mass-delete`: this many, or this share of the stream's live rows. */
export const GUARD_ROWS = 50
export const GUARD_SHARE = 0.05

/**
 * Tolerance for comparing the start of this scan with `observed_at` of an earlier run. Both are lower bounds on the
 * service's clock, each off by a different part of a second. A record that this lets in is fetched by id like any other.
 */
const BOUND_MICROS = 1_000_000

/** Ids proved and settled together. */
const PORTION = 500

export type DeleteReport =
  | { readonly kind: 'done'; readonly conflicting: readonly string[] }
  | { readonly kind: 'withheld'; readonly missing: number; readonly allowed: number }

export async function proveDeletes(
  source: Source,
  session: Session,
  scan: ScanReport,
  allowMassDelete: boolean,
): Promise<DeleteReport> {
  const { stream, taken } = source
  const place = { teamId: taken.teamId, stream: stream.name, table: stream.table }
  source.step.phase = 'delete check'
  const before = instantOf(microsOf(scan.startedAt) + BOUND_MICROS)
  const { count: missing } = await scan.seenIds.missing(place, before, 1)
  if (missing === 0) return { kind: 'done', conflicting: [] }
  const allowed = Math.max(GUARD_ROWS, Math.floor((await countLive(session, place)) * GUARD_SHARE))
  if (missing > allowed && !allowMassDelete) return { kind: 'withheld', missing, allowed }
  // A missing record that is alive is often unchanged: a service may list fewer records than it returns by id.
  const batcher = openBatcher(source, 'skip-unchanged')
  const { unchanged } = source.tally
  const conflicting: string[] = []
  let proved = 0
  while (proved < missing) {
    // A proved delete is missing no longer. A record that is alive is added to the seen ids, so that it is skipped.
    const { ids } = await scan.seenIds.missing(place, before, PORTION)
    if (ids.length === 0) break
    for (const id of ids) scan.seenIds.add(id)
    const { envelopes, deadLetters } = await prove(source, ids)
    await batcher.add(envelopes, deadLetters)
    conflicting.push(...(await batcher.finish()))
    proved += ids.length
  }
  source.tally.unchanged = unchanged
  return { kind: 'done', conflicting }
}

export interface Proof {
  readonly envelopes: readonly Envelope[]
  readonly deadLetters: readonly DeadLetter[]
}

/** Fetches records that a stable scan missed: returns a tombstone for each that is gone, else its current state. */
export async function prove(source: Source, ids: readonly string[]): Promise<Proof> {
  const { stream, taken } = source
  const place = { teamId: taken.teamId, stream: stream.name, origin: `run:${taken.runId} proof` }
  const found = await fetchForRun(source, ids, 'proof')
  const envelopes = found.flatMap((each, index) => {
    if (each.kind === 'record') return each.envelope
    return each.kind === 'gone' ? tombstone(ids[index]!, { ...place, observedAt: each.observedAt }) : []
  })
  return {
    envelopes,
    deadLetters: found.flatMap((result) => (result.kind === 'dead' ? result.deadLetter : [])),
  }
}
