/**
 * Parses and checks a stored checkpoint.
 *
 * Invariant (law 5): a checkpoint is valid only when it has the expected form and none of its times is in the future. An
 * invalid checkpoint is reported, for every kind of stream, and everything is read again.
 */
import { isObject } from '../core/json.ts'
import { type Instant, instantOf, microsOf, parseInstant } from '../core/time.ts'

export interface Checkpoint {
  /** The newest date seen; null while no record had one, and for streams without a date filter. */
  readonly newest: Instant | null
  /** When the last stable scan of everything began; null before the first. */
  readonly swept_at: Instant | null
}

export const NO_CHECKPOINT: Checkpoint = { newest: null, swept_at: null }

export type ReadCheckpoint =
  | { readonly kind: 'good'; readonly checkpoint: Checkpoint }
  | { readonly kind: 'invalid'; readonly reason: string }

/** Clocks differ: a checkpoint may be this far ahead. */
const TOLERANCE_MICROS = 86_400_000_000

const TIMES = ['newest', 'swept_at', 'scanned_at'] as const

/** `stored`: the cursor of the last settled slice; null before the first. */
export function readCheckpoint(stored: unknown, now: Instant): ReadCheckpoint {
  if (stored === null || stored === undefined) return { kind: 'good', checkpoint: NO_CHECKPOINT }
  if (!isObject(stored)) return invalid('cannot be read')
  const latest = instantOf(microsOf(now) + TOLERANCE_MICROS)
  const read = new Map<string, Instant>()
  for (const name of TIMES) {
    const value = stored[name] ?? null
    if (value === null) continue
    const at = typeof value === 'string' ? parseInstant(value) : null
    if (at === null) return invalid('cannot be read')
    read.set(name, at)
  }
  if ([...read.values()].some((at) => at > latest)) return invalid('is in the future')
  const [newest = null, swept_at = null] = [read.get('newest'), read.get('swept_at')]
  return { kind: 'good', checkpoint: { newest, swept_at } }
}

function invalid(what: string): ReadCheckpoint {
  return { kind: 'invalid', reason: `the stored checkpoint ${what}` }
}
