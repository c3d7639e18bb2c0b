/** What loading a batch would do, for a dry run. Invariant: writes nothing. */
import type { Session } from '../warehouse/connect.ts'
import { linesOf } from './lines.ts'
import type { Batch, LoadMode, LoadResult } from './load.ts'
import { withoutUnchanged } from './unchanged.ts'

export async function compareBatch(session: Session, batch: Batch, mode: LoadMode): Promise<LoadResult> {
  const changed = mode === 'straight' ? batch.envelopes : await withoutUnchanged(session, batch.envelopes)
  const deleted = changed.filter((envelope) => envelope.content === null).length
  return {
    changed: changed.length - deleted,
    unchanged: batch.envelopes.length - changed.length,
    deleted,
    deadLetters: batch.deadLetters.length,
    problems: linesOf(batch.stream, changed).findings.problems,
    contested: [],
  }
}
