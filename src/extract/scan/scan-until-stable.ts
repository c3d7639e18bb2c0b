/**
 * Scans a list again, a few times, while it changes during the scan.
 *
 * Invariant: every record that was read is loaded, however the scans ended; only the last scan may prove deletes.
 */
import { isUntouched } from '../../load/load.ts'
import type { Session } from '../../warehouse/connect.ts'
import type { SliceOptions } from '../slice-note.ts'
import type { Source } from '../source.ts'
import { type ScanReport, type ScanRequest, scanStream } from './scan.ts'

/** Scans of a list that keeps changing, in all. */
const SCANS = 3

export interface Scans {
  readonly last: ScanReport
  readonly all: readonly ScanReport[]
  /** Ids in conflict, of all scans. */
  readonly conflicting: ReadonlySet<string>
}

export async function scanUntilStable(
  source: Source,
  session: Session,
  options: SliceOptions,
  request: ScanRequest = {},
): Promise<Scans> {
  const { stream, taken, logger, tally } = source
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
      ...request,
    })
    all.push(last)
    for (const id of last.conflicting) conflicting.add(id)
    if (last.stable || last.stopped || tries === SCANS) return { last, all, conflicting }
    logger.info(
      { stream: stream.name, reason: last.reason, scan: tries },
      'the list changed while it was read; reading it again',
    )
  }
}
