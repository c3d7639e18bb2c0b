/**
 * Compares the two channels of answers: the files of exports, and responses.
 *
 *     export row ─► the client's latest response to the form ─► answers of each column's question ─► same?
 *
 * Invariant: both sides are the expected tables of this run, read from the source. A difference is reported by response
 * and column position, never by a value. A column whose question is unknown is counted, not compared.
 */
import { sql } from 'kysely'
import type { Session } from '../../warehouse/connect.ts'
import { NESTED_LOOPS_IN_TRANSACTION } from '../../warehouse/connect.ts'
import { agrees, type ComparedColumn, NOTHING, type QuestionSheet } from './cell-of.ts'

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

/**
 * Rows of an export with their candidate responses, in portions.
 *
 * Invariant: a row belongs to the latest submitted response of its client to the export's form, or to an open one if none
 * is submitted. Skipped responses are in no export. Memory holds one portion.
 */
export interface Candidate {
  readonly id: string
  /** `completed_at` of the row equals `submitted_at` of the response. */
  readonly isCompletedThen: boolean
  /** By question id; empty parts are left out. */
  readonly sheets: Readonly<Record<string, Partial<QuestionSheet>>>
}

interface ClientRow {
  readonly rowNumber: number
  /** By position. */
  readonly cells: Readonly<Record<number, string>>
  readonly candidates: readonly Candidate[]
}

const PORTION = 200

/** Creates indexes for comparing up rows, cells and parts. */
async function prepareRows({ client }: Session): Promise<void> {
  const indexes: Readonly<Record<string, string>> = {
    responses: 'form_id, patient_id',
    response_answers: 'response_id',
    response_matrix_cells: 'response_id',
    response_files: 'response_id',
    response_signatures: 'response_id',
    export_rows: 'export_id, row_number',
    export_cells: 'export_id, row_number',
  }
  for (const [table, columns] of Object.entries(indexes)) {
    await client.query(
      `create index if not exists expected_${table}_deep on pg_temp.expected_${table} (${columns})`,
    )
    await client.query(`analyze pg_temp.expected_${table}`)
  }
}

const OF_RESPONSE = sql`where own.response_id = response.id and own.question_id is not null`

/** The rows after `after`, in order. */
async function nextRows(
  { db }: Session,
  exportId: string,
  formId: string,
  after: number,
): Promise<readonly ClientRow[]> {
  return await db.transaction().execute(async (transaction) => {
    await sql.raw(NESTED_LOOPS_IN_TRANSACTION).execute(transaction)
    const { rows } = await sql<ClientRow>`
      with portion as materialized (
        select row_number, client_id, completed_at from pg_temp.expected_export_rows
        where export_id = ${exportId} and row_number > ${after} order by row_number limit ${PORTION}
      )
      select row_number as "rowNumber",
        coalesce((select jsonb_object_agg(position, value) from pg_temp.expected_export_cells own
                  where own.export_id = ${exportId} and own.row_number = portion.row_number), '{}') as cells,
        coalesce((
          select jsonb_agg(jsonb_build_object('id', response.id,
            'isCompletedThen', response.submitted_at is not distinct from portion.completed_at, 'sheets', ${SHEETS})
            order by response.id)
          from (
            select id, submitted_at, max(submitted_at) over () as latest
            from pg_temp.expected_responses
            where form_id = ${formId} and patient_id = portion.client_id and is_skipped is not true
          ) response
          where submitted_at is not distinct from latest
        ), '[]') as candidates
      from portion order by row_number`.execute(transaction)
    return rows
  })
}

const SHEETS = sql`(
  select coalesce(jsonb_object_agg(question_id, sheet), '{}') from (
    select question_id, jsonb_object_agg(part, items) as sheet from (
      select question_id, 'answers' as part, jsonb_agg(jsonb_build_object('values', texts) order by position) as items
      from (
        select own.question_id, own.position, jsonb_agg(own.value_text order by own.value_position) as texts
        from pg_temp.expected_response_answers own ${OF_RESPONSE} group by 1, 2
      ) answer group by 1
      union all
      select own.question_id, 'cells', jsonb_agg(jsonb_build_object(
        'row', own.row_text, 'column', own.column_text, 'value', own.value_text) order by own.position)
      from pg_temp.expected_response_matrix_cells own ${OF_RESPONSE} group by 1
      union all
      select own.question_id, 'files', jsonb_agg(own.name order by own.position)
      from pg_temp.expected_response_files own ${OF_RESPONSE} group by 1
      union all
      select own.question_id, 'signers', jsonb_agg(own.signer_name order by own.position)
      from pg_temp.expected_response_signatures own ${OF_RESPONSE} group by 1
    ) parts group by question_id
  ) sheets
)`

/** Submitted responses whose client has no row in the export: the latest of each client. */
async function unlistedResponses(
  { db }: Session,
  exportId: string,
  formId: string,
): Promise<readonly string[]> {
  const { rows } = await sql<{ id: string }>`
    select distinct on (patient_id) id from pg_temp.expected_responses response
    where form_id = ${formId} and patient_id is not null and is_skipped is not true and submitted_at is not null
      and patient_id not in (
        select client_id from pg_temp.expected_export_rows where export_id = ${exportId} and client_id is not null)
    order by patient_id, submitted_at desc, id`.execute(db)
  return rows.map(({ id }) => id)
}
