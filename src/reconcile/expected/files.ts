/**
 * Adds an export's file to the expected tables, from fetched bytes or from intake_raw.
 *
 * Invariant: the tables receive the lines that loading the file would send, in a transaction with the file's time zone.
 */
import { sql } from 'kysely'
import type { Problem } from '../../core/envelope.ts'
import { openErasedRows } from '../../load/exports/erased-rows.ts'
import type { StoredFile } from '../../load/exports/export-file.ts'
import { openFileLines } from '../../load/exports/file-lines.ts'
import { openFileProblems } from '../../load/exports/file-problems.ts'
import { copyRecords, useZone } from '../../load/exports/load-file.ts'
import { sendCopy } from '../../load/merge/write-batch.ts'
import type { Session } from '../../warehouse/connect.ts'
import { copyInto, type ExpectedTables } from './tables.ts'

export interface ExpectedFile extends StoredFile {
  readonly exportId: string
  readonly timezone: string
}

/** Returns the problems of the file. Throws `MalformedFile`. Columns have no questions yet. */
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
