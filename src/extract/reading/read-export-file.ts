/**
 * Fetches the file of one listed export, compares it with the loaded file, and loads it when it differs.
 *
 * Invariant: an unchanged file writes nothing. A file that the service refuses, or that cannot be read, is
 * dead-lettered, and the other exports continue; a file that cannot be fetched because the service fails is left to the next
 * run; a service that returns no file at all ends the stream.
 */
import { ApiError } from '../../api/errors.ts'
import { streamExport } from '../../api/resources/responses.ts'
import { IntakeError } from '../../core/errors.ts'
import type { Instant } from '../../core/time.ts'
import { dropFiles, type ExportFile, isUnchanged, type StoredExport } from '../../load/exports/export-file.ts'
import { isSentAsJsonString } from '../../load/exports/export-text.ts'
import { MalformedFile } from '../../load/exports/file-problems.ts'
import { loadFile, rejectFile } from '../../load/exports/load-file.ts'
import { type Spooled, spool } from '../../load/exports/spool.ts'
import { assertOwned } from '../../load/slice.ts'
import { openLines } from '../../normalize/lines.ts'
import type { Session } from '../../warehouse/connect.ts'
import { sqlstateOf } from '../../warehouse/sqlstate.ts'
import { meaningOf } from '../conflicts/fetch-by-id.ts'
import type { Source } from '../source.ts'

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

interface Downloaded {
  readonly spooled: Spooled
  readonly contentType: string | undefined
  readonly observedAt: Instant
}

const TRIES = 3
const PAUSE_MS = 500

/**
 * Downloads an export's file to its end. A body that breaks off is requested again, a few times. A body may have been cut
 * unnoticed when its length is unknown, it does not end with a line, or it is empty; it is accepted only when it equals the
 * known file, or two downloads agree.
 *
 * `take` reads all pieces, and may be called again from the start; `known` is the hash of the stored file.
 */
export async function download(
  source: Source,
  id: string,
  known: string | null,
  take: (pieces: AsyncIterable<Buffer>) => Promise<Spooled>,
): Promise<Downloaded> {
  const { client, serviceClock, clock, meter, signal } = source
  let before = known
  for (let tries = 1; ; tries++) {
    const call = { meter, signal }
    const { stream, endKnown, headers, ...answer } = await streamExport(client, id, 'raw_text', call)
    serviceClock.sample(answer)
    try {
      const contentType = headers['content-type']
      if (/\bhtml\b/i.test(contentType ?? ''))
        throw refused('the service sent a page (HTML) in place of the file')
      const spooled = await take(stream)
      if ((endKnown && endsWhole(spooled, contentType)) || spooled.hash === before) {
        return { spooled, contentType, observedAt: serviceClock.observedAt(answer.startedAt) as Instant }
      }
      before = spooled.hash
      if (tries === TRIES) throw refused('the file may have been cut, and two downloads of it differ')
    } catch (error) {
      if (!isInterrupted(error) || tries === TRIES) throw error
      await clock.sleep(PAUSE_MS * tries, signal)
    } finally {
      stream.destroy()
    }
  }
}

/** True for a file that ends as a whole file does: with a line, or the quote of its JSON string. */
function endsWhole({ last }: Spooled, contentType: string | undefined): boolean {
  return last === 0x0a || last === 0x0d || (last === 0x22 && /\bjson\b/i.test(contentType ?? ''))
}

/** True for a failure that another download may not meet. */
function isInterrupted(error: unknown): boolean {
  return error instanceof ApiError && (error.code === 'connection_lost' || error.code === 'timeout')
}

function refused(message: string): IntakeError {
  return new IntakeError(message, { code: 'file_refused', verdict: 'dead_letter' })
}
