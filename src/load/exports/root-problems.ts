/**
 * Adds the problems of files to the rows of their exports.
 *
 * Invariant: `_problems` of an export lists the problems of its list entry, then those of the loaded file. Only rows that
 * change are written, so it may be repeated whenever either was loaded.
 */
import { type Kysely, sql } from 'kysely'
import type { Warehouse } from '../../warehouse/tables.ts'
import { FILE_PATH } from './file-problems.ts'

/** `exportId` null: all exports of the team. */
export async function joinProblems(
  db: Kysely<Warehouse>,
  teamId: number,
  exportId: string | null = null,
): Promise<void> {
  await sql`
    with wanted as (
      select entry.id, nullif(coalesce((
          select jsonb_agg(problem order by place)
          from jsonb_array_elements(entry._problems) with ordinality as own (problem, place)
          where not starts_with(problem ->> 'path', ${FILE_PATH})
        ), '[]') || coalesce(loaded.problems, '[]'), '[]') as problems
      from intake.exports entry
      left join intake_raw.export_files loaded
        on loaded.team_id = entry.team_id and loaded.export_id = entry.id and loaded.is_loaded
      where entry.team_id = ${teamId} and entry._deleted_at is null
        and (${exportId}::text is null or entry.id = ${exportId})
    )
    update intake.exports entry set _problems = wanted.problems, _loaded_at = now()
    from wanted
    where entry.team_id = ${teamId} and entry.id = wanted.id and entry._problems is distinct from wanted.problems`.execute(
    db,
  )
}
