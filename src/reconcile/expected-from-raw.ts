/**
 * The records of intake_raw as envelopes, in portions ordered by id, and the files of exports as lines.
 *
 * Invariant: mapping an envelope gives the rows that loading its record gave: if rows depend on the order of keys or on
 * digits that jsonb does not keep, the envelope has the stored original text.
 */
import { sql } from 'kysely'
import type { Envelope, Problem, StreamName } from '../core/envelope.ts'
import { IntakeError } from '../core/errors.ts'
import { type JsonObject, parseText } from '../core/json.ts'
import type { Instant } from '../core/time.ts'
import { openErasedRows } from '../load/exports/erased-rows.ts'
import type { StoredFile } from '../load/exports/export-file.ts'
import { openFileLines } from '../load/exports/file-lines.ts'
import { openFileProblems } from '../load/exports/file-problems.ts'
import { copyRecords, useZone } from '../load/exports/load-file.ts'
import { sendCopy } from '../load/merge/write-batch.ts'
import type { Session } from '../warehouse/connect.ts'
import { copyInto, type ExpectedTables } from './expected-tables.ts'

/** Records and bytes of a portion. */
const MAX_RECORDS = 2_500
const MAX_BYTES = 4_000_000

export interface Portion {
  readonly envelopes: readonly Envelope[]
  /** The last id, or null if nothing follows. */
  readonly to: string | null
}

interface StoredRecord {
  readonly id: string
  readonly version: Instant
  readonly observedAt: Instant
  readonly updatedAt: Instant | null
  readonly deleted: boolean
  readonly hash: string
  readonly origin: string
  readonly body: string | null
  readonly problems: string | null
}

const INSTANT = sql.lit('YYYY-MM-DD"T"HH24:MI:SS.US"Z"')

const RECORD_COLUMNS = sql`
  id, to_char(version, ${INSTANT}) as version, to_char(observed_at, ${INSTANT}) as "observedAt",
  to_char(updated_at, ${INSTANT}) as "updatedAt", deleted,
  encode(hash, 'hex') as hash, origin, coalesce(as_it_came, payload::text) as body, problems::text as problems`

/** The portion that follows the id `after`. */
export async function nextPortion(
  { db }: Session,
  { teamId, stream }: { readonly teamId: number; readonly stream: StreamName },
  after: string | null,
): Promise<Portion> {
  const { rows } = await sql<StoredRecord & { isLast: boolean }>`
    with portion as materialized (
      select ${RECORD_COLUMNS} from intake_raw.records
      where team_id = ${teamId} and stream = ${stream} and (${after}::text is null or id > ${after})
      order by id limit ${MAX_RECORDS + 1}
    ), sized as (
      select portion.*, row_number() over by_id as number,
        sum(coalesce(octet_length(body), 0)) over by_id - coalesce(octet_length(body), 0) as before
      from portion window by_id as (order by id rows unbounded preceding)
    )
    select id, version, "observedAt", "updatedAt", deleted, hash, origin, body, problems,
      number = (select max(number) from sized) and number <= ${MAX_RECORDS} as "isLast"
    from sized
    where before < ${MAX_BYTES} and number <= ${MAX_RECORDS}
    order by number`.execute(db)
  const last = rows.at(-1)
  return {
    envelopes: rows.map((row) => envelopeOf(row, teamId, stream)),
    to: last === undefined || last.isLast ? null : last.id,
  }
}

/** The stored records with these ids. */
export async function recordsOf(
  { db }: Session,
  { teamId, stream }: { readonly teamId: number; readonly stream: StreamName },
  ids: readonly string[],
): Promise<readonly Envelope[]> {
  const { rows } = await sql<StoredRecord>`
    select current.* from (select distinct id from unnest(${ids}::text[]) as id) wanted
    cross join lateral (
      select ${RECORD_COLUMNS} from intake_raw.records stored
      where team_id = ${teamId} and stream = ${stream} and stored.id = wanted.id
      offset 0
    ) current
    order by current.id`.execute(db)
  return rows.map((row) => envelopeOf(row, teamId, stream))
}

function envelopeOf(stored: StoredRecord, teamId: number, stream: StreamName): Envelope {
  const { id, version, observedAt, updatedAt, origin, hash } = stored
  const keys = { teamId, stream, id, version, observedAt, updatedAt, origin }
  if (stored.deleted) return { ...keys, content: null }
  if (stored.body === null) {
    throw new IntakeError(
      `intake_raw.records holds a record of ${stream} that is not deleted and has no payload`,
      {
        code: 'payload_missing',
        verdict: 'stop',
        hint: 'fetch it again: intake-sync verify --repair',
      },
    )
  }
  const payload = parseText(stored.body) as JsonObject
  const problems = stored.problems === null ? [] : (parseText(stored.problems) as readonly Problem[])
  return { ...keys, content: { payload, text: stored.body, asReceived: null, hash, problems } }
}

interface ExpectedFile extends StoredFile {
  readonly exportId: string
  readonly timezone: string
}

/**
 * Adds an export's file to the expected tables, from fetched bytes or from intake_raw: the lines that loading the file
 * would send, in a transaction with the file's time zone. Returns the problems of the file. Throws `MalformedFile`.
 * Columns have no questions yet.
 */
export async function expectFile(
  session: Session,
  teamId: number,
  tables: ExpectedTables,
  file: ExpectedFile,
): Promise<readonly Problem[]> {
  const { client } = session
  const [columns, rows, cells] = tables.files
  const problems = openFileProblems(teamId)
  const erased = await openErasedRows(session.db, teamId)
  const filter = erased === null ? {} : { isErased: erased.isErased }
  const place = { teamId, exportId: file.exportId, fromJson: file.isJsonString }
  // The service's own file still has the rows of patients who were erased here.
  const lines = openFileLines({ ...place, ...filter }, problems)
  await useZone(client, file.timezone)
  await copyRecords(session, file, lines, {
    rows: copyInto(session, rows!),
    cells: copyInto(session, cells!),
  })
  const titled = { ...columns!, columns: columns!.columns.filter((name) => name !== 'question_id') }
  await sendCopy(client, copyInto(session, titled), lines.columnLines())
  return problems.listed()
}

/** The loaded file of an export, from intake_raw; null if there is none. */
export async function loadedFile(
  session: Session,
  teamId: number,
  exportId: string,
): Promise<ExpectedFile | null> {
  const { rows } = await sql<{ isJsonString: boolean; timezone: string; chunks: number }>`
    select is_json_string as "isJsonString", timezone, (
        select count(*)::int from intake_raw.export_chunks
        where team_id = ${teamId} and export_id = ${exportId} and is_loaded
      ) as chunks
    from intake_raw.export_files
    where team_id = ${teamId} and export_id = ${exportId} and is_loaded`.execute(session.db)
  const [file] = rows
  if (file === undefined) return null
  const chunk = async (number: number): Promise<Buffer> => {
    const found = await session.client.query<{ body: Buffer }>(
      'select body from intake_raw.export_chunks where team_id = $1 and export_id = $2 and is_loaded and number = $3',
      [teamId, exportId, number],
    )
    return found.rows[0]!.body
  }
  return { exportId, ...file, chunk }
}
