/**
 * Decides which part of a stream with a date filter a run reads: the records since its checkpoint, or everything.
 *
 * Invariant (law 5): the window begins before the checkpoint by the lookback and two more days, because the service may
 * exclude the day itself and may count days in another zone. An invalid checkpoint means everything, and is reported.
 */
import { isObject } from '../../core/json.ts'
import { type Instant, instantOf, microsOf, parseInstant } from '../../core/time.ts'

export interface Checkpoint {
  /** The newest date seen; null while no record had one, and for streams without a date filter. */
  readonly newest: Instant | null
  /** When the last stable scan of everything began; null before the first. */
  readonly swept_at: Instant | null
}

export const NO_CHECKPOINT: Checkpoint = { newest: null, swept_at: null }

type ReadCheckpoint =
  | { readonly kind: 'good'; readonly checkpoint: Checkpoint }
  | { readonly kind: 'invalid'; readonly reason: string }

/** Clocks differ: a checkpoint may be this far ahead. */
const TOLERANCE_MICROS = 86_400_000_000

const TIMES = ['newest', 'swept_at', 'scanned_at'] as const

/**
 * Parses a stored checkpoint, which is valid only if it has the expected form and none of its times is in the future.
 * `stored`: the cursor of the last settled slice; null before the first.
 */
export function readCheckpoint(stored: unknown, now: Instant): ReadCheckpoint {
  if (stored === null || stored === undefined) return { kind: 'good', checkpoint: NO_CHECKPOINT }
  if (!isObject(stored)) return invalid('cannot be read')
  const latest = instantOf(microsOf(now) + TOLERANCE_MICROS)
  const read = new Map<string, Instant>()
  for (const name of TIMES) {
    const value = stored[name] ?? null
    if (value === null) continue
    const time = typeof value === 'string' ? parseInstant(value) : null
    if (time === null) return invalid('cannot be read')
    read.set(name, time)
  }
  if ([...read.values()].some((time) => time > latest)) return invalid('is in the future')
  const [newest = null, swept_at = null] = [read.get('newest'), read.get('swept_at')]
  return { kind: 'good', checkpoint: { newest, swept_at } }
}

function invalid(what: string): ReadCheckpoint {
  return { kind: 'invalid', reason: `the stored checkpoint ${what}` }
}

/** From the configuration and the command line. */
export interface WindowOptions {
  readonly lookbackDays: number
  /** Days after which everything is read again: a date filter misses edits and records that were never submitted. */
  readonly sweepDays: number
  readonly full: boolean
  /** A date in place of the checkpoint, or null. */
  readonly since: Instant | null
}

/** Reads everything, whatever the checkpoint. */
export const EVERYTHING: WindowOptions = { lookbackDays: 0, sweepDays: 0, full: true, since: null }

export interface WindowPlan {
  /** Read records of this day (YYYY-MM-DD) or later; null for everything. */
  readonly after: string | null
  readonly checkpoint: Checkpoint
  /** Why the stored checkpoint is invalid; null when it is valid. */
  readonly note: string | null
}

const DAY = 86_400_000_000
/** One day for an exclusive bound, and one for days of another zone. */
const WIDENED_DAYS = 2

/** `now` is a time of the service's clock. */
export function planWindow(stored: unknown, options: WindowOptions, now: Instant): WindowPlan {
  const read = readCheckpoint(stored, now)
  const note = read.kind === 'invalid' ? read.reason : null
  const checkpoint = read.kind === 'invalid' ? NO_CHECKPOINT : read.checkpoint
  if (options.full) return { after: null, checkpoint, note }
  if (options.since !== null) return { after: dayBefore(options.since, WIDENED_DAYS), checkpoint, note }
  const { newest, swept_at } = checkpoint
  if (newest === null || swept_at === null) return { after: null, checkpoint, note }
  if (microsOf(now) - microsOf(swept_at) >= options.sweepDays * DAY) return { after: null, checkpoint, note }
  return { after: dayBefore(newest, options.lookbackDays + WIDENED_DAYS), checkpoint, note }
}

/** True when a record dated `date` may be in the window from `after` on, whatever the service's zone. */
export function isInWindow(date: unknown, after: string): boolean {
  const time = typeof date === 'string' ? parseInstant(date) : null
  return time !== null && time >= dayBefore(parseInstant(after)!, 1)
}

/**
 * True when the window from `after` on leaves no gap after the checkpoint, whatever the service's bounds and zone: only
 * then may the checkpoint move on.
 */
export function reachesBack(after: string, newest: Instant): boolean {
  return after <= dayBefore(newest, WIDENED_DAYS)
}

function dayBefore(instant: Instant, days: number): string {
  const earliest = microsOf('0001-01-02T00:00:00.000000Z' as Instant)
  return instantOf(Math.max(earliest, microsOf(instant) - days * DAY)).slice(0, 10)
}
