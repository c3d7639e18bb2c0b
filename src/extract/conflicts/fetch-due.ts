/**
 * Fetches, within a run, the records that earlier runs, events and retried dead letters asked for. A running `serve` has
 * usually fetched them already; without one, only a run does.
 *
 * Invariant: it ends even while new requests arrive.
 */
import { sql } from 'kysely'
import type { Source } from '../source.ts'
import { refetchRound } from './round.ts'

/** Throws errors that stop the stream. */
export async function fetchDue(source: Source): Promise<void> {
  const { client, serviceClock, meter, signal, stream, patience, taken, loaders, clock } = source
  const { teamId } = taken
  const asked = { client, serviceClock, meter, signal, patience: new Map([[stream.name, patience]]) }
  const { rows } = await loaders.run(({ db }) =>
    sql<{ due: number }>`
      select count(*)::int as due from intake_ops.refetches
      where team_id = ${teamId} and stream = ${stream.name} and due_at <= now()`.execute(db),
  )
  for (let left = rows[0]!.due; left > 0; ) {
    const { records, failure, stopped } = await refetchRound({ teamId, loaders, clock }, asked, [stream.name])
    for (const error of stopped.values()) throw error
    if (records === 0 || failure !== null) return
    left -= records
  }
}
