/**
 * One slice from taking it to settling it: scan until steady, ask again for what is contested, prove deletes, settle.
 *
 * Invariant: the cursor moves only after everything that was read is committed (law 5); a slice run twice, or killed
 * anywhere, leaves tables that the next run completes.
 */

import { resolveUnmet } from '../load/dead-letters.ts'
import { isUntouched } from '../load/load.ts'
import { settleSlice } from '../load/slice.ts'
import type { Session } from '../warehouse/connect.ts'
import { openBatcher } from './batcher.ts'
import { type Proof, prove, proveDeletes } from './deletes.ts'
import { fetchOne } from './fetch-one.ts'
import { type ScanReport, scanStream } from './scan.ts'
import type { Source } from './source.ts'

/** A list that changes while it is read is read again, this many times in all. */
const SCANS = 3

/** Rounds of asking again for records whose order is in doubt, and the pause that lets the clocks move on. */
const REFETCHES = 4
const REFETCH_PAUSE_MS = 700

export interface SliceOptions {
  readonly allowMassDelete: boolean
  /** True for a dry run: nothing is settled. */
  readonly dry: boolean
  /** False when the warehouse has no tables yet, as a dry run may find it. */
  readonly migrated: boolean
}

/** What there is to say about a slice that did not fail; `attention` when a person has to act. */
export interface SliceNote {
  readonly text: string | null
  readonly attention: boolean
}

export async function runSlice(source: Source, session: Session, options: SliceOptions): Promise<SliceNote> {
  const { stream, taken, logger } = source
  const place = { teamId: taken.teamId, stream: stream.name, runId: taken.runId }
  const untouched = !options.migrated || (await isUntouched(session, taken.teamId, stream))
  const contested = new Set<string>()
  const missed = new Set<string>()
  let scan: ScanReport
  for (let tries = 1; ; tries++) {
    scan = await scanStream(source, session, untouched && tries === 1 ? 'straight' : 'sift')
    for (const id of scan.contested) contested.add(id)
    if (scan.steady || tries === SCANS) break
    logger.info(
      { stream: stream.name, reason: scan.reason, scan: tries },
      'the list changed while it was read; reading it again',
    )
  }
  let note: SliceNote = { text: null, attention: false }
  if (scan.steady && options.migrated) {
    const deletes = await proveDeletes(source, session, scan, options.allowMassDelete)
    if (deletes.kind === 'held') note = heldNote(stream.name, deletes.missing, deletes.allowed)
    else for (const id of deletes.contested) missed.add(id)
    if (!options.dry) await resolveUnmet(session.db, place)
  } else if (!scan.steady) {
    const text = `the list kept changing while it was read (${scan.reason ?? 'unsteady'}); deletes are looked for next time`
    note = { text, attention: false }
  }
  await settle(source, contested, refetch)
  await settle(source, missed, prove)
  if (!options.dry) await settleSlice(session.db, taken, { scanned_at: scan.startedAt, steady: scan.steady })
  return note
}

/** Asks the service for each record whose newest state is in doubt, until its answer wins or agrees. */
async function settle(
  source: Source,
  contested: ReadonlySet<string>,
  ask: (source: Source, id: string) => Promise<Proof>,
): Promise<void> {
  let ids: readonly string[] = [...contested]
  for (let round = 1; ids.length > 0 && round <= REFETCHES; round++) {
    if (round > 1) await source.clock.sleep(REFETCH_PAUSE_MS, source.signal)
    const batcher = openBatcher(source, 'merge')
    const found = await Promise.all(ids.map((id) => ask(source, id)))
    await batcher.add(
      found.flatMap((each) => each.envelopes),
      found.flatMap((each) => each.letters),
    )
    ids = await batcher.finish()
  }
}

/** The record as it is now; one that is gone was in the list a moment ago, and the next scan will miss it. */
async function refetch(source: Source, id: string): Promise<Proof> {
  const found = await fetchOne(source, id, 'refetch')
  return {
    envelopes: found.kind === 'record' ? [found.envelope] : [],
    letters: found.kind === 'dead' ? [found.letter] : [],
  }
}

function heldNote(stream: string, missing: number, allowed: number): SliceNote {
  const text = `${missing} ${stream} are missing from a complete list, more than the ${allowed} that are deleted unasked; nothing was deleted. If they are really gone, run again with --allow-mass-delete`
  return { text, attention: true }
}
