/**
 * Reads a stream's whole list: scan until stable, resolve conflicts, prove deletes, settle.
 *
 * Invariant: the cursor moves only after every record that was read is committed (law 5); a slice that runs twice, or is
 * killed anywhere, leaves tables that the next run completes.
 */
import { resolveUnmet } from '../load/dead-letters.ts'
import { settleSlice } from '../load/slice.ts'
import type { Session } from '../warehouse/connect.ts'
import { refetch, requestFailedFetches, settleConflicts } from './conflicts/settle-conflicts.ts'
import { prove, proveDeletes } from './scan/deletes.ts'
import type { ScanReport, ScanRequest } from './scan/scan.ts'
import { scanUntilStable } from './scan/scan-until-stable.ts'
import {
  massDeleteNote,
  NO_NOTE,
  partlyReadNote,
  type SliceNote,
  type SliceOptions,
  unstableNote,
} from './slice-note.ts'
import type { Source } from './source.ts'

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
