/**
 * Renders an export in the requested format and the current shape.
 *
 * Invariant: every format contains the same rows, and every cell except in JSON keyed by title.
 */
import { create as disposition } from 'content-disposition'
import { csvOf } from '../exports/csv.ts'
import { jsonOf, jsonRowsOf } from '../exports/json.ts'
import type { Shape } from '../shapes/shape.ts'
import type { ExportAnswer } from './answer.ts'
import type { RenderedStream } from './send.ts'

const JSON_TYPE = 'application/json'
const CSV_TYPE = 'text/csv; charset=utf-8'

export function renderExport({ format, name, table }: ExportAnswer, shape: Shape): RenderedStream {
  if (format === 'json') {
    if (shape.has('export-json-rows')) return streamed(JSON_TYPE, jsonRowsOf(table))
    const rows = jsonOf(table)
    return streamed(JSON_TYPE, shape.has('export-json-data') ? around('{"data":', rows, '}') : rows)
  }
  const csv = shape.has('raw-text-bom') ? around('\ufeff', csvOf(table), '') : csvOf(table)
  if (format === 'download_file') {
    return streamed(CSV_TYPE, csv, { 'content-disposition': attachment(name) })
  }
  if (shape.has('raw-text-quoted')) return streamed(JSON_TYPE, around('"', escaped(csv), '"'))
  return streamed(shape.has('raw-text-csv') ? CSV_TYPE : 'text/plain; charset=utf-8', csv)
}

function streamed(
  type: string,
  body: AsyncIterable<string>,
  headers: Readonly<Record<string, string>> = {},
): RenderedStream {
  return { status: 200, headers: { 'content-type': type, ...headers }, body }
}

async function* around(before: string, body: AsyncIterable<string>, after: string): AsyncGenerator<string> {
  yield before
  yield* body
  if (after !== '') yield after
}

/** The inside of a JSON string. */
async function* escaped(body: AsyncIterable<string>): AsyncGenerator<string> {
  for await (const text of body) yield JSON.stringify(text).slice(1, -1)
}

/** Characters that some system forbids in file names or that could mislead a reader. */
const UNSAFE = /[\u0000-\u001f\u007f-\u009f<>:"/\\|?*\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]/g
const LONGEST = 100

function attachment(name: string): string {
  const safe = name
    .replaceAll(UNSAFE, '_')
    .slice(0, LONGEST)
    .toWellFormed()
    .replaceAll(/^[. ]+|[. ]+$/g, '')
  const file = `${safe || 'export'}.csv`
  return disposition(file, { fallback: file.replaceAll(/[^\x20-\x7e]/g, '_') })
}
