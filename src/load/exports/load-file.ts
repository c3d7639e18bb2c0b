/**
 * A spooled file → the warehouse, in one transaction: replaces bytes, columns, rows and cells, adds its problems, and
 * checks that the slice is still ours (laws 3 and 4).
 *
 * Invariant: an export's tables contain one whole file. A file that cannot be read changes nothing: the rows of an earlier
 * file stay.
 */
import { setImmediate } from 'node:timers/promises'
import { sql } from 'kysely'
import type pg from 'pg'
import { IntakeError } from '../../core/errors.ts'
import type { Session } from '../../warehouse/connect.ts'
import { sqlstateOf } from '../../warehouse/sqlstate.ts'
import { recordFindings, storeDeadLetters } from '../dead-letters.ts'
import { openErasures } from '../erasures.ts'
import { sendCopy } from '../merge/write-batch.ts'
import { assertOwned, type TakenSlice } from '../slice.ts'
import { openErasedRows, storeChunks, withoutErasedRows } from './erased-rows.ts'
import { dropFiles, type ExportFile, type StoredFile, storeFile } from './export-file.ts'
import { openExportText } from './export-text.ts'
import { type FileLines, LEADING_COLUMNS, openFileLines } from './file-lines.ts'
import { joinProblems, matchQuestions, openFileProblems } from './file-problems.ts'
import { spooledChunk, storeSpool } from './spool.ts'

export interface LoadedFile {
  readonly rows: number
  readonly cells: number
  readonly problems: number
}

const TABLES = ['export_cells', 'export_rows', 'export_columns'] as const

const COPY_ROWS = `copy intake.export_rows
  (team_id, export_id, row_number, ${LEADING_COLUMNS.map(({ name }) => name).join(', ')}) from stdin`
const COPY_CELLS = 'copy intake.export_cells (team_id, export_id, row_number, position, value) from stdin'
const COPY_COLUMNS = 'copy intake.export_columns (team_id, export_id, position, title) from stdin'

/** Loads the file in the session's spool. Throws `MalformedFile` and then changes nothing. */
export async function loadFile(session: Session, taken: TakenSlice, file: ExportFile): Promise<LoadedFile> {
  const { client, db } = session
  const place = { teamId: taken.teamId, exportId: file.exportId }
  const problems = openFileProblems(taken.teamId)
  await client.query('begin')
  try {
    await useZone(client, file.timezone)
    for (const table of TABLES) {
      await client.query(`delete from intake.${table} where team_id = $1 and export_id = $2`, [
        place.teamId,
        place.exportId,
      ])
    }
    const erased = await openErasedRows(db, taken.teamId)
    const filter = erased === null ? {} : { isErased: erased.isErased }
    const lines = openFileLines({ ...place, fromJson: file.isJsonString, ...filter }, problems)
    const { isJsonString, chunks } = file
    const chunk = (number: number) => spooledChunk(session, file, number)
    const stored = { isJsonString, chunks, chunk }
    await copyRecords(session, stored, lines, { rows: COPY_ROWS, cells: COPY_CELLS })
    await sendCopy(client, COPY_COLUMNS, lines.columnLines())
    await dropFiles(db, place)
    await storeFile(db, taken.teamId, file, { isLoaded: true, problems: problems.listed() })
    if (erased === null || erased.met === 0) await storeSpool(session, file, { ...place, isLoaded: true })
    else {
      await erased.count()
      await storeChunks(db, place, withoutErasedRows(stored, erased.isErased))
    }
    await joinProblems(db, taken.teamId, file.exportId)
    await matchQuestions(db, taken.teamId, file.exportId)
    await noteChange(db, taken, file.exportId)
    const findings = { problems: problems.count, problemsAt: problems.at, driftAt: new Map<string, number>() }
    await recordFindings(db, taken.stream, findings)
    await assertOwned(db, taken)
    await client.query('commit')
    return { rows: lines.rows, cells: lines.cells, problems: problems.count }
  } catch (error) {
    await client.query('rollback').catch(() => {})
    throw error
  }
}

