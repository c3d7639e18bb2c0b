/**
 * Problems of a loaded file, for `_problems` of the export's row, and the questions of its columns.
 *
 * Invariant: every problem is counted; the first `MAX_LISTED` are listed, then the total, so that a file with an error
 * in each of a million rows does not make a row of a gigabyte.
 */
import { type Kysely, sql } from 'kysely'
import type { Problem } from '../../core/envelope.ts'
import { IntakeError } from '../../core/errors.ts'
import { countFinding } from '../../normalize/lines.ts'
import type { Warehouse } from '../../warehouse/tables.ts'

/** Prefix of the paths, which distinguishes them from problems of the list entry. */
const FILE_PATH = 'raw_text'

const MAX_LISTED = 1_000

export interface FileProblems {
  readonly count: number
  /** Occurrences, as in `Findings`; the path has no positions. */
  readonly at: Map<string, number>
  /** `path` is the position in the file, such as `rows[12].sent_at`; `general` is the path without numbers. */
  add(path: string, general: string, reason: string, original: unknown): void
  /** For `_problems`. */
  listed(): readonly Problem[]
}

export function openFileProblems(teamId: number): FileProblems {
  const listed: Problem[] = []
  const at = new Map<string, number>()
  let count = 0
  return {
    get count() {
      return count
    },
    at,
    add(path, general, reason, original) {
      count += 1
      countFinding(at, teamId, `${FILE_PATH}.${general}`, reason)
      if (listed.length < MAX_LISTED) listed.push({ path: `${FILE_PATH}.${path}`, reason, original })
    },
    listed() {
      if (count === listed.length) return listed
      const reason = 'more problems than are listed here; this is how many there are in all'
      return [...listed, { path: FILE_PATH, reason, original: count }]
    },
  }
}

/**
 * A file that cannot be read. Invariant: the message names the fault and its line, and shows no part of the file.
 */
export class MalformedFile extends IntakeError {
  /** `line` counts from 1, lines within quoted cells included. */
  constructor(what: string, line: number) {
    super(`the file is malformed: ${what}, line ${line}`, { code: 'malformed_file', verdict: 'dead_letter' })
    this.name = 'MalformedFile'
  }
}

/**
 * Adds the problems of files to the rows of their exports.
 *
 * Invariant: `_problems` of an export lists the problems of its list entry, then those of the loaded file. Only rows that
 * change are written, so it may be repeated whenever either was loaded.
 *
 * `exportId` null: all exports of the team.
 */
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

/** The tables of columns and of their exports. */
interface MatchedTables {
  readonly columns: string
  readonly entries: string
}

const LOADED: MatchedTables = { columns: 'intake.export_columns', entries: 'intake.exports' }

/**
 * Matches columns of an export to questions: by the question of the export's form whose text is the column's title.
 *
 * Invariant: a column has a question if exactly one question of the stored form has the title as its text, or is a table
 * with a cell of that title (`question - row - column`). Only rows that change are written, so matching may be repeated
 * whenever forms or exports were read. A trigger of `form_questions` does the same when a form changes.
 *
 * `exportId` null: all exports of the team. Returns the number of changed columns.
 */
export async function matchQuestions(
  db: Kysely<Warehouse>,
  teamId: number,
  exportId: string | null = null,
  tables: MatchedTables = LOADED,
): Promise<number> {
  const { rows } = await sql<{ changed: string }>`
    select intake_raw.match_columns(${teamId}::smallint, ${exportId}::text, null, ${tables.columns}::text::regclass,
      ${tables.entries}::text::regclass) as changed`.execute(db)
  return Number(rows[0]!.changed)
}
