/** The result of loading a batch, for a dry run. Invariant: writes nothing. The batch has no unchanged records. */
import type { Session } from '../../warehouse/connect.ts'
import { withoutErased } from '../erasures/lines.ts'
import type { Batch, LoadResult } from '../load.ts'

export async function compareBatch(session: Session, batch: Batch): Promise<LoadResult> {
  const { stream, lines, deadLetters } = batch
  const kept = await withoutErased(session, stream, lines, { quietly: true })
  return { ...resultOf(kept, deadLetters.length), erased: lines.count - kept.count }
}

/** For a warehouse without the current schema, which has no erasures to check. */
export async function countBatch(_session: Session, { lines, deadLetters }: Batch): Promise<LoadResult> {
  return resultOf(lines, deadLetters.length)
}

function resultOf({ count, tombstones, findings }: Batch['lines'], deadLetters: number): LoadResult {
  return {
    changed: count - tombstones,
    deleted: tombstones,
    erased: 0,
    deadLetters,
    problems: findings.problems,
    conflicts: [],
  }
}
