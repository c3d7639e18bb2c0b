/**
 * Compares the two channels of answers: the files of exports, and responses.
 *
 *     export row ─► the client's latest response to the form ─► answers of each column's question ─► same?
 *
 * Invariant: both sides are the expected tables of this run, read from the source. A difference is reported by response
 * and column position, never by a value. A column whose question is unknown is counted, not compared.
 */
import { type Kysely, sql } from 'kysely'
import type { Session } from '../../../warehouse/connect.ts'
import type { Warehouse } from '../../../warehouse/tables.ts'
import { agrees, type ComparedColumn, NOTHING } from './cell-of.ts'
import { type ClientRow, nextRows, prepareRows, unlistedResponses } from './client-rows.ts'

export interface ChannelDifference {
  readonly export_id: string
  /** Null for a row without a response. */
  readonly response_id: string | null
  /** Null for a response without a row. */
  readonly row_number: number | null
  /** Position of the column in the file; null for the whole row. */
  readonly position: number | null
}

export interface Channels {
  readonly rows: number
  readonly cells: number
  /** Cells of tables whose rows or columns have no text in the responses. */
  readonly cellsNotCompared: number
  /** Columns whose question is unknown. */
  readonly columnsNotCompared: number
  readonly differences: readonly ChannelDifference[]
}

interface Column extends ComparedColumn {
  readonly position: number
  readonly questionId: string | null
}

/** `Completed at`, among the seven leading columns. */
const COMPLETED_AT = 6

export async function compareChannels(
  session: Session,
  teamId: number,
  signal: AbortSignal,
): Promise<Channels> {
  await prepareRows(session)
  const differences: ChannelDifference[] = []
  const counts = { rows: 0, cells: 0, cellsNotCompared: 0, columnsNotCompared: 0 }
  const { rows: exports } = await sql<{ id: string; formId: string }>`
    select id, form_id as "formId" from pg_temp.expected_exports
    where form_id is not null and id not in (select id from pg_temp.unread_files) order by id`.execute(
    session.db,
  )
  for (const { id, formId } of exports) {
    const columns = await columnsOf(session, teamId, id, formId)
    const known = columns.filter(({ questionId }) => questionId !== null)
    counts.columnsNotCompared += columns.length - known.length
    for (let after = 0; ; ) {
      signal.throwIfAborted()
      const rows = await nextRows(session, id, formId, after)
      if (rows.length === 0) break
      for (const row of rows) {
        counts.rows += 1
        const { found, unsaid } = differencesOf(row, known)
        counts.cells += known.length - unsaid
        counts.cellsNotCompared += unsaid
        differences.push(...found.map((each) => ({ export_id: id, ...each })))
      }
      after = rows.at(-1)!.rowNumber
    }
    for (const response_id of await unlistedResponses(session, id, formId)) {
      differences.push({ export_id: id, response_id, row_number: null, position: null })
    }
  }
  return { ...counts, differences }
}

async function columnsOf(
  { db }: Session,
  teamId: number,
  exportId: string,
  formId: string,
): Promise<readonly Column[]> {
  const { rows } = await sql<Column>`
    select own.position, own.title, own.question_id as "questionId", question.text as "questionText",
      question.question_type as type
    from pg_temp.expected_export_columns own
    left join lateral (
      select text, question_type from intake.form_questions
      where team_id = ${teamId} and form_id = ${formId} and question_id = own.question_id
      order by position limit 1
    ) question on true
    where own.export_id = ${exportId} order by own.position`.execute(db)
  return rows
}

interface InRow {
  readonly found: readonly Omit<ChannelDifference, 'export_id'>[]
  /** Number of columns that cannot be compared. */
  readonly unsaid: number
}

/** If several responses may be the latest, the one with the fewest differences is used. */
function differencesOf(row: ClientRow, columns: readonly Column[]): InRow {
  const place = { row_number: row.rowNumber }
  if (row.candidates.length === 0) {
    return { found: [{ ...place, response_id: null, position: null }], unsaid: columns.length }
  }
  const each = row.candidates.map((response): InRow => {
    const own = { ...place, response_id: response.id }
    const late = response.isCompletedThen ? [] : [{ ...own, position: COMPLETED_AT }]
    const judged = columns.map(({ questionId, ...column }) => {
      const sheet = { ...NOTHING, ...response.sheets[questionId!] }
      return {
        ...own,
        position: column.position,
        agrees: agrees(row.cells[column.position] ?? '', column, sheet),
      }
    })
    const wrong = judged.filter((cell) => cell.agrees === false)
    return {
      found: [...late, ...wrong.map(({ agrees: _, ...cell }) => cell)],
      unsaid: judged.filter((cell) => cell.agrees === null).length,
    }
  })
  return each.reduce((least, other) => (other.found.length < least.found.length ? other : least))
}

/** Removes these responses from the stored differences of earlier comparisons. */
export async function forgetResponses(
  db: Kysely<Warehouse>,
  teamId: number,
  all: readonly string[],
): Promise<void> {
  const ids = sql`${[...all]}::text[]`
  await sql`
    update intake_ops.verifications set deep = jsonb_set(deep, '{differences}', coalesce((
      select jsonb_agg(listed order by place)
      from jsonb_array_elements(deep -> 'differences') with ordinality as each (listed, place)
      where coalesce(listed ->> 'response_id', '') <> all(${ids})
    ), '[]'))
    where team_id = ${teamId} and exists (
      select from jsonb_array_elements(deep -> 'differences') as listed where listed ->> 'response_id' = any(${ids})
    )`.execute(db)
}
