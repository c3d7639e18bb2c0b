/**
 * A stream by what is new since its checkpoint, and now and then by its whole list.
 *
 *     plan ─► window ─► rows satisfy the filter? ─► settle
 *                └──────────── no ─────────────► whole list ─► deletes ─► settle
 *
 * Invariant (law 7): a filter is believed only when rows were seen and every one satisfies it. The window always holds
 * the newest record that is known, so an empty answer is no answer.
 */
import { instantOf } from '../core/time.ts'
import { settleSlice } from '../load/slice.ts'
import type { Session } from '../warehouse/connect.ts'
import { readList } from './read-list.ts'
import type { ScanReport } from './scan.ts'
import { scanUntilSteady } from './scan-until-steady.ts'
import { refetch, settleContested } from './settle-contested.ts'
import { joined, NOTHING_TO_SAY, type SliceNote, type SliceOptions } from './slice-note.ts'
import type { Source } from './source.ts'
import { isInWindow, planWindow, type WindowCursor } from './window.ts'

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
  const told: SliceNote =
    note === null ? NOTHING_TO_SAY : { text: `${note}; everything was read`, attention: false }
  if (after !== null) {
    const window = await readWindow(source, session, options, filter, after, held)
    if (window !== null) return window
    logger.warn({ stream: stream.name }, 'the service does not keep to the date filter; reading everything')
  }
  // A date given by hand says nothing about what is older: only a reading of everything may move the sweep.
  const cursorOf = (scan: ScanReport): WindowCursor => ({
    newest: later(scan.newest, held.newest),
    swept_at: scan.steady ? scan.startedAt : held.swept_at,
  })
  const request = { dated: filter.field }
  return joined(told, await readList(source, session, options, request, cursorOf))
}

/** Null when the filter cannot be believed. */
async function readWindow(
  source: Source,
  session: Session,
  options: SliceOptions,
  { parameter, field }: DateFilter,
  after: string,
  held: WindowCursor,
): Promise<SliceNote | null> {
  const { taken, tally } = source
  const before = { ...tally }
  const { last, contested } = await scanUntilSteady(source, session, options, {
    query: { [parameter]: after },
    dated: field,
    satisfies: (payload) => isInWindow(payload[field], after),
  })
  if (last.stopped || last.distinct === 0) {
    // What was read is loaded; the reading of everything counts it again.
    Object.assign(tally, { fetched: before.fetched, unchanged: before.unchanged })
    return null
  }
  if (options.migrated) await settleContested(source, session, contested, refetch)
  if (!options.dry) {
    await last.ledger.keepSummaries({ teamId: taken.teamId, stream: source.stream.name })
    // A window that begins after the checkpoint leaves a gap; one that was unsteady may.
    const reaches = held.newest !== null && after <= held.newest && last.steady
    const newest = reaches ? later(last.newest, held.newest) : held.newest
    await settleSlice(session.db, taken, { scanned_at: last.startedAt, steady: last.steady, ...held, newest })
  }
  return NOTHING_TO_SAY
}

function later<T extends string>(a: T | null, b: T | null): T | null {
  if (a === null || b === null) return a ?? b
  return a > b ? a : b
}
