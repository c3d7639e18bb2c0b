/**
 * Which part of a stream a run reads that can be asked for by date: what came since its checkpoint, or everything.
 *
 * Invariant (law 5): what is asked for begins before the checkpoint by the lookback, and by two days more, since the
 * service may leave the day itself out and may count days in another zone. A checkpoint that cannot be trusted means
 * everything, and is said.
 */
import { type Instant, instantOf, microsOf, parseInstant } from '../../core/time.ts'
import { type Checkpoint, NO_CHECKPOINT, readCheckpoint } from '../checkpoint.ts'

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

export interface WindowPlan {
  /** Ask for what came on this day (YYYY-MM-DD) or later; null for everything. */
  readonly after: string | null
  readonly held: Checkpoint
  /** What is wrong with the stored checkpoint. */
  readonly note: string | null
}

const DAY = 86_400_000_000
/** A day for a bound that leaves the day itself out, and one for days of another zone. */
const WIDENED_DAYS = 2

/** `now` is a time of the service's clock. */
export function planWindow(stored: unknown, options: WindowOptions, now: Instant): WindowPlan {
  const read = readCheckpoint(stored, now)
  const note = read.kind === 'doubted' ? read.what : null
  const held = read.kind === 'doubted' ? NO_CHECKPOINT : read.checkpoint
  if (options.full) return { after: null, held, note }
  if (options.since !== null) return { after: dayBefore(options.since, WIDENED_DAYS), held, note }
  const { newest, swept_at } = held
  if (newest === null || swept_at === null) return { after: null, held, note }
  if (microsOf(now) - microsOf(swept_at) >= options.sweepDays * DAY) return { after: null, held, note }
  return { after: dayBefore(newest, options.lookbackDays + WIDENED_DAYS), held, note }
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

function dayBefore(instant: Instant, days: number): string {
  const earliest = microsOf('0001-01-02T00:00:00.000000Z' as Instant)
  return instantOf(Math.max(earliest, microsOf(instant) - days * DAY)).slice(0, 10)
}
