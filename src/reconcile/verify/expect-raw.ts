/**
 * Fills the expected tables of a stream without a list from its stored records.
 *
 * Invariant: sends no request to the service; the comparison shows whether the tables match their records.
 */
import { sql } from 'kysely'
import type { Instant } from '../../core/time.ts'
import type { Source } from '../../extract/source.ts'
import { withoutErased } from '../../load/erasures.ts'
import { isRefusalOfData } from '../../load/load.ts'
import { sendCopy } from '../../load/merge/write-batch.ts'
import { type BatchLines, linesOf } from '../../normalize/lines.ts'
import { onlyRecord, splitLines } from '../../normalize/split-lines.ts'
import type { Session } from '../../warehouse/connect.ts'
import { nextPortion } from '../expected/from-raw.ts'
import { copyInto, createExpected, type ExpectedTables } from '../expected/tables.ts'

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
  await beginExpected(session, tables)
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

/** Ids of listed records that cannot be loaded. */
export const UNKNOWN = sql.table('pg_temp.unknown')

function allTables({ root, children, files, records }: ExpectedTables) {
  return [root, ...children, ...files, records]
}

/** Creates the expected tables of a stream, empty. */
export async function beginExpected(session: Session, tables: ExpectedTables): Promise<void> {
  await createExpected(session, allTables(tables), 'preserve')
  await sql`create temporary table if not exists ${UNKNOWN} (id text not null)`.execute(session.db)
  await sql`truncate ${UNKNOWN}`.execute(session.db)
}

/**
 * Adds the lines of a batch to the expected tables, as a load would write them.
 *
 * Invariant: a batch that Postgres refuses is halved until the refused record is found; that record is unknown, and the
 * others are expected.
 */
export async function expectLines(
  session: Session,
  tables: ExpectedTables,
  lines: BatchLines,
  // Payloads from intake_raw are not compared with intake_raw.
  { payloads } = { payloads: tables.stream.list !== null },
): Promise<void> {
  if (lines.count === 0) return
  const { client } = session
  await client.query('begin')
  try {
    const kept = await withoutErased(session, tables.stream, lines)
    if (payloads) await sendCopy(client, copyInto(session, tables.records), kept.records)
    await sendCopy(client, copyInto(session, tables.root), kept.root)
    for (const [at, table] of tables.children.entries()) {
      await sendCopy(client, copyInto(session, table), kept.children[at]!)
    }
    await client.query('commit')
  } catch (error) {
    await client.query('rollback').catch(() => {})
    if (!isRefusalOfData((error as { code?: string }).code)) throw error
    if (lines.count === 1) return await noteUnknown(session, onlyRecord(lines).id)
    for (const part of splitLines(lines)) await expectLines(session, tables, part, { payloads })
  }
}

export async function noteUnknown({ db }: Session, id: string): Promise<void> {
  await sql`insert into ${UNKNOWN} (id) values (${id})`.execute(db)
}
