/**
 * Repairs the files of exports: fetches and loads those that differ, and removes rows of files without an export.
 *
 * Invariant: a file is loaded whole, as a backfill loads it, whatever is stored; problems and questions of its export are
 * updated. No row of a live export is removed.
 */
import { sql } from 'kysely'
import { readFile } from '../../extract/exports/read-file.ts'
import { storedExports } from '../../load/exports/export-file.ts'
import { joinProblems } from '../../load/exports/file-problems.ts'
import { matchQuestions } from '../../load/exports/match-questions.ts'
import type { Comparing } from './confirm.ts'
import type { Difference } from './find.ts'

export async function repairFiles(comparing: Comparing, found: readonly Difference[]): Promise<void> {
  const { source, session } = comparing
  const { teamId } = source.taken
  const stored = await storedExports(
    session.db,
    teamId,
    found.map(({ id }) => id),
  )
  for (const [id, known] of stored) {
    await source.loaders.run((loader) => readFile(source, loader, id, { ...known, hash: null }, false))
  }
  await removeStrays(
    comparing,
    found.filter(({ kind, certain }) => kind === 'extra' && certain).map(({ id }) => id),
  )
  await joinProblems(session.db, teamId)
  await matchQuestions(session.db, teamId)
}

/** Removes the files of those exports that have neither a live row nor a live record. */
async function removeStrays({ source, session, tables }: Comparing, ids: readonly string[]): Promise<void> {
  const { teamId, stream } = source.taken
  const stray = sql`team_id = ${teamId} and export_id = any(${ids}::text[])
    and not exists (
      select from intake.exports entry
      where entry.team_id = stored.team_id and entry.id = stored.export_id and entry._deleted_at is null)
    and not exists (
      select from intake_raw.records raw
      where raw.team_id = stored.team_id and raw.stream = ${stream} and raw.id = stored.export_id and not raw.deleted)`
  if (ids.length === 0) return
  await session.db.transaction().execute(async (transaction) => {
    // The bytes too, or a replay would create the same rows again.
    for (const name of [...tables.files.map((table) => table.name), 'intake_raw.export_files'])
      await sql`delete from ${sql.table(name)} stored where ${stray}`.execute(transaction)
  })
}
