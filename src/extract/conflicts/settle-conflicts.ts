/**
 * Records whose newest state is in doubt: what came later lost to what is held, and says otherwise (law 2).
 *
 * Invariant: the service is asked for each by its id, and its answer decides. It is asked again for a while, because
 * clocks move on; what still loses then was held with a time ahead of the service's clock, and is overruled. What came
 * while it was asked is not: it may be newer than the answer.
 */
import { sql } from 'kysely'
import { above, type Envelope } from '../../core/envelope.ts'
import { type StoredVersion, storedVersions } from '../../load/merge/stored-versions.ts'
import { tombstone } from '../../normalize/read-record.ts'
import type { Session } from '../../warehouse/connect.ts'
import { openBatcher } from '../scan/batcher.ts'
import type { Proof } from '../scan/deletes.ts'
import type { Source } from '../source.ts'
import { fetchForRun } from './fetch-by-id.ts'

export interface Asked extends Proof {
  /** Tombstones of records that are not there, though no scan has missed them. */
  readonly gone?: readonly Envelope[]
}

/** Rounds of asking before the answer overrules what is held, and the pause that lets the clocks move on. */
const ROUNDS = 4
const PAUSE_MS = 700

const NO_VERSIONS: ReadonlyMap<string, StoredVersion> = new Map()

export async function settleConflicts(
  source: Source,
  session: Session,
  conflicting: ReadonlySet<string>,
  ask: (source: Source, ids: readonly string[]) => Promise<Asked>,
): Promise<void> {
  const { taken, stream } = source
  const place = { teamId: taken.teamId, stream: stream.name }
  const { unchanged } = source.tally
  let ids: readonly string[] = [...conflicting]
  for (let round = 1; ids.length > 0 && round <= ROUNDS; round++) {
    if (round > 1) await source.clock.sleep(PAUSE_MS, source.signal)
    const overrule = round === ROUNDS
    // Before the service is asked: what is loaded meanwhile may be newer than its answer.
    const held = overrule ? await storedVersions(session.db, place, ids) : NO_VERSIONS
    const { envelopes, deadLetters, gone = [] } = await ask(source, ids)
    const undone = await undoneDeletes(source, session, gone)
    if (overrule) {
      source.logger.warn(
        { stream: stream.name, records: ids.length },
        'held with times ahead of the service; its answer decides',
      )
    }
    // What agrees with the service is left as it is; the rest is merged.
    const batcher = openBatcher(source, 'skip-unchanged')
    await batcher.add(
      [...envelopes, ...undone].map((envelope) => above(envelope, held.get(envelope.id))),
      deadLetters,
    )
    ids = await batcher.finish()
  }
  // These records were counted when the list was read.
  source.tally.unchanged = unchanged
}

/** Records as they are now. One that is gone was in the list a moment ago: unless a delete was undone, the next scan will miss it. */
export async function refetch(source: Source, ids: readonly string[]): Promise<Asked> {
  const { stream, taken } = source
  const place = { teamId: taken.teamId, stream: stream.name, origin: `run:${taken.runId} refetch` }
  const found = await fetchForRun(source, ids, 'refetch')
  return {
    envelopes: found.flatMap((each) => (each.kind === 'record' ? each.envelope : [])),
    deadLetters: found.flatMap((each) => (each.kind === 'dead' ? each.deadLetter : [])),
    gone: found.flatMap((each, at) =>
      each.kind === 'gone' ? tombstone(ids[at]!, { ...place, observedAt: each.observedAt }) : [],
    ),
  }
}

/** Of records that are not there, those of which a delete was known before what is held: a page was dated after it. */
async function undoneDeletes(
  { taken, stream }: Source,
  { db }: Session,
  gone: readonly Envelope[],
): Promise<readonly Envelope[]> {
  if (gone.length === 0) return []
  const { rows } = await sql<{ id: string }>`
    select came.id from unnest(${gone.map(({ id }) => id)}::text[]) as came (id)
    cross join lateral (
      select deleted from intake_raw.record_history before
      where before.team_id = ${taken.teamId} and before.stream = ${stream.name} and before.id = came.id
      order by version desc, deleted desc, observed_at desc limit 1
    ) before
    where before.deleted`.execute(db)
  const ids = new Set(rows.map(({ id }) => id))
  return gone.filter(({ id }) => ids.has(id))
}
