/**
 * Records that a run could not fetch by id, because the service failed (intake_ops.refetches).
 *
 * Invariant (law 5): they are asked for before the cursor moves past them.
 */
import { askAgain } from '../load/refetches.ts'
import type { Session } from '../warehouse/connect.ts'
import { NOTHING_TO_SAY, type SliceNote } from './slice-note.ts'
import type { Source } from './source.ts'

/**
 * Leaves requests for what is to be fetched later. They say nothing of deletes, as those of an event that holds a part
 * of a record: of what is not there by then, the next scan proves that it is gone.
 */
export async function askLater({ patience, taken, stream }: Source, { db }: Session): Promise<void> {
  const place = { teamId: taken.teamId, stream: stream.name, origin: `run:${taken.runId}` }
  await askAgain(
    db,
    [...patience.later.keys()].map((id) => ({ ...place, id, reason: 'partial', since: null })),
  )
}

/** What could not be fetched, with a reason of the service. */
export function laterNote({ patience: { later } }: Source): SliceNote {
  const [reason] = later.values()
  if (reason === undefined) return NOTHING_TO_SAY
  return {
    text: `${later.size} could not be fetched and are asked for again later (${reason})`,
    attention: true,
  }
}
