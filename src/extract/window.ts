/**
 * Which part of a stream a run reads that can be asked for by date: what came since its checkpoint, or everything.
 *
 * Invariant (law 5): what is asked for begins before the checkpoint by the lookback, and by two days more, since the
 * service may leave the day itself out and may count days in another zone. A checkpoint that cannot be trusted means
 * everything, and is said.
 */
import { isObject } from '../core/json.ts'
import { type Instant, instantOf, microsOf, parseInstant } from '../core/time.ts'

/** How a person wants it read. */
export interface WindowOptions {
  readonly lookbackDays: number
  /** Days after which everything is read again: edits and what was never submitted are invisible to a date filter. */
  readonly sweepDays: number
  readonly full: boolean
  /** A date in place of the checkpoint, or null. */
  readonly since: Instant | null
}

/** Reads everything, whatever was read before. */
export const EVERYTHING: WindowOptions = { lookbackDays: 0, sweepDays: 0, full: true, since: null }

/** What a settled slice keeps. */
export interface WindowCursor {
  /** The newest date seen; null while no record had one. */
  readonly newest: Instant | null
  /** When the last steady reading of everything began; null before the first. */
  readonly swept_at: Instant | null
}

export interface WindowPlan {
  /** Ask for what came on this day (YYYY-MM-DD) or later; null for everything. */
  readonly after: string | null
  readonly held: WindowCursor
  /** What is wrong with the stored checkpoint. */
  readonly note: string | null
}

const DAY = 86_400_000_000
/** A day for a bound that leaves the day itself out, and one for days of another zone. */
const WIDENED_DAYS = 2
/** A checkpoint may be so far ahead, for clocks that differ. */
const TOLERANCE = DAY

const NOTHING: WindowCursor = { newest: null, swept_at: null }

/** `now` is a time of the service's clock. */
export function planWindow(stored: unknown, options: WindowOptions, now: Instant): WindowPlan {
  const held = readCursor(stored)
  if (options.full) return { after: null, held: held ?? NOTHING, note: null }
  if (options.since !== null)
    return { after: dayBefore(options.since, WIDENED_DAYS), held: held ?? NOTHING, note: null }
  if (held === null) return { after: null, held: NOTHING, note: 'the stored checkpoint cannot be read' }
  const { newest, swept_at } = held
  if (newest === null || swept_at === null) return { after: null, held, note: null }
  const latest = microsOf(now) + TOLERANCE
  if (microsOf(newest) > latest || microsOf(swept_at) > latest) {
    return { after: null, held: NOTHING, note: 'the stored checkpoint lies in the future' }
  }
  if (microsOf(now) - microsOf(swept_at) >= options.sweepDays * DAY) return { after: null, held, note: null }
  return { after: dayBefore(newest, options.lookbackDays + WIDENED_DAYS), held, note: null }
}

/** True when a record dated `date` may be among what was asked for from `after` on, whatever the service's zone. */
export function isInWindow(date: unknown, after: string): boolean {
  const at = typeof date === 'string' ? parseInstant(date) : null
  return at !== null && at >= dayBefore(parseInstant(after)!, 1)
}

/**
 * True when what is asked for from `after` on leaves no gap behind the checkpoint, whatever the service's bounds and
 * zone: only then may the checkpoint move on.
 */
export function reachesBack(after: string, newest: Instant): boolean {
  return after <= dayBefore(newest, WIDENED_DAYS)
}

/** Null when it is neither absent nor of our own form. A cursor of a stream that was read whole has none of the two. */
function readCursor(stored: unknown): WindowCursor | null {
  if (stored === null || stored === undefined) return NOTHING
  if (!isObject(stored)) return null
  const read = (value: unknown) =>
    value === null || value === undefined ? null : typeof value === 'string' ? parseInstant(value) : undefined
  const [newest, swept_at] = [read(stored.newest), read(stored.swept_at)]
  const broken = [stored.newest, stored.swept_at].some(
    (value) => typeof value === 'string' && parseInstant(value) === null,
  )
  if (newest === undefined || swept_at === undefined || broken) return null
  return { newest, swept_at }
}

function dayBefore(instant: Instant, days: number): string {
  const earliest = microsOf('0001-01-02T00:00:00.000000Z' as Instant)
  return instantOf(Math.max(earliest, microsOf(instant) - days * DAY)).slice(0, 10)
}
