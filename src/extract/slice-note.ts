/** What a slice is told, and what there is to say of it. */
import type { ScanReport } from './scan/scan.ts'
import type { WindowOptions } from './scan/window.ts'

export interface SliceOptions {
  readonly allowMassDelete: boolean
  /** True for a dry run: nothing is settled. */
  readonly dry: boolean
  /** False when the warehouse has no tables yet, as a dry run may find it. */
  readonly migrated: boolean
  readonly window: WindowOptions
}

/** What there is to say about a slice that did not fail; `attention` when a person has to act. */
export interface SliceNote {
  readonly text: string | null
  readonly attention: boolean
}

export const NOTHING_TO_SAY: SliceNote = { text: null, attention: false }

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
 * Records that a scan found. Pages beyond the one that ended a scan early were read or not as requests overtook each
 * other, so they do not count.
 */
function foundBy({ complete, distinct, listed }: ScanReport): number {
  return complete ? distinct : listed
}

/** Of a log, whose count decides nothing: what is missing is read the next time, and needs nobody. */
export function partlyReadNote({ count, reason }: ScanReport): SliceNote {
  const told = count === null ? '' : `, of ${count} that the service counts`
  return {
    text: `not all entries of the log were listed${told} (${reason ?? 'unstable'}); it is read again next time`,
    attention: false,
  }
}

export function massDeleteNote(stream: string, missing: number, allowed: number): SliceNote {
  const text = `${missing} ${stream} are missing from a complete list, more than the ${allowed} that are deleted unasked; nothing was deleted. If they are really gone, run again with --allow-mass-delete`
  return { text, attention: true }
}

/** Why everything was read where a part had done. */
export function everythingNote(why: string): SliceNote {
  return { text: `${why}; everything was read`, attention: false }
}

/** A checkpoint that is doubted, of a run that was told from when to read. */
export function sinceNote(doubt: string): SliceNote {
  return {
    text: `${doubt}; what was asked for with --since was read, and the next run reads everything`,
    attention: false,
  }
}

/** Both notes as one. */
export function joined(...notes: readonly SliceNote[]): SliceNote {
  const texts = notes.flatMap(({ text }) => text ?? [])
  return {
    text: texts.length === 0 ? null : texts.join('; '),
    attention: notes.some(({ attention }) => attention),
  }
}
