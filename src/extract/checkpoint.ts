/**
 * A stored checkpoint, read back.
 *
 * Invariant (law 5): a checkpoint is believed only when it is of our own form and none of its times lies in the
 * future. What is wrong with it is said, whatever the stream is read by, and everything is read again in its place.
 */
import { isObject } from '../core/json.ts'
import { type Instant, instantOf, microsOf, parseInstant } from '../core/time.ts'

export interface Checkpoint {
  /** The newest date seen; null while no record had one, or where nothing is asked for by date. */
  readonly newest: Instant | null
  /** When the last steady reading of everything began; null before the first. */
  readonly swept_at: Instant | null
}

export const NO_CHECKPOINT: Checkpoint = { newest: null, swept_at: null }

export type ReadCheckpoint =
  | { readonly kind: 'good'; readonly checkpoint: Checkpoint }
  | { readonly kind: 'doubted'; readonly what: string }

/** A checkpoint may be so far ahead, for clocks that differ. */
const TOLERANCE_MICROS = 86_400_000_000

const TIMES = ['newest', 'swept_at', 'scanned_at'] as const

/** `stored` is what a settled slice left, of whatever kind its stream is; null before the first. */
export function readCheckpoint(stored: unknown, now: Instant): ReadCheckpoint {
  if (stored === null || stored === undefined) return { kind: 'good', checkpoint: NO_CHECKPOINT }
  if (!isObject(stored)) return doubted('cannot be read')
  const latest = instantOf(microsOf(now) + TOLERANCE_MICROS)
  const read = new Map<string, Instant>()
  for (const name of TIMES) {
    const value = stored[name] ?? null
    if (value === null) continue
    const at = typeof value === 'string' ? parseInstant(value) : null
    if (at === null) return doubted('cannot be read')
    read.set(name, at)
  }
  if ([...read.values()].some((at) => at > latest)) return doubted('lies in the future')
  const [newest = null, swept_at = null] = [read.get('newest'), read.get('swept_at')]
  return { kind: 'good', checkpoint: { newest, swept_at } }
}

function doubted(what: string): ReadCheckpoint {
  return { kind: 'doubted', what: `the stored checkpoint ${what}` }
}
