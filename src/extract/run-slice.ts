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
import { prove, proveDeletes } from './deletes.ts'
import { type ScanReport, scanStream } from './scan.ts'
import { refetch, settleContested } from './settle-contested.ts'
import type { Source } from './source.ts'

/** A list that changes while it is read is read again, this many times in all. */
const SCANS = 3

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
  const { stream, taken, logger, tally } = source
  const place = { teamId: taken.teamId, stream: stream.name, runId: taken.runId }
  const untouched = !options.migrated || (await isUntouched(session, taken.teamId, stream))
  const contested = new Set<string>()
  const missed = new Set<string>()
  const scans: ScanReport[] = []
  let scan: ScanReport
  for (let tries = 1; ; tries++) {
    if (tries > 1) Object.assign(tally, { fetched: 0, unchanged: 0, deadLetters: 0 })
    // Without tables there is nothing to compare with, however often the list is read.
    const straight = !options.migrated || (untouched && tries === 1)
    scan = await scanStream(source, session, straight ? 'straight' : 'sift')
    scans.push(scan)
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
    note = unsteadyNote(scans)
  }
  if (options.migrated) {
    await settleContested(source, session, contested, refetch)
    await settleContested(source, session, missed, prove)
  }
  if (!options.dry) await settleSlice(session.db, taken, { scanned_at: scan.startedAt, steady: scan.steady })
  return note
}

function unsteadyNote(scans: readonly ScanReport[]): SliceNote {
  const { distinct, count, reason } = scans.at(-1)!
  const alike = scans.every(
    (scan) => scan.distinct === distinct && scan.count === count && scan.reason === reason,
  )
  if (alike && count !== null && count !== distinct) {
    const text = `the service counts ${count} but lists ${distinct} distinct records, each time the same; deletes are not looked for while its count is wrong`
    return { text, attention: true }
  }
  const text = `the list kept changing while it was read (${reason ?? 'unsteady'}); deletes are looked for next time`
  return { text, attention: false }
}

function heldNote(stream: string, missing: number, allowed: number): SliceNote {
  const text = `${missing} ${stream} are missing from a complete list, more than the ${allowed} that are deleted unasked; nothing was deleted. If they are really gone, run again with --allow-mass-delete`
  return { text, attention: true }
}
