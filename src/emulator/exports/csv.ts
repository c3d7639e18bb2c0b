/**
 * An export as CSV, as Python's csv module writes it: lines end with CRLF, and a cell is quoted only when it holds a
 * comma, a quote or a line end of any kind.
 *
 * Invariant: a chunk ends where a row ends; no state is kept between chunks.
 */
import { stringify } from 'csv-stringify/sync'
import type { ExportTable } from '../http/answer.ts'

const AS_PYTHON = { record_delimiter: '\r\n', quoted_match: /[\r\n]/ }

export async function* csvOf({ titles, rows }: ExportTable): AsyncGenerator<string> {
  yield stringify([[...titles]], AS_PYTHON)
  for await (const batch of rows) yield stringify(batch as string[][], AS_PYTHON)
}