/** The rows of an export change although its record does not: the change feed reports the export. */
async function noteChange(
  db: Session['db'],
  { teamId, stream }: TakenSlice,
  exportId: string,
): Promise<void> {
  await sql`
    update intake_raw.records set change_seq = default, changed_at = default
    where team_id = ${teamId} and stream = ${stream} and id = ${exportId}`.execute(db)
}

const INVALID_PARAMETER = '22023'

/**
 * Sets the zone in which Postgres reads times without one, until the end of the transaction. Postgres reads local times
 * that are skipped or repeated as `timestamp at time zone` does. Throws if Postgres does not know the zone.
 */
export async function useZone(client: pg.Client, zone: string): Promise<void> {
  try {
    await client.query("select set_config('timezone', $1, true)", [zone])
  } catch (error) {
    if (sqlstateOf(error) !== INVALID_PARAMETER) throw error
    throw new IntakeError(`the warehouse does not know the time zone ${zone}`, {
      code: 'unknown_zone',
      verdict: 'stop',
      hint: 'set INTAKE_TIMEZONE to a name of pg_timezone_names',
    })
  }
}

/**
 * Rejects the file in the session's spool: it becomes a dead letter, and its bytes are stored in addition to those of the
 * loaded file.
 *
 * Invariant: the rows of an earlier file stay; rejecting the same file again stores neither its bytes nor its dead letter
 * twice.
 */
export async function rejectFile(
  session: Session,
  taken: TakenSlice,
  file: ExportFile,
  reason: string,
): Promise<void> {
  const { client, db } = session
  const { teamId } = taken
  const { exportId, hash, bytes, origin } = file
  const place = { teamId, exportId }
  await client.query('begin')
  try {
    const rejected = await db
      .selectFrom('intake_raw.export_files')
      .select('hash')
      .where('team_id', '=', teamId)
      .where('export_id', '=', exportId)
      .where('is_loaded', '=', false)
      .executeTakeFirst()
    if (rejected?.hash.toString('hex') !== hash) {
      await dropFiles(db, place, false)
      await storeFile(db, teamId, file, { isLoaded: false, problems: [] })
      // A file that cannot be read cannot be searched for erased patients: then only its hash is kept.
      if ((await openErasures(db, teamId)) === null)
        await storeSpool(session, file, { ...place, isLoaded: false })
    }
    // The bytes may exceed the size of a row: the dead letter identifies them by hash.
    const body = JSON.stringify({ export_id: exportId, sha256: hash, bytes })
    await storeDeadLetters(db, taken, [{ recordId: exportId, origin, reason, body }])
    await assertOwned(db, taken)
    await client.query('commit')
  } catch (error) {
    await client.query('rollback').catch(() => {})
    throw error
  }
}

/** Bytes read before the event loop gets a turn, so that it can write to the connection. */
const BYTES_PER_TURN = 64 * 1024

/** COPY statements for the lines. */
export interface RowsAndCells {
  readonly rows: string
  readonly cells: string
}

/**
 * The bytes of an export's file → lines of its rows and cells, copied to the given tables. Throws `MalformedFile`.
 *
 *     chunk ─► records ─► lines ─► COPY, while the next chunk is read
 *
 * Invariant: memory holds a chunk and its lines, whatever the size of the file.
 */
export async function copyRecords(
  { client }: Session,
  file: StoredFile,
  lines: FileLines,
  into: RowsAndCells,
): Promise<void> {
  async function send(rows: Buffer, cells: Buffer): Promise<void> {
    await sendCopy(client, into.rows, rows)
    await sendCopy(client, into.cells, cells)
  }
  const text = openExportText(file, (cells) => lines.add(cells, text.allStorable))
  let sending = Promise.resolve()
  try {
    for (let number = 1; number <= file.chunks; number++) {
      // The connection runs one statement at a time; the fetched chunk is parsed while it sends.
      await sending
      const chunk = await file.chunk(number)
      sending = send(lines.rowLines.take(), lines.cellLines.take())
      sending.catch(() => {})
      for (let index = 0; index < chunk.length; index += BYTES_PER_TURN) {
        text.write(chunk.subarray(index, index + BYTES_PER_TURN))
        await setImmediate()
      }
    }
    text.end()
  } finally {
    // Also after an error: the connection takes no other statement before this one ends.
    await sending
  }
  await send(lines.rowLines.take(), lines.cellLines.take())
}
