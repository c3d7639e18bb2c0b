/**
 * Why one state stands above another: the total order of law 2, in words. Pure.
 *
 * Invariant: of two states that are not the same exactly one wins, by the first of version, tombstone, time of reading and
 * content hash in which they differ; where the records' own stamps decide, by these before the version.
 */
import type { Instant } from '../../core/time.ts'

export interface Ranked {
  readonly version: Instant
  readonly observedAt: Instant
  readonly deleted: boolean
  readonly hash: string
  /** Given where the records' own stamps decide (`stampsDecide`): the record's `updated_at`. */
  readonly updatedAt?: Instant | null
}

export type Decision =
  | 'later version'
  | 'updated later'
  | 'tombstone at the same version'
  | 'read later'
  | 'content hash'
  | 'the same state'

/** What tells the two apart, and whether `a` is the greater. */
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
