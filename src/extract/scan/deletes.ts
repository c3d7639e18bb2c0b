/**
 * Finds and proves deletes (law 6).
 *
 * Invariant: a tombstone is written only for an id that a steady scan missed and that a GET by id then answered with
 * 404. When more are missing than the guard allows, none is asked for and none is written.
 */

import type { Envelope } from '../../core/envelope.ts'
import { instantOf, microsOf } from '../../core/time.ts'
import type { DeadLetter } from '../../normalize/dead-letter.ts'
import { tombstone } from '../../normalize/read-record.ts'
import type { Session } from '../../warehouse/connect.ts'
import { fetchForRun } from '../conflicts/fetch-by-id.ts'
import type { Source } from '../source.ts'
import { openBatcher } from './batcher.ts'
import type { ScanReport } from './scan.ts'
import { countLive } from './seen-ids.ts'

/** Deletes of one scan that need nobody: this many, or this share of the stream's live rows. */
export const GUARD_ROWS = 50
export const GUARD_SHARE = 0.05

/**
 * How much the start of a scan, a lower bound in the service's clock, may lie before what an earlier run that began
 * before it noted as seen: the bound of each run is off by another part of a second. Whatever this lets in is asked
 * for by id like any other.
 */
const BOUND_MICROS = 1_000_000

/** Ids proved and settled together. */
const PORTION = 500

export type DeleteReport =
  | { readonly kind: 'done'; readonly contested: readonly string[] }
  | { readonly kind: 'held'; readonly missing: number; readonly allowed: number }

export async function proveDeletes(
  source: Source,
  session: Session,
  scan: ScanReport,
  allowMassDelete: boolean,
): Promise<DeleteReport> {
  const { stream, taken } = source
  const place = { teamId: taken.teamId, stream: stream.name, table: stream.table }
  const before = instantOf(microsOf(scan.startedAt) + BOUND_MICROS)
  const { count: missing } = await scan.seenIds.missing(place, before, 1)
  if (missing === 0) return { kind: 'done', contested: [] }
  const allowed = Math.max(GUARD_ROWS, Math.floor((await countLive(session, place)) * GUARD_SHARE))
  if (missing > allowed && !allowMassDelete) return { kind: 'held', missing, allowed }
  // One that turns out to be alive is often as it is held: a service may list less than it gives.
  const batcher = openBatcher(source, 'sift')
  const { unchanged } = source.tally
  const contested: string[] = []
  let proved = 0
  while (proved < missing) {
    // What is proved is gone from the list of the missing, unless it turned out to be alive: those are stepped over.
    const { ids } = await scan.seenIds.missing(place, before, PORTION)
    if (ids.length === 0) break
    for (const id of ids) scan.seenIds.add(id)
    const { envelopes, letters } = await prove(source, ids)
    await batcher.add(envelopes, letters)
    contested.push(...(await batcher.finish()))
    proved += ids.length
  }
  source.tally.unchanged = unchanged
  return { kind: 'done', contested }
}

export interface Proof {
  readonly envelopes: readonly Envelope[]
  readonly letters: readonly DeadLetter[]
}

/** Fetches records that a steady scan missed: a tombstone for what is gone, else what it is now. */
export async function prove(source: Source, ids: readonly string[]): Promise<Proof> {
  const { stream, taken } = source
  const place = { teamId: taken.teamId, stream: stream.name, origin: `run:${taken.runId} proof` }
  const found = await fetchForRun(source, ids, 'proof')
  const envelopes = found.flatMap((each, at) => {
    if (each.kind === 'record') return each.envelope
    return each.kind === 'gone' ? tombstone(ids[at]!, { ...place, observedAt: each.observedAt }) : []
  })
  return { envelopes, letters: found.flatMap((each) => (each.kind === 'dead' ? each.deadLetter : [])) }
}
