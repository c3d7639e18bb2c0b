/**
 * Fills the expected tables from stored records: of a stream without a list, and of the entries that a log no longer lists.
 *
 * Invariant: sends no request to the service; the comparison shows whether the tables match their records.
 */
import { sql } from 'kysely'
import type { Instant } from '../../core/time.ts'
import type { Source } from '../../extract/source.ts'
import { withoutErased } from '../../load/erasures.ts'
import { isRefusalOfData } from '../../load/merge/load.ts'
import { sendCopy } from '../../load/merge/write-batch.ts'
import { type BatchLines, linesOf } from '../../normalize/lines.ts'
import { onlyRecord, splitLines } from '../../normalize/split-lines.ts'
import type { Session } from '../../warehouse/connect.ts'
import { nextPortion, recordsOf } from '../expected-from-raw.ts'
import { copyInto, createExpected, type ExpectedTables } from '../expected-tables.ts'

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
    for (const [index, table] of tables.children.entries()) {
      await sendCopy(client, copyInto(session, table), kept.children[index]!)
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

const FORGOTTEN = sql.table('pg_temp.forgotten')
const IDS_PER_STATEMENT = 1_000

/**
 * Expects stored log entries that were not listed, of all ids or of `among`; returns their number. An entry of a log is
 * never gone (law 6). A row without a stored record is not expected, and is extra.
 */
export async function expectForgotten(
  session: Session,
  tables: ExpectedTables,
  teamId: number,
  among: readonly string[] | null = null,
): Promise<number> {
  const { stream } = tables
  const place = { teamId, stream: stream.name }
  await noteForgotten(session, tables, teamId, among)
  for (let after = ''; ; ) {
    const ids = await nextForgotten(session, after)
    if (ids.length === 0) break
    const envelopes = await recordsOf(session, place, ids)
    await expectLines(session, tables, linesOf(stream, envelopes), { payloads: false })
    after = ids.at(-1)!
  }
  return await expectPayloads(session, tables, teamId)
}

/** Collects ids that are stored, not deleted and not expected. */
async function noteForgotten(
  { db }: Session,
  { stream, root }: ExpectedTables,
  teamId: number,
  among: readonly string[] | null,
): Promise<void> {
  await sql`create temporary table if not exists ${FORGOTTEN} (id text primary key)`.execute(db)
  await sql`truncate ${FORGOTTEN}`.execute(db)
  await sql`
    insert into ${FORGOTTEN}
    select id from intake_raw.records raw
    where team_id = ${teamId} and stream = ${stream.name} and not deleted and payload is not null
      and (${among}::text[] is null or id = any(${among}::text[]))
      and not exists (select from ${sql.table(root.expected)} expected where expected.id = raw.id)
      and not exists (select from ${UNKNOWN} own where own.id = raw.id)`.execute(db)
}

async function nextForgotten({ db }: Session, after: string): Promise<readonly string[]> {
  const { rows } = await sql<{ id: string }>`
    select id from ${FORGOTTEN} where id > ${after} order by id limit ${IDS_PER_STATEMENT}`.execute(db)
  return rows.map(({ id }) => id)
}

/** Expects the stored payloads: the text from which rows are mapped may not be valid jsonb. */
async function expectPayloads(
  { db }: Session,
  { stream, root, records }: ExpectedTables,
  teamId: number,
): Promise<number> {
  const columns = sql.join(records.columns.map((name) => sql.ref(name)))
  const { numAffectedRows } = await sql`
    insert into ${sql.table(records.expected)} (${columns})
    select ${columns} from intake_raw.records
    where team_id = ${teamId} and stream = ${stream.name} and id in (
      select id from ${FORGOTTEN} intersect select id from ${sql.table(root.expected)}
    )`.execute(db)
  return Number(numAffectedRows ?? 0)
}
