/** What loading a batch would do, for a dry run. Invariant: writes nothing. The batch holds only what is not unchanged. */
import type { Session } from '../warehouse/connect.ts'
import type { Batch, LoadResult } from './load.ts'

export async function compareBatch(_session: Session, { lines, deadLetters }: Batch): Promise<LoadResult> {
  const { count, tombstones, findings } = lines
  return {
    changed: count - tombstones,
    deleted: tombstones,
    deadLetters: deadLetters.length,
    problems: findings.problems,
    contested: [],
  }
}
