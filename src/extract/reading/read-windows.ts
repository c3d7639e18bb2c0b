/**
 * Reads a stream from its checkpoint on and, every few days, its whole list.
 *
 *     plan ─► window ─► rows satisfy the filter? ─► settle
 *                └──────────── no ─────────────► whole list ─► deletes ─► settle
 *
 * Invariant (law 7): a filter is trusted only when rows were seen and every one satisfies it. The window always includes
 * the newest record that is known, so an empty answer proves nothing.
 */
import { instantOf } from '../../core/time.ts'
import { resolveUnmet, waitingIds } from '../../load/dead-letters.ts'
import { settleSlice } from '../../load/slice.ts'
import type { Session } from '../../warehouse/connect.ts'
import { refetch, requestFailedFetches, settleConflicts } from '../conflicts/settle-conflicts.ts'
import type { ScanReport } from '../scan/scan.ts'
import {
  everythingNote,
  joinNotes,
  NO_NOTE,
  type SliceNote,
  type SliceOptions,
  sinceNote,
  unstableNote,
} from '../slice-note.ts'
import type { Source } from '../source.ts'
import { readList, scanUntilStable } from './read-list.ts'
import type { Checkpoint } from './window.ts'
import { isInWindow, planWindow, reachesBack } from './window.ts'

/** Dead-lettered records that are fetched again in one run. */
const MAX_RETRIED = 100

/** A stream's date filter: the query parameter, and the field that it compares. */
export interface DateFilter {
  readonly parameter: string
  readonly field: string
}

export async function readWindows(
  source: Source,
  session: Session,
  options: SliceOptions,
  filter: DateFilter,
): Promise<SliceNote> {
  const { clock, taken, team, stream, logger } = source
  const now = instantOf(clock.now())
  const { after, checkpoint, note } = planWindow(taken.cursor, options.window, now)
  let reason = note
  if (after !== null) {
    const window = await readWindow(source, session, options, filter, after, checkpoint)
    if (window.kind === 'read') return note === null ? window.note : joinNotes(sinceNote(note), window.note)
    logger.warn({ team, stream: stream.name }, `${window.reason}; reading everything`)
    reason = note === null ? window.reason : `${note}; ${window.reason}`
  }
  // Only a stable scan of everything proves which record is the newest, and may move `swept_at`. A scan with withheld
  // deletes is repeated by the next run, which withholds them again or is allowed to delete.
  const cursorOf = (scan: ScanReport, deletesWithheld: boolean): Checkpoint => {
    if (!scan.stable) return checkpoint
    return { newest: scan.newest, swept_at: deletesWithheld ? null : scan.startedAt }
  }
  const said = reason === null ? NO_NOTE : everythingNote(reason)
  return joinNotes(said, await readList(source, session, options, { dated: filter.field }, cursorOf))
}

type WindowRead =
  | { readonly kind: 'read'; readonly note: SliceNote }
  /** The service did not apply the filter as expected. */
  | { readonly kind: 'untrusted'; readonly reason: string }

async function readWindow(
  source: Source,
  session: Session,
  options: SliceOptions,
  { parameter, field }: DateFilter,
  after: string,
  checkpoint: Checkpoint,
): Promise<WindowRead> {
  const { taken, tally } = source
  const before = { ...tally }
  const { last, all, conflicting } = await scanUntilStable(source, session, options, {
    query: { [parameter]: after },
    dated: field,
    satisfies: (payload) => isInWindow(payload[field], after),
  })
  const reaches = checkpoint.newest !== null && reachesBack(after, checkpoint.newest)
  // A scan that ended early may not have reached the newest record.
  const lacksNewest = reaches && last.complete && (last.newest ?? '') < checkpoint.newest
  if (last.stopped || last.distinct === 0 || lacksNewest) {
    // The records that were read are loaded; the scan of everything counts them again.
    const { fetched, unchanged, erased, deadLetters } = before
    Object.assign(tally, options.dry ? before : { fetched, unchanged, erased, deadLetters })
    const reason = last.stopped
      ? 'the service does not keep to the date filter'
      : last.distinct === 0
        ? 'the service lists nothing for the date filter'
        : 'the newest record known is not among what the service lists for the date filter'
    return { kind: 'untrusted', reason }
  }
  if (options.migrated) {
    await settleConflicts(source, session, conflicting, refetch)
    await retryDeadLetters(source, session, options)
  }
  if (!options.dry) {
    await requestFailedFetches(source, session)
    await last.seenIds.keepSummaries({ teamId: taken.teamId, stream: source.stream.name })
    const newest = reaches && last.stable ? later(last.newest, checkpoint.newest) : checkpoint.newest
    await settleSlice(session.db, taken, {
      scanned_at: last.startedAt,
      steady: last.stable,
      ...checkpoint,
      newest,
    })
  }
  return { kind: 'read', note: last.stable ? NO_NOTE : unstableNote(all) }
}

/**
 * Fetches by id the records that an earlier run dead-lettered: the window may not include them. Resolves those that
 * load now.
 */
async function retryDeadLetters(source: Source, session: Session, { dry }: SliceOptions): Promise<void> {
  const { taken, stream } = source
  const place = { teamId: taken.teamId, stream: stream.name, runId: taken.runId }
  const ids = await waitingIds(session.db, place, MAX_RETRIED)
  await settleConflicts(source, session, new Set(ids), refetch)
  if (!dry) await resolveUnmet(session.db, place, { ids, except: [...source.failedFetches.later.keys()] })
}

function later<T extends string>(a: T | null, b: T | null): T | null {
  if (a === null || b === null) return a ?? b
  return a > b ? a : b
}
