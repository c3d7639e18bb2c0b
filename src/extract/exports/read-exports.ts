/**
 * Reads the exports of a team: their list, then the file of each.
 *
 *     list ─► entries ─► loaders                      (as any stream)
 *       └──► every id ─► file ─► spool ─► the same? ─► nothing
 *                                  └────── another ──► columns, rows, cells
 *
 * Invariant: the files are read by sessions of their own, two at most, so that a large file delays no other stream. Each
 * file is loaded whole or not at all, so a run that is killed anywhere leaves tables that the next run completes.
 */
import { resolveUnmet } from '../../load/dead-letters.ts'
import { type StoredExport, storedExports } from '../../load/exports/export-file.ts'
import { joinProblems } from '../../load/exports/file-problems.ts'
import { matchQuestions } from '../../load/exports/match-questions.ts'
import { openLoaders } from '../../load/loaders.ts'
import { settleSlice } from '../../load/slice.ts'
import type { Session } from '../../warehouse/connect.ts'
import { settleConflicts } from '../conflicts/settle-conflicts.ts'
import { scanUntilStable } from '../scan/scan-until-stable.ts'
import { NO_NOTE, type SliceNote, type SliceOptions, unstableNote } from '../slice-note.ts'
import type { Source } from '../source.ts'
import { deleteMissedTwice, refetchFromList } from './missed-twice.ts'
import { readFile } from './read-file.ts'

/** Each download occupies one of the client's requests in flight. */
const FILES_AT_ONCE = 2

export async function readExports(
  source: Source,
  session: Session,
  options: SliceOptions,
): Promise<SliceNote> {
  const { stream, taken, failedFetches } = source
  const { last, all, conflicting } = await scanUntilStable(source, session, options)
  // An entry that reappeared may narrowly lose to its tombstone: the conflict is resolved before its file is read.
  if (options.migrated) await settleConflicts(source, session, conflicting, refetchFromList)
  await readFiles(source, session, await last.seenIds.ids(), options)
  let note: SliceNote = last.stable ? NO_NOTE : unstableNote(all)
  if (last.stable && options.migrated) note = await deleteMissedTwice(source, session, last, options)
  if (options.dry) return note
  if (last.stable) {
    const place = { teamId: taken.teamId, stream: stream.name, runId: taken.runId }
    await resolveUnmet(session.db, place, { except: [...failedFetches.later.keys()] })
  }
  // An entry or a form may have changed although its file did not.
  await joinProblems(session.db, taken.teamId)
  await matchQuestions(session.db, taken.teamId)
  await settleSlice(session.db, taken, { scanned_at: last.startedAt, steady: last.stable })
  return note
}

async function readFiles(
  source: Source,
  session: Session,
  ids: readonly string[],
  { dry, migrated }: SliceOptions,
): Promise<void> {
  const { client, clock, logger, url, taken } = source
  const none: ReadonlyMap<string, StoredExport> = new Map()
  const stored = migrated ? await storedExports(session.db, taken.teamId, ids) : none
  // Leaves one request in flight to the other streams.
  const count = Math.max(1, Math.min(FILES_AT_ONCE, client.concurrency - 1))
  await using readers = openLoaders({
    url,
    clock,
    count,
    onRetry: (code, attempt) => logger.warn({ code, attempt }, 'reading an export again after a failure'),
  })
  let failure: { readonly error: unknown } | null = null
  await Promise.all(
    ids.map(async (id) => {
      // A dead-lettered entry has no row that cells could belong to.
      if (!dry && !stored.has(id)) return
      try {
        await readers.run(async (reader) => {
          if (failure === null) await readFile(source, reader, id, stored.get(id), dry)
        })
      } catch (error) {
        failure ??= { error }
      }
    }),
  )
  if (failure !== null) throw (failure as { readonly error: unknown }).error
}
