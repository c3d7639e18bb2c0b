/**
 * Removes a patient's rows from exports: from the tables, the listed problems and the stored files.
 *
 * Invariant: the other rows keep their values and numbers, and parsing the stored file returns them. A file that is not
 * loaded cannot be searched, so only its hash is kept.
 */
import { type Kysely, sql } from 'kysely'
import { storeChunks, withoutErasedRows } from '../../load/exports/erased-rows.ts'
import { joinProblems } from '../../load/exports/file-problems.ts'
import type { Warehouse } from '../../warehouse/tables.ts'
import type { Clients } from './identities.ts'
import type { Removed } from './remove.ts'

/** Removes the rows with one of the ids of `clients`, and its rows without one. */
export async function removeExportRows(
  db: Kysely<Warehouse>,
  teamId: number,
  { ids, unnamed }: Clients,
  removed: Removed,
): Promise<void> {
  const { rows: exports } = await sql<{ exportId: string; numbers: number[] }>`
    select line.export_id as "exportId", array_agg(line.row_number order by line.row_number) as numbers
    from intake.export_rows line
    where team_id = ${teamId} and (client_id = any(${[...ids]}::text[]) or (
      client_id is null and (export_id, row_number) in (
        select * from unnest(${unnamed.map(({ exportId }) => exportId)}::text[], ${unnamed.map(({ row }) => row)}::int[])
      )
    ))
    group by 1 order by 1`.execute(db)
  for (const { exportId, numbers } of exports) {
    const own = sql`team_id = ${teamId} and export_id = ${exportId}`
    await sql`delete from intake.export_cells where ${own} and row_number = any(${numbers}::int[])`.execute(
      db,
    )
    await sql`delete from intake.export_rows where ${own} and row_number = any(${numbers}::int[])`.execute(db)
    await removeProblems(db, teamId, exportId, numbers)
    await rewriteFile(db, teamId, exportId, new Set(numbers))
    removed.exportRows += numbers.length
  }
  await sql`
    delete from intake_raw.export_chunks where team_id = ${teamId} and not is_loaded`.execute(db)
}

/** Removes the file's problems in these rows; their `original` is a value of the patient. */
async function removeProblems(
  db: Kysely<Warehouse>,
  teamId: number,
  exportId: string,
  numbers: readonly number[],
): Promise<void> {
  await sql`
    update intake_raw.export_files file set problems = (
      select jsonb_agg(problem order by place)
      from jsonb_array_elements(file.problems) with ordinality as listed (problem, place)
      where coalesce(substring(problem ->> 'path' from '^raw_text[.]rows[[]([0-9]+)[]]')::int <> all(${numbers}::int[]), true)
    )
    where file.team_id = ${teamId} and file.export_id = ${exportId} and file.problems is not null`.execute(db)
  await joinProblems(db, teamId, exportId)
}

async function rewriteFile(
  db: Kysely<Warehouse>,
  teamId: number,
  exportId: string,
  numbers: ReadonlySet<number>,
): Promise<void> {
  const { rows } = await sql<{ isJsonString: boolean }>`
    select is_json_string as "isJsonString" from intake_raw.export_files
    where team_id = ${teamId} and export_id = ${exportId} and is_loaded for update`.execute(db)
  if (rows[0] === undefined) return
  // The current chunks get negative numbers, so that the new chunks can take theirs while the old ones are read.
  const { numAffectedRows } = await sql`
    update intake_raw.export_chunks set number = -number
    where team_id = ${teamId} and export_id = ${exportId} and is_loaded`.execute(db)
  const chunk = async (number: number): Promise<Buffer> => {
    const { rows: found } = await sql<{ body: Buffer }>`
      select body from intake_raw.export_chunks
      where team_id = ${teamId} and export_id = ${exportId} and is_loaded and number = ${-number}`.execute(db)
    return found[0]!.body
  }
  const file = { isJsonString: rows[0].isJsonString, chunks: Number(numAffectedRows ?? 0n), chunk }
  await storeChunks(
    db,
    { teamId, exportId },
    withoutErasedRows(file, (_, row) => numbers.has(row)),
  )
  await sql`
    delete from intake_raw.export_chunks
    where team_id = ${teamId} and export_id = ${exportId} and is_loaded and number < 0`.execute(db)
}
