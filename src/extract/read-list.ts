/**
 * A stream by its whole list: scan until steady, ask again for what is contested, prove deletes, settle.
 *
 * Invariant: the cursor moves only after everything that was read is committed (law 5); a slice run twice, or killed
 * anywhere, leaves tables that the next run completes.
 */
import { resolveUnmet } from '../load/dead-letters.ts'
import { settleSlice } from '../load/slice.ts'
import type { Session } from '../warehouse/connect.ts'
import { askLater } from './conflicts/ask-later.ts'
import { refetch, settleConflicts } from './conflicts/settle-conflicts.ts'
import { prove, proveDeletes } from './scan/deletes.ts'
import type { ScanReport, ScanRequest } from './scan/scan.ts'
import { scanUntilStable } from './scan/scan-until-stable.ts'
import {
  massDeleteNote,
  NOTHING_TO_SAY,
  partlyReadNote,
  type SliceNote,
  type SliceOptions,
  unstableNote,
} from './slice-note.ts'
import type { Source } from './source.ts'

/** `cursorOf` adds to the cursor what a way of reading keeps there. */
export async function readList(
  source: Source,
  session: Session,
  options: SliceOptions,
  request: ScanRequest = {},
  cursorOf: (scan: ScanReport, deletesHeld: boolean) => object = () => ({}),
): Promise<SliceNote> {
  const { stream, taken } = source
  const place = { teamId: taken.teamId, stream: stream.name, runId: taken.runId }
  const { last, all, contested } = await scanUntilStable(source, session, options, request)
  const missed = new Set<string>()
  let deletesHeld = false
  let note: SliceNote = NOTHING_TO_SAY
  if (last.stable && options.migrated) {
    // A log is never shortened here: what the service no longer lists, it has only forgotten.
    if (stream.one !== null) {
      const deletes = await proveDeletes(source, session, last, options.allowMassDelete)
      deletesHeld = deletes.kind === 'held'
      if (deletes.kind === 'held') note = massDeleteNote(stream.name, deletes.missing, deletes.allowed)
      else for (const id of deletes.contested) missed.add(id)
    }
    if (!options.dry) await resolveUnmet(session.db, place, { except: [...source.patience.later.keys()] })
  } else if (!last.stable) {
    note = stream.entryAt === undefined ? unstableNote(all) : partlyReadNote(last)
  }
  // Without a path by id nobody can be asked: what the greater state says stays.
  if (options.migrated && stream.one !== null) {
    await settleConflicts(source, session, contested, refetch)
    await settleConflicts(source, session, missed, prove)
  }
  if (!options.dry) {
    await askLater(source, session)
    await last.seenIds.keepSummaries(place)
    await settleSlice(session.db, taken, {
      scanned_at: last.startedAt,
      steady: last.stable,
      ...cursorOf(last, deletesHeld),
    })
  }
  return note
}
