/** What loading a batch would do, for a dry run. Invariant: writes nothing. The batch holds only what is not unchanged. */
import type { Session } from '../warehouse/connect.ts'
import { linesOf } from './lines.ts'
import type { Batch, LoadResult } from './load.ts'

export async function compareBatch(_session: Session, batch: Batch): Promise<LoadResult> {
  const deleted = batch.envelopes.filter((envelope) => envelope.content === null).length
  return {
    changed: batch.envelopes.length - deleted,
    deleted,
    deadLetters: batch.deadLetters.length,
    problems: linesOf(batch.stream, batch.envelopes).findings.problems,
    contested: [],
  }
}
