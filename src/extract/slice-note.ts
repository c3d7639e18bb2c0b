/**
 * The options of a slice, and the notes about its outcome.
 *
 * Invariant: a note contains counts, ids of streams and reasons, never a value of a record.
 */

import type { WindowOptions } from './reading/window.ts'
import type { ScanReport } from './scan/scan.ts'

export interface SliceOptions {
  readonly allowMassDelete: boolean
  /** True for a dry run: nothing is settled. */
  readonly dry: boolean
  /** False when the warehouse has no tables yet, as a dry run may find it. */
  readonly migrated: boolean
  readonly window: WindowOptions
}

/** A note about a slice that did not fail; `attention` when a person has to act. */
export interface SliceNote {
  readonly text: string | null
  readonly attention: boolean
}

export const NO_NOTE: SliceNote = { text: null, attention: false }

export function unstableNote(scans: readonly ScanReport[]): SliceNote {
  const { count, reason, complete } = scans.at(-1)!
  const found = foundBy(scans.at(-1)!)
  const alike = scans.every(
    (scan) => foundBy(scan) === found && scan.count === count && scan.reason === reason,
  )
  if (alike && count !== null && count !== found) {
    const listed = complete ? `lists ${found} distinct records` : `its pages end after ${found} records`
    const text = `the service counts ${count} but ${listed}, each time the same; deletes are not looked for while its count is wrong`
    return { text, attention: true }
  }
  const text = `the list kept changing while it was read (${reason ?? 'unstable'}); deletes are looked for next time`
  return { text, attention: false }
}

/**
 * Records that a scan found. Whether pages beyond the one that ended a scan early were read depends on the order of
 * parallel requests, so they do not count.
 */
function foundBy({ complete, distinct, listed }: ScanReport): number {
  return complete ? distinct : listed
}

/** For a log, whose count decides nothing: missing entries are read the next time, and no person has to act. */
export function partlyReadNote({ count, reason }: ScanReport): SliceNote {
  const counted = count === null ? '' : `, of ${count} that the service counts`
  return {
    text: `not all entries of the log were listed${counted} (${reason ?? 'unstable'}); it is read again next time`,
    attention: false,
  }
}

export function massDeleteNote(stream: string, missing: number, allowed: number): SliceNote {
  const text = `${missing} ${stream} are missing from a complete list, more than the ${allowed} that a run deletes by itself; nothing was deleted. If they are really gone, run again with --allow-mass-delete`
  return { text, attention: true }
}

/** Why everything was read instead of a window. */
export function everythingNote(why: string): SliceNote {
  return { text: `${why}; everything was read`, attention: false }
}

/** For a run with --since whose stored checkpoint is invalid. */
export function sinceNote(reason: string): SliceNote {
  return {
    text: `${reason}; the records from --since on were read, and the next run reads everything`,
    attention: false,
  }
}

/** Both notes as one. */
export function joinNotes(...notes: readonly SliceNote[]): SliceNote {
  const texts = notes.flatMap(({ text }) => text ?? [])
  return {
    text: texts.length === 0 ? null : texts.join('; '),
    attention: notes.some(({ attention }) => attention),
  }
}
