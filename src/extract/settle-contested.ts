/**
 * Records whose newest state is in doubt: what came later lost to what is held, and says otherwise (law 2).
 *
 * Invariant: the service is asked for each by its id, and its answer decides. It is asked again for a while, because
 * clocks move on; what still loses then was held with a time ahead of the service's clock, and is overruled. What came
 * while it was asked is not: it may be newer than the answer.
 */
import { sql } from 'kysely'
import type { Envelope } from '../core/envelope.ts'
import { type Instant, instantOf, laterOf, microsOf } from '../core/time.ts'
import { tombstone } from '../load/read-record.ts'
import { versionsHeld } from '../load/versions-held.ts'
import type { Session } from '../warehouse/connect.ts'
import { openBatcher } from './batcher.ts'
import type { Proof } from './deletes.ts'
import { fetchOne } from './fetch-one.ts'
import type { Source } from './source.ts'

export interface Asked extends Proof {
  /** The tombstone of a record that is not there, for what no scan has missed. */
  readonly gone?: Envelope
}

/** Rounds of asking before the answer overrules what is held, and the pause that lets the clocks move on. */
const ROUNDS = 4
const PAUSE_MS = 700

const NO_VERSIONS: ReadonlyMap<string, Instant> = new Map()

export async function settleContested(
  source: Source,
  session: Session,
  contested: ReadonlySet<string>,
  ask: (source: Source, id: string) => Promise<Asked>,
): Promise<void> {
  const { taken, stream } = source
  const place = { teamId: taken.teamId, stream: stream.name }
  const { unchanged } = source.tally
  let ids: readonly string[] = [...contested]
  for (let round = 1; ids.length > 0 && round <= ROUNDS; round++) {
    if (round > 1) await source.clock.sleep(PAUSE_MS, source.signal)
    const overrule = round === ROUNDS
    // Before the service is asked: what is loaded meanwhile may be newer than its answer.
    const held = overrule ? await versionsHeld(session, place, ids) : NO_VERSIONS
    const found = await Promise.all(ids.map((id) => ask(source, id)))
    const gone = found.flatMap((each) => each.gone ?? [])
    const undone = await undoneDeletes(source, session, gone)
    if (overrule) {
      source.logger.warn(
        { stream: stream.name, records: ids.length },
        'held with times ahead of the service; its answer decides',
      )
    }
    // What agrees with the service is left as it is; the rest is merged.
    const batcher = openBatcher(source, 'sift')
    const envelopes = [...found.flatMap((each) => each.envelopes), ...undone]
    await batcher.add(
      envelopes.map((envelope) => above(envelope, held.get(envelope.id))),
      found.flatMap((each) => each.letters),
    )
    ids = await batcher.finish()
  }
  // These records were counted when the list was read.
  source.tally.unchanged = unchanged
}

/** The record as it is now. One that is gone was in the list a moment ago: unless a delete was undone, the next scan will miss it. */
export async function refetch(source: Source, id: string): Promise<Asked> {
  const { stream, taken } = source
  const found = await fetchOne(source, id, 'refetch')
  if (found.kind === 'record') return { envelopes: [found.envelope], letters: [] }
  if (found.kind === 'dead') return { envelopes: [], letters: [found.letter] }
  const origin = `run:${taken.runId} refetch`
  const { observedAt } = found
  const gone = tombstone(id, { teamId: taken.teamId, stream: stream.name, origin, observedAt })
  return { envelopes: [], letters: [], gone }
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

/** The same state with a version above what is held. */
function above(envelope: Envelope, held: Instant | undefined): Envelope {
  if (held === undefined) return envelope
  const next = instantOf(microsOf(held) + 1)
  return { ...envelope, version: laterOf(envelope.version, next) }
}
