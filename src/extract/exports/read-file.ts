/**
 * Fetches the file of one listed export, compares it with the loaded file, and loads it when it differs.
 *
 * Invariant: an unchanged file writes nothing. A file that the service refuses, or that cannot be read, is
 * dead-lettered, and the other exports continue; a file that cannot be fetched because the service fails is left to the next
 * run; a service that returns no file at all ends the stream.
 */
import { ApiError } from '../../api/errors.ts'
import type { IntakeError } from '../../core/errors.ts'
import { dropFiles, type ExportFile, isUnchanged, type StoredExport } from '../../load/exports/export-file.ts'
import { isSentAsJsonString } from '../../load/exports/export-text.ts'
import { MalformedFile } from '../../load/exports/file-problems.ts'
import { loadFile, rejectFile } from '../../load/exports/load-file.ts'
import { spool } from '../../load/exports/spool.ts'
import { assertOwned } from '../../load/slice.ts'
import { openLines } from '../../normalize/lines.ts'
import type { Session } from '../../warehouse/connect.ts'
import { sqlstateOf } from '../../warehouse/sqlstate.ts'
import { meaningOf } from '../conflicts/fetch-by-id.ts'
import type { Source } from '../source.ts'
import { type Downloaded, download } from './download.ts'

/** `stored`: the export's current state. A dry run writes nothing. */
export async function readFile(
  source: Source,
  session: Session,
  id: string,
  stored: StoredExport | undefined,
  dry: boolean,
): Promise<void> {
  const { taken, tally } = source
  const file = await fetchFile(source, session, id, stored?.hash ?? null, dry)
  if (file === null) return
  if (isUnchanged(stored, file)) {
    if (stored?.hasRejected && !dry) await forgetBroken(source, session, id)
    return
  }
  if (!dry) {
    try {
      const { problems } = await loadFile(session, taken, file)
      tally.problems += problems
    } catch (error) {
      const reason = reasonOf(error)
      if (reason === null) throw error
      await rejectFile(session, taken, file, reason)
      tally.deadLetters += 1
      return
    }
  }
  // The scan of the list counted the export already: as changed when its entry was.
  if (stored === undefined || stored.origin.startsWith(`run:${taken.runId} `)) return
  tally.changed += 1
  tally.unchanged = Math.max(0, tally.unchanged - 1)
}

/** Null when the service does not return the file: it becomes a dead letter, or the next run requests it again. */
async function fetchFile(
  source: Source,
  session: Session,
  id: string,
  known: string | null,
  dry: boolean,
): Promise<ExportFile | null> {
  const { client, stream, taken, timezone, tally, failedFetches, load } = source
  const origin = `run:${taken.runId} file`
  let downloaded: Downloaded
  try {
    downloaded = await download(source, id, known, (pieces) => spool(dry ? null : session, pieces))
  } catch (error) {
    if (meaningOf(error, failedFetches, 'file') === 'later') {
      failedFetches.later.set(id, (error as IntakeError).message)
      return null
    }
    const deadLetter = { recordId: id, origin, reason: refusalReason(error), body: 'null' }
    await load(
      session,
      { stream, taken, lines: openLines(stream).build(), deadLetters: [deadLetter] },
      'merge',
    )
    tally.deadLetters += 1
    return null
  }
  failedFetches.inRow = 0
  const { spooled, contentType, observedAt } = downloaded
  const { last: _, ...measures } = spooled
  const isJsonString = isSentAsJsonString(contentType, spooled.first[0] ?? Buffer.alloc(0))
  return {
    ...measures,
    exportId: id,
    isJsonString,
    apiVersion: client.apiVersion,
    timezone,
    observedAt,
    origin,
  }
}

function refusalReason(error: unknown): string {
  if (!(error instanceof ApiError))
    return error instanceof Error ? error.message : 'the file cannot be fetched'
  if (error.status === 404) return 'is in the list, but its file is not found (404)'
  const status = error.status === undefined ? '' : ` (${error.status})`
  return `the service does not give the file${status}`
}

/** Why a file cannot be loaded; null when the file did not cause the failure. */
function reasonOf(error: unknown): string | null {
  if (error instanceof MalformedFile) return error.message
  const state = sqlstateOf(error)
  return state !== undefined && /^(?:22|54)/.test(state)
    ? `the warehouse refused the file (SQLSTATE ${state})`
    : null
}

/** The service returns the loaded file again: a later file that was rejected is of no more use. */
async function forgetBroken({ taken }: Source, { db }: Session, exportId: string): Promise<void> {
  await db.transaction().execute(async (transaction) => {
    await dropFiles(transaction, { teamId: taken.teamId, exportId }, false)
    await assertOwned(transaction, taken)
  })
}
