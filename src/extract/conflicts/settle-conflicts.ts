/**
 * Resolves conflicts of a run: records whose incoming state arrived later, but lost to different content (law 2).
 *
 * Invariant: each record is fetched by id, and the answer decides. It is fetched a few times, because clocks move on; a
 * stored state that still wins then has a time ahead of the service's clock, and is overruled. A state that was loaded
 * while a record is fetched is not overruled: it may be newer than the answer.
 */
import { sql } from 'kysely'
import { type Envelope, withVersionAbove } from '../../core/envelope.ts'
import { type StoredVersion, storedVersions } from '../../load/merge/skip-unchanged.ts'
import { requestRefetches } from '../../load/refetches.ts'
import { tombstone } from '../../normalize/read-record.ts'
import type { Session } from '../../warehouse/connect.ts'
import { openBatcher } from '../scan/batcher.ts'
import type { Proof } from '../scan/deletes.ts'
import { NO_NOTE, type SliceNote } from '../slice-note.ts'
import type { Source } from '../source.ts'
import { fetchForRun } from './fetch-by-id.ts'

export interface FetchedStates extends Proof {
  /** Tombstones of records that are not found, although no scan has missed them. */
  readonly gone?: readonly Envelope[]
}

/** Rounds until the answer overrules the stored state, and the pause that lets the clocks move on. */
const ROUNDS = 4
const PAUSE_MS = 700

const NO_VERSIONS: ReadonlyMap<string, StoredVersion> = new Map()

export async function settleConflicts(
  source: Source,
  session: Session,
  conflicting: ReadonlySet<string>,
  fetch: (source: Source, ids: readonly string[]) => Promise<FetchedStates>,
): Promise<void> {
  const { taken, stream } = source
  const place = { teamId: taken.teamId, stream: stream.name }
  const { unchanged } = source.tally
  let ids: readonly string[] = [...conflicting]
  for (let round = 1; ids.length > 0 && round <= ROUNDS; round++) {
    if (round > 1) await source.clock.sleep(PAUSE_MS, source.signal)
    const overrule = round === ROUNDS
    // Read before the request: a state that is loaded meanwhile may be newer than its answer.
    const stored = overrule ? await storedVersions(session.db, place, ids) : NO_VERSIONS
    const { envelopes, deadLetters, gone = [] } = await fetch(source, ids)
    const undone = await undoneDeletes(source, session, gone)
    if (overrule) {
      source.logger.warn(
        { team: source.team, stream: stream.name, records: ids.length },
        'stored with times ahead of the service; its answer decides',
      )
    }
    // A stored state that equals the answer stays; the others are merged.
    const batcher = openBatcher(source, 'skip-unchanged')
    await batcher.add(
      [...envelopes, ...undone].map((envelope) => withVersionAbove(envelope, stored.get(envelope.id))),
      deadLetters,
    )
    ids = await batcher.finish()
  }
  // These records were counted when the list was read.
  source.tally.unchanged = unchanged
}

/**
 * Fetches the current state of records. One that is gone was listed a moment ago: unless a delete was undone, the next
 * scan misses it.
 */
export async function refetch(source: Source, ids: readonly string[]): Promise<FetchedStates> {
  const { stream, taken } = source
  const place = { teamId: taken.teamId, stream: stream.name, origin: `run:${taken.runId} refetch` }
  const found = await fetchForRun(source, ids, 'refetch')
  return {
    envelopes: found.flatMap((result) => (result.kind === 'record' ? result.envelope : [])),
    deadLetters: found.flatMap((result) => (result.kind === 'dead' ? result.deadLetter : [])),
    gone: found.flatMap((each, index) =>
      each.kind === 'gone' ? tombstone(ids[index]!, { ...place, observedAt: each.observedAt }) : [],
    ),
  }
}

/**
 * Returns the records that are gone and had a tombstone before the stored state: a page with a later date undid the
 * delete.
 */
async function undoneDeletes(
  { taken, stream }: Source,
  { db }: Session,
  gone: readonly Envelope[],
): Promise<readonly Envelope[]> {
  if (gone.length === 0) return []
  const { rows } = await sql<{ id: string }>`
    select gone.id from unnest(${gone.map(({ id }) => id)}::text[]) as gone (id)
    cross join lateral (
      select deleted from intake_raw.record_history before
      where before.team_id = ${taken.teamId} and before.stream = ${stream.name} and before.id = gone.id
      order by version desc, deleted desc, observed_at desc limit 1
    ) before
    where before.deleted`.execute(db)
  const ids = new Set(rows.map(({ id }) => id))
  return gone.filter(({ id }) => ids.has(id))
}

/** The service has just failed every attempt of a request. */
const PAUSE_SECONDS = 60

/**
 * Stores requests for records that this run could not fetch by id, because the service failed (intake_ops.refetches).
 * Like a request for a partial record, they prove no delete: when the record is not found later, the next scan proves it.
 *
 * Invariant (law 5): the requests are stored before the cursor moves past the records.
 */
export async function requestFailedFetches(
  { failedFetches, taken, stream }: Source,
  { db }: Session,
): Promise<void> {
  const ids = [...failedFetches.later.keys()]
  if (ids.length === 0) return
  const place = { teamId: taken.teamId, stream: stream.name, origin: `run:${taken.runId}` }
  await requestRefetches(
    db,
    ids.map((id) => ({ ...place, id, reason: 'partial', since: null })),
  )
  await sql`
    update intake_ops.refetches set due_at = greatest(due_at, now() + ${PAUSE_SECONDS} * interval '1 second')
    where team_id = ${place.teamId} and stream = ${place.stream} and id = any (${ids}::text[])`.execute(db)
}

/** Reports how many records could not be fetched, with the reason of the first. */
export function laterNote({ failedFetches: { later } }: Source): SliceNote {
  const [reason] = later.values()
  if (reason === undefined) return NO_NOTE
  return {
    text: `${later.size} could not be fetched and will be requested again later (${reason})`,
    attention: true,
  }
}
