/**
 * Rows of an export with their candidate responses, in portions.
 *
 * Invariant: a row belongs to the latest submitted response of its client to the export's form, or to an open one if none
 * is submitted. Skipped responses are in no export. Memory holds one portion.
 */

import { sql } from 'kysely'
import type { Session } from '../../../warehouse/connect.ts'
import { NEST_LOOPS_HERE } from '../../../warehouse/planner.ts'
import type { QuestionSheet } from './cell-of.ts'

export interface Candidate {
  readonly id: string
  /** `completed_at` of the row equals `submitted_at` of the response. */
  readonly isCompletedThen: boolean
  /** By question id; empty parts are left out. */
  readonly sheets: Readonly<Record<string, Partial<QuestionSheet>>>
}

export interface ClientRow {
  readonly rowNumber: number
  /** By position. */
  readonly cells: Readonly<Record<number, string>>
  readonly candidates: readonly Candidate[]
}

const PORTION = 200

/** Creates indexes for looking up rows, cells and parts. */
export async function prepareRows({ client }: Session): Promise<void> {
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
export async function nextRows(
  { db }: Session,
  exportId: string,
  formId: string,
  after: number,
): Promise<readonly ClientRow[]> {
  return await db.transaction().execute(async (transaction) => {
    await sql.raw(NEST_LOOPS_HERE).execute(transaction)
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
            'isCompletedThen', response.submitted_at is not distinct from portion.completed_at, 'sheets', ${SHEETS}))
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
export async function unlistedResponses(
  { db }: Session,
  exportId: string,
  formId: string,
): Promise<readonly string[]> {
  const { rows } = await sql<{ id: string }>`
    select distinct on (patient_id) id from pg_temp.expected_responses response
    where form_id = ${formId} and patient_id is not null and is_skipped is not true and submitted_at is not null
      and patient_id not in (
        select client_id from pg_temp.expected_export_rows where export_id = ${exportId} and client_id is not null)
    order by patient_id, submitted_at desc`.execute(db)
  return rows.map(({ id }) => id)
}
