/**
 * Reads a stream's whole list: scan until stable, resolve conflicts, prove deletes, settle.
 *
 * Invariant: the cursor moves only after every record that was read is committed (law 5); a slice that runs twice, or is
 * killed anywhere, leaves tables that the next run completes.
 */
import { resolveUnmet } from '../../load/dead-letters.ts'
import { isUntouched } from '../../load/merge/load.ts'
import { settleSlice } from '../../load/slice.ts'
import type { Session } from '../../warehouse/connect.ts'
import { refetch, requestFailedFetches, settleConflicts } from '../conflicts/settle-conflicts.ts'
import { prove, proveDeletes } from '../scan/deletes.ts'
import { type ScanReport, type ScanRequest, scanStream } from '../scan/scan.ts'
import {
  massDeleteNote,
  NO_NOTE,
  partlyReadNote,
  type SliceNote,
  type SliceOptions,
  unstableNote,
} from '../slice-note.ts'
import type { Source } from '../source.ts'

/** `cursorOf`: further fields of the cursor. */
export async function readList(
  source: Source,
  session: Session,
  options: SliceOptions,
  request: ScanRequest = {},
  cursorOf: (scan: ScanReport, deletesWithheld: boolean) => object = () => ({}),
): Promise<SliceNote> {
  const { stream, taken } = source
  const place = { teamId: taken.teamId, stream: stream.name, runId: taken.runId }
  const { last, all, conflicting } = await scanUntilStable(source, session, options, request)
  const missed = new Set<string>()
  let deletesWithheld = false
  let note: SliceNote = NO_NOTE
  if (last.stable && options.migrated) {
    // A log has no deletes: entries that the service no longer lists have only expired there.
    if (stream.one !== null) {
      const deletes = await proveDeletes(source, session, last, options.allowMassDelete)
      deletesWithheld = deletes.kind === 'withheld'
      if (deletes.kind === 'withheld') note = massDeleteNote(stream.name, deletes.missing, deletes.allowed)
      else for (const id of deletes.conflicting) missed.add(id)
    }
    if (!options.dry)
      await resolveUnmet(session.db, place, { except: [...source.failedFetches.later.keys()] })
  } else if (!last.stable) {
    note = stream.entryAt === undefined ? unstableNote(all) : partlyReadNote(last)
  }
  // A stream without a path by id keeps the greater state.
  if (options.migrated && stream.one !== null) {
    await settleConflicts(source, session, conflicting, refetch)
    await settleConflicts(source, session, missed, prove)
  }
  if (!options.dry) {
    await requestFailedFetches(source, session)
    await last.seenIds.keepSummaries(place)
    await settleSlice(session.db, taken, {
      scanned_at: last.startedAt,
      steady: last.stable,
      ...cursorOf(last, deletesWithheld),
    })
  }
  return note
}

/** Scans of a list that keeps changing, in all. */
const SCANS = 3

interface Scans {
  readonly last: ScanReport
  readonly all: readonly ScanReport[]
  /** Ids in conflict, of all scans. */
  readonly conflicting: ReadonlySet<string>
}

/**
 * Scans a list again, a few times, while it changes during the scan. Every record that was read is loaded, however the
 * scans ended; only the last scan may prove deletes.
 */
export async function scanUntilStable(
  source: Source,
  session: Session,
  options: SliceOptions,
  request: ScanRequest = {},
): Promise<Scans> {
  const { team, stream, taken, logger, tally } = source
  const untouched = !options.migrated || (await isUntouched(session, taken.teamId, stream))
  const conflicting = new Set<string>()
  const all: ScanReport[] = []
  const before = { ...tally }
  for (let tries = 1; ; tries++) {
    const { fetched, unchanged, erased, deadLetters } = before
    // A dry run loads nothing, so that each scan counts the same records as changed.
    if (tries > 1) Object.assign(tally, options.dry ? before : { fetched, unchanged, erased, deadLetters })
    // Without tables there is nothing to compare with, however often the list is read.
    const straight = !options.migrated || (untouched && tries === 1)
    const mode = straight ? 'straight' : 'skip-unchanged'
    const last = await scanStream(source, session, mode, {
      everySummary: options.window.full || !options.migrated,
      known: options.migrated && !options.dry,
      ...(options.migrated && !options.dry
        ? { progress: tries === 1 && !untouched ? 'continue' : 'begin' }
        : {}),
      ...request,
    })
    all.push(last)
    for (const id of last.conflicting) conflicting.add(id)
    if (last.stable || last.stopped || tries === SCANS) return { last, all, conflicting }
    logger.info(
      { team, stream: stream.name, reason: last.reason, scan: tries },
      'the list changed while it was read; reading it again',
    )
  }
}
