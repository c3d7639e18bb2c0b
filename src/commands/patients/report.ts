/**
 * What `patients upload` prints at its end, for people and as the document of `--json`.
 *
 * Invariant: every rejected row that the service names is printed, and where it names fewer than it counts, that is said.
 */
import { table } from '../terminal/table.ts'
import type { UploadState } from './progress.ts'

export function uploadDocument({ id, ...state }: UploadState, note: string | null): unknown {
  const { status, ended, rows, processed, succeeded, failed } = state
  const rejected = state.rejected.map(({ row, detail }) => ({ row: numbered(row), detail }))
  return { upload_id: id, status, ended, rows, processed, succeeded, failed, rejected, note }
}

/** A row's number as a number, where that says exactly what the service said; else its text. */
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
  const told = figures.flatMap(([name, count]) => (count === null ? [] : [[name, count]]))
  const named = rejected.map(({ row, detail }) => [row === null ? 'a row' : `row ${row}`, detail])
  const unnamed = (failed ?? 0) - rejected.length
  return [
    told.length === 0 ? '' : table(told),
    named.length === 0 ? '' : `\nrejected:\n${table(named)}`,
    unnamed > 0 ? `${unnamed} more rejected row(s) that the service does not name\n` : '',
    `\nupload${id === null ? '' : ` ${id}`}: ${status ?? 'the service gives no status'}\n`,
    note === null ? '' : `${note}\n`,
  ].join('')
}
