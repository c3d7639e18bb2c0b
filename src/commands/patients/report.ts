/**
 * The report of `patients upload`, as text and as the JSON document of `--json`.
 *
 * Invariant: prints every rejected row that the service names, and the number of rejected rows that it does not name.
 */
import { table } from '../terminal/table.ts'
import type { UploadState } from './progress.ts'

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
