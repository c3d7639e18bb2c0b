/**
 * Fills the expected tables of a stream without a list from its stored records.
 *
 * Invariant: sends no request to the service; the comparison shows whether the tables match their records.
 */
import { sql } from 'kysely'
import type { Instant } from '../../core/time.ts'
import type { Source } from '../../extract/source.ts'
import { linesOf } from '../../normalize/lines.ts'
import type { Session } from '../../warehouse/connect.ts'
import { nextPortion } from '../expected/from-raw.ts'
import { createExpected, type ExpectedTables } from '../expected/tables.ts'
import { expectLines, UNKNOWN } from './expect-lines.ts'
import { allTables } from './expect-source.ts'

export interface SourceRead {
  /** On the service's clock. */
  readonly startedAt: Instant
  readonly stable: boolean
  /** Log entries that the list no longer has. */
  readonly forgotten: number
  readonly note: string | null
}

export async function expectRaw(
  source: Source,
  session: Session,
  tables: ExpectedTables,
): Promise<SourceRead> {
  const place = { teamId: source.taken.teamId, stream: source.stream.name }
  await createExpected(session, allTables(tables), 'preserve')
  await sql`create temporary table if not exists ${UNKNOWN} (id text not null)`.execute(session.db)
  await sql`truncate ${UNKNOWN}`.execute(session.db)
  for (let after: string | null = null, ended = false; !ended; ) {
    const { envelopes, to } = await nextPortion(session, place, after)
    const live = envelopes.filter(({ content }) => content !== null)
    await expectLines(session, tables, linesOf(source.stream, live))
    source.onProgress({ fetched: live.length, expected: null })
    after = to
    ended = to === null
  }
  const startedAt = source.serviceClock.observedAt(source.clock.now()) as Instant
  return {
    startedAt,
    stable: false,
    forgotten: 0,
    note: 'the service lists none: compared with the stored payloads',
  }
}
