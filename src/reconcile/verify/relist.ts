/**
 * The current state of records that cannot be fetched by id, from their list.
 *
 * Invariant: an export is gone if the list misses it now and a complete list of an earlier run missed it too (law 6); an
 * entry of a log is never gone.
 */

import type { Envelope } from '../../core/envelope.ts'
import type { Instant } from '../../core/time.ts'
import { missedBefore } from '../../extract/exports/missed-twice.ts'
import { relist } from '../../extract/exports/relist.ts'
import type { Source } from '../../extract/source.ts'
import type { DeadLetter } from '../../normalize/dead-letter.ts'
import { tombstone } from '../../normalize/read-record.ts'
import type { Session } from '../../warehouse/connect.ts'
import type { Difference } from './find.ts'

/** Records read again. */
export interface Again {
  readonly envelopes: readonly Envelope[]
  readonly gone: readonly Envelope[]
  readonly deadLetters: readonly DeadLetter[]
  /** Ids without an answer: their expected rows stay. */
  readonly unknown: readonly string[]
}

export async function relisted(
  source: Source,
  session: Session,
  found: readonly Difference[],
): Promise<Again> {
  const { serviceClock, stream, taken, clock } = source
  const observedAt = serviceClock.observedAt(clock.now()) as Instant
  const envelopes = await relist(
    source,
    found.map(({ id }) => id),
    'repair',
  )
  const listed = new Set(envelopes.map(({ id }) => id))
  const missed = found.flatMap(({ id, kind }) => (kind === 'extra' && !listed.has(id) ? id : []))
  const gone = stream.entryAt === undefined ? await missedBefore(source, session, missed) : []
  const place = { teamId: taken.teamId, stream: stream.name, origin: `run:${taken.runId} repair` }
  return {
    envelopes,
    gone: gone.map((id) => tombstone(id, { ...place, observedAt })),
    deadLetters: [],
    unknown: [],
  }
}
