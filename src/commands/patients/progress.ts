/**
 * What a batch upload's record says (specification: not shown), read tolerantly.
 *
 * Invariant: what is absent or cannot be read is null, never 0; an upload has ended only when the service says so, or
 * has been through as many rows as it says there are.
 */

import { recordId } from '../../core/identifiers.ts'
import { isObject, type JsonObject } from '../../core/json.ts'
import { shown } from '../terminal/printable.ts'

export interface RejectedRow {
  /** As the service counts: from 1, without the header. Null where it does not say. */
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

/** The state that `record` tells; null for an answer without one. */
export function uploadState(record: JsonObject | null): UploadState {
  const told = record ?? {}
  const reading = recordId(told)
  const status = shown(told.status ?? told.state).trim() || null
  const rows = countOf(told.total_rows, told.total)
  const processed = countOf(told.processed_rows, told.processed)
  const errors = told.errors ?? told.rejected_rows
  return {
    id: reading.kind === 'id' ? reading.id : null,
    status,
    rows,
    processed,
    succeeded: countOf(told.success_count, told.succeeded),
    failed: countOf(told.error_count, told.failed_count, told.failed),
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

function countOf(...told: readonly unknown[]): number | null {
  for (const value of told) {
    const count = typeof value === 'string' && /^\d{1,15}$/.test(value) ? Number(value) : value
    if (typeof count === 'number' && Number.isSafeInteger(count) && count >= 0) return count
  }
  return null
}

/**
 * - `taken`: the service says that it took every row, or nothing else.
 * - `rejected`: it has ended and rows are missing.
 * - `failed`: it gave up the whole file.
 * - `open`: as far as is known, it goes on.
 */
export type Verdict = 'taken' | 'rejected' | 'failed' | 'open'

export function verdictOn(state: UploadState): Verdict {
  if (!state.ended) return 'open'
  const { rows, succeeded, failed, rejected, status } = state
  const lost = (failed ?? 0) > 0 || rejected.length > 0
  if (lost || (rows !== null && succeeded !== null && succeeded < rows)) {
    return (succeeded ?? 0) > 0 || lost ? 'rejected' : 'failed'
  }
  return status !== null && /^(?:fail|error|cancel|abort)/i.test(status) ? 'failed' : 'taken'
}
