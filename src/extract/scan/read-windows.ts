/**
 * A stream by what is new since its checkpoint, and now and then by its whole list.
 *
 *     plan ─► window ─► rows satisfy the filter? ─► settle
 *                └──────────── no ─────────────► whole list ─► deletes ─► settle
 *
 * Invariant (law 7): a filter is believed only when rows were seen and every one satisfies it. The window always holds
 * the newest record that is known, so an empty answer is no answer.
 */
import { instantOf } from '../../core/time.ts'
import { resolveUnmet, waitingIds } from '../../load/dead-letters.ts'
import { settleSlice } from '../../load/slice.ts'
import type { Session } from '../../warehouse/connect.ts'
import type { Checkpoint } from '../checkpoint.ts'
import { askLater } from '../conflicts/ask-later.ts'
import { refetch, settleConflicts } from '../conflicts/settle-conflicts.ts'
import { readList } from '../read-list.ts'
import {
  everythingNote,
  joined,
  NOTHING_TO_SAY,
  type SliceNote,
  type SliceOptions,
  sinceNote,
  unstableNote,
} from '../slice-note.ts'
import type { Source } from '../source.ts'
import type { ScanReport } from './scan.ts'
import { scanUntilStable } from './scan-until-stable.ts'
import { isInWindow, planWindow, reachesBack } from './window.ts'

/** Records set aside that are asked for again in one run. */
const MOST_TRIED = 100

/** How a stream is asked for by date: the parameter, and the field that it goes by. */
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
  const { clock, taken, stream, logger } = source
  const now = instantOf(clock.now())
  const { after, held, note } = planWindow(taken.cursor, options.window, now)
  let told = note
  if (after !== null) {
    const window = await readWindow(source, session, options, filter, after, held)
    if (window.kind === 'read') return note === null ? window.note : joined(sinceNote(note), window.note)
    logger.warn({ stream: stream.name }, `${window.reason}; reading everything`)
    told = note === null ? window.reason : `${note}; ${window.reason}`
  }
  // Only a steady reading of everything says what is the newest, and may move the sweep; one whose deletes wait for a
  // person is made again by the next run, which asks again or is allowed to delete.
  const cursorOf = (scan: ScanReport, deletesHeld: boolean): Checkpoint => {
    if (!scan.stable) return held
    return { newest: scan.newest, swept_at: deletesHeld ? null : scan.startedAt }
  }
  const said = told === null ? NOTHING_TO_SAY : everythingNote(told)
  return joined(said, await readList(source, session, options, { dated: filter.field }, cursorOf))
}

type WindowRead =
  | { readonly kind: 'read'; readonly note: SliceNote }
  /** The filter cannot be believed. */
  | { readonly kind: 'doubted'; readonly reason: string }

async function readWindow(
  source: Source,
  session: Session,
  options: SliceOptions,
  { parameter, field }: DateFilter,
  after: string,
  held: Checkpoint,
): Promise<WindowRead> {
  const { taken, tally } = source
  const before = { ...tally }
  const { last, all, contested } = await scanUntilStable(source, session, options, {
    query: { [parameter]: after },
    dated: field,
    satisfies: (payload) => isInWindow(payload[field], after),
  })
  const reaches = held.newest !== null && reachesBack(after, held.newest)
  // A scan that ended early may not have come to the newest record.
  const lacksNewest = reaches && last.complete && (last.newest ?? '') < held.newest
  if (last.stopped || last.distinct === 0 || lacksNewest) {
    // What was read is loaded; the reading of everything counts it again.
    const { fetched, unchanged, erased } = before
    Object.assign(tally, { fetched, unchanged, erased })
    const reason = last.stopped
      ? 'the service does not keep to the date filter'
      : last.distinct === 0
        ? 'the service lists nothing for the date filter'
        : 'the newest record known is not among what the service lists for the date filter'
    return { kind: 'doubted', reason }
  }
  if (options.migrated) {
    await settleConflicts(source, session, contested, refetch)
    await tryAgain(source, session, options)
  }
  if (!options.dry) {
    await askLater(source, session)
    await last.seenIds.keepSummaries({ teamId: taken.teamId, stream: source.stream.name })
    const newest = reaches && last.stable ? later(last.newest, held.newest) : held.newest
    await settleSlice(session.db, taken, { scanned_at: last.startedAt, steady: last.stable, ...held, newest })
  }
  return { kind: 'read', note: last.stable ? NOTHING_TO_SAY : unstableNote(all) }
}

/** Records set aside by an earlier run, which a window may not hold: asked for by id. What is got now needs nobody. */
async function tryAgain(source: Source, session: Session, { dry }: SliceOptions): Promise<void> {
  const { taken, stream } = source
  const place = { teamId: taken.teamId, stream: stream.name, runId: taken.runId }
  const ids = await waitingIds(session.db, place, MOST_TRIED)
  await settleConflicts(source, session, new Set(ids), refetch)
  if (!dry) await resolveUnmet(session.db, place, { ids, except: [...source.patience.later.keys()] })
}

function later<T extends string>(a: T | null, b: T | null): T | null {
  if (a === null || b === null) return a ?? b
  return a > b ? a : b
}
