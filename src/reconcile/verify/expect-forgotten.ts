/**
 * Expects stored log entries that the service no longer lists.
 *
 * Invariant: an entry of a log is never gone (law 6), so its rows are compared with its stored record, as in a stream
 * without a list. A row without a stored record is not expected, and is extra.
 */
import { sql } from 'kysely'
import { linesOf } from '../../normalize/lines.ts'
import type { Session } from '../../warehouse/connect.ts'
import { recordsOf } from '../expected/from-raw.ts'
import type { ExpectedTables } from '../expected/tables.ts'
import { expectLines, UNKNOWN } from './expect-raw.ts'

const FORGOTTEN = sql.table('pg_temp.forgotten')
const IDS_PER_STATEMENT = 1_000

/** Expects stored entries that were not listed, of all ids or of `among`; returns their number. */
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
