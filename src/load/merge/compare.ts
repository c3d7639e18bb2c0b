/** What loading a batch would do, for a dry run. Invariant: writes nothing. The batch holds only what is not unchanged. */
import type { Session } from '../../warehouse/connect.ts'
import { withoutErased } from '../erasures/lines.ts'
import type { Batch, LoadResult } from '../load.ts'

export async function compareBatch(session: Session, batch: Batch): Promise<LoadResult> {
  const { stream, lines, deadLetters } = batch
  const kept = await withoutErased(session, stream, lines, { quietly: true })
  return { ...resultOf(kept, deadLetters.length), erased: lines.count - kept.count }
}

/** Of a warehouse that is not there yet, or behind: nobody is known to have been erased. */
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
