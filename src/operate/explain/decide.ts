/**
 * Compares two states of a record and names the reason, by the total order of states. Pure.
 *
 * Invariant: exactly one of two different states wins, by the first of these that differs: version, tombstone, time of
 * reading, content hash. For streams whose own `updated_at` decides, `updated_at` replaces the version.
 */
import type { Instant } from '../../core/time.ts'

export interface Ranked {
  readonly version: Instant
  readonly observedAt: Instant
  readonly deleted: boolean
  readonly hash: string
  /** The record's `updated_at`; given only for streams that it orders (`stampsDecide`). */
  readonly updatedAt?: Instant | null
}

export type Decision =
  | 'later version'
  | 'updated later'
  | 'tombstone at the same version'
  | 'read later'
  | 'content hash'
  | 'the same state'

/** Whether `a` wins, and by which criterion. */
export function decide(a: Ranked, b: Ranked): { readonly wins: boolean; readonly by: Decision } {
  const byStamps = !a.deleted && !b.deleted && a.updatedAt != null && b.updatedAt != null
  if (byStamps && a.updatedAt !== b.updatedAt)
    return { wins: a.updatedAt! > b.updatedAt!, by: 'updated later' }
  if (!byStamps && a.version !== b.version) return { wins: a.version > b.version, by: 'later version' }
  if (a.deleted !== b.deleted) return { wins: a.deleted, by: 'tombstone at the same version' }
  if (a.observedAt !== b.observedAt) return { wins: a.observedAt > b.observedAt, by: 'read later' }
  return a.hash === b.hash
    ? { wins: true, by: 'the same state' }
    : { wins: a.hash > b.hash, by: 'content hash' }
}
