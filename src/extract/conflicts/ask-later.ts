/**
 * Records that a run could not fetch by id, because the service failed (intake_ops.refetches).
 *
 * Invariant (law 5): their requests are stored before the cursor moves past them.
 */
import { sql } from 'kysely'
import { askAgain } from '../../load/refetches.ts'
import type { Session } from '../../warehouse/connect.ts'
import { NOTHING_TO_SAY, type SliceNote } from '../slice-note.ts'
import type { Source } from '../source.ts'

/** The service has just failed every attempt of a request. */
const PAUSE_SECONDS = 60

/**
 * Stores requests for records that are to be fetched later. Like a request for a partial record, they prove no delete:
 * when the record is not found then, the next scan proves the delete.
 */
export async function askLater({ patience, taken, stream }: Source, { db }: Session): Promise<void> {
  const ids = [...patience.later.keys()]
  if (ids.length === 0) return
  const place = { teamId: taken.teamId, stream: stream.name, origin: `run:${taken.runId}` }
  await askAgain(
    db,
    ids.map((id) => ({ ...place, id, reason: 'partial', since: null })),
  )
  await sql`
    update intake_ops.refetches set due_at = greatest(due_at, now() + ${PAUSE_SECONDS} * interval '1 second')
    where team_id = ${place.teamId} and stream = ${place.stream} and id = any (${ids}::text[])`.execute(db)
}

/** Reports how many records could not be fetched, with the reason of the first. */
export function laterNote({ patience: { later } }: Source): SliceNote {
  const [reason] = later.values()
  if (reason === undefined) return NOTHING_TO_SAY
  return {
    text: `${later.size} could not be fetched and are asked for again later (${reason})`,
    attention: true,
  }
}
