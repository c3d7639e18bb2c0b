/**
 * A spooled file → the warehouse, in one transaction: replaces bytes, columns, rows and cells, adds its problems, and
 * checks that the slice is still ours (laws 3 and 4).
 *
 * Invariant: an export's tables contain one whole file. A file that cannot be read changes nothing: the rows of an earlier
 * file stay.
 */
import type { Session } from '../../warehouse/connect.ts'
import { recordFindings } from '../findings.ts'
import { sendCopy } from '../merge/copy.ts'
import { assertOurs, type TakenSlice } from '../slice.ts'
import { copyRecords } from './copy-records.ts'
import { keepPieces, openErasedRows, withoutErasedRows } from './erased-rows.ts'
import { dropFiles, type ExportFile, keepFile } from './export-file.ts'
import { openFileLines } from './file-lines.ts'
import { openFileProblems } from './file-problems.ts'
import { LEADING_COLUMNS } from './leading-columns.ts'
import { matchQuestions } from './match-questions.ts'
import { joinProblems } from './root-problems.ts'
import { keepSpool, spooledChunk } from './spool.ts'
import { useZone } from './zone.ts'

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
    const kept = { isJsonString, chunks, chunk }
    await copyRecords(session, kept, lines, { rows: COPY_ROWS, cells: COPY_CELLS })
    await sendCopy(client, COPY_COLUMNS, lines.columnLines())
    await dropFiles(db, place)
    await keepFile(db, taken.teamId, file, { isLoaded: true, problems: problems.listed() })
    if (erased === null || erased.met === 0) await keepSpool(session, file, { ...place, isLoaded: true })
    else {
      await erased.count()
      await keepPieces(db, { ...place, isLoaded: true }, withoutErasedRows(kept, erased.isErased))
    }
    await joinProblems(db, taken.teamId, file.exportId)
    await matchQuestions(db, taken.teamId, file.exportId)
    const findings = { problems: problems.count, problemsAt: problems.at, driftAt: new Map<string, number>() }
    await recordFindings(db, taken.stream, findings)
    await assertOurs(db, taken)
    await client.query('commit')
    return { rows: lines.rows, cells: lines.cells, problems: problems.count }
  } catch (error) {
    await client.query('rollback').catch(() => {})
    throw error
  }
}
