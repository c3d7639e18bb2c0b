/**
 * Reads the record of a batch upload tolerantly (specification: not shown).
 *
 * Invariant: a field that is absent or unreadable is null, never 0. An upload has ended only when the service reports
 * a final status, or has processed all of its rows.
 */
import { recordId } from '../../core/identifiers.ts'
import { isObject, type JsonObject } from '../../core/json.ts'
import { shown, table } from '../printable.ts'

export interface RejectedRow {
  /** The service counts from 1, without the header. Null if it gives no number. */
  readonly row: string | null
  /** In the service's words, which may quote the row. */
  readonly detail: string
}

export interface UploadState {
  readonly id: string | null
  readonly status: string | null
  readonly rows: number | null
  readonly processed: number | null
  readonly succeeded: number | null
  readonly failed: number | null
  readonly rejected: readonly RejectedRow[]
  readonly ended: boolean
}

const FINAL =
  /^(?:completed?|done|finished|processed|success(?:ful)?|succeeded|failed|failure|error(?:ed)?|cancell?ed|aborted|partial(?:ly[ _-]\w+)?)(?:[ _-]with[ _-]\w+)?$/i

/** The state in `record`, which is null for an answer without a record. */
export function uploadState(record: JsonObject | null): UploadState {
  const fields = record ?? {}
  const reading = recordId(fields)
  const status = shown(fields.status ?? fields.state).trim() || null
  const rows = countOf(fields.total_rows, fields.total)
  const processed = countOf(fields.processed_rows, fields.processed)
  const errors = fields.errors ?? fields.rejected_rows
  return {
    id: reading.kind === 'id' ? reading.id : null,
    status,
    rows,
    processed,
    succeeded: countOf(fields.success_count, fields.succeeded),
    failed: countOf(fields.error_count, fields.failed_count, fields.failed),
    rejected: Array.isArray(errors) ? errors.map(rejectedRow) : [],
    ended:
      (status !== null && FINAL.test(status)) ||
      (rows !== null && rows > 0 && processed !== null && processed >= rows),
  }
}

function rejectedRow(error: unknown): RejectedRow {
  if (!isObject(error)) return { row: null, detail: shown(error) }
  const { row, row_number, line, detail, error: reason, message, errors, ...rest } = error
  const why = detail ?? reason ?? message ?? errors ?? rest
  return { row: shown(row ?? row_number ?? line) || null, detail: shown(why) }
}

function countOf(...values: readonly unknown[]): number | null {
  for (const value of values) {
    const count = typeof value === 'string' && /^\d{1,15}$/.test(value) ? Number(value) : value
    if (typeof count === 'number' && Number.isSafeInteger(count) && count >= 0) return count
  }
  return null
}

/**
 * - `taken`: the upload has ended and the service reports no missing row.
 * - `rejected`: the upload has ended and rows are missing.
 * - `failed`: the service rejected the whole file.
 * - `open`: no end was reported.
 */
export type UploadOutcome = 'taken' | 'rejected' | 'failed' | 'open'

export function uploadOutcome(state: UploadState): UploadOutcome {
  if (!state.ended) return 'open'
  const { rows, succeeded, failed, rejected, status } = state
  const lost = (failed ?? 0) > 0 || rejected.length > 0
  if (lost || (rows !== null && succeeded !== null && succeeded < rows)) {
    return (succeeded ?? 0) > 0 || lost ? 'rejected' : 'failed'
  }
  return status !== null && /^(?:fail|error|cancel|abort)/i.test(status) ? 'failed' : 'taken'
}

/**
 * The report of `patients upload`, as text and as the JSON document of `--json`.
 *
 * Invariant: prints every rejected row that the service names, and the number of rejected rows that it does not name.
 */
export function uploadDocument({ id, ...state }: UploadState, note: string | null): unknown {
  const { status, ended, rows, processed, succeeded, failed } = state
  const rejected = state.rejected.map(({ row, detail }) => ({ row: numbered(row), detail }))
  return { upload_id: id, status, ended, rows, processed, succeeded, failed, rejected, note }
}

/** The row's number, if a JSON number represents it exactly; else its text. */
function numbered(row: string | null): string | number | null {
  return row !== null && String(Number(row)) === row && Number.isSafeInteger(Number(row)) ? Number(row) : row
}

export function uploadText(state: UploadState, note: string | null): string {
  const { id, status, rows, processed, succeeded, failed, rejected } = state
  const figures = [
    ['rows', rows],
    ['processed', state.ended ? null : processed],
    ['succeeded', succeeded],
    ['failed', failed],
  ] as const
  const known = figures.flatMap(([name, count]) => (count === null ? [] : [[name, count]]))
  const named = rejected.map(({ row, detail }) => [row === null ? 'a row' : `row ${row}`, detail])
  const unnamed = (failed ?? 0) - rejected.length
  return [
    known.length === 0 ? '' : table(known),
    named.length === 0 ? '' : `\nrejected:\n${table(named)}`,
    unnamed > 0 ? `${unnamed} more rejected row(s) that the service does not name\n` : '',
    `\nupload${id === null ? '' : ` ${id}`}: ${status ?? 'the service gives no status'}\n`,
    note === null ? '' : `${note}\n`,
  ].join('')
}
