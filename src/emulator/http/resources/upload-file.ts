/**
 * The CSV file of a batch upload, out of the multipart body that brought it (specification, section 4.1).
 *
 * Invariant: a sheet has named first_name and last_name columns and no two columns of one name; its rows are those of
 * the file in their order, blank lines left out, whatever is in their cells.
 */
import { isUtf8 } from 'node:buffer'
import { Readable } from 'node:stream'
import { setImmediate } from 'node:timers/promises'
import { CsvError, parse } from 'csv-parse'
import { Response } from 'undici'
import { type Column, columnsOf } from './upload-row.ts'

export interface Sheet {
  readonly type: 'sheet'
  readonly columns: readonly Column[]
  readonly rows: readonly (readonly string[])[]
  /** False where some bytes of the file are no text; each of them is U+FFFD in the cells. */
  readonly isUtf8: boolean
}

/** `invalid`: there is no such file, or it is no sheet of patients. `wrong-type`: there is one, but of another type. */
export type ReadUpload = Sheet | { readonly type: 'invalid' } | { readonly type: 'wrong-type' }

const INVALID = { type: 'invalid' } as const

/**
 * Quotes inside a bare cell are part of it; blanks around a cell are not, unless it is quoted. The mark of UTF-8 is
 * taken away before: `bom` would let UTF-16 in as well.
 */
const OPTIONS = {
  trim: true,
  record_delimiter: ['\r\n', '\n', '\r'],
  relax_column_count: true,
  relax_quotes: true,
  skip_empty_lines: true,
}

const MARK = Buffer.from('\ufeff')

/** How much of a file is read in one turn of the event loop: others wait no longer than that. */
const CHUNK = 64 * 1024

/** Rows of a file, without its header; one that has more is refused as a whole. */
const MOST_ROWS = 250_000

export async function readUpload(contentType: unknown, body: Buffer): Promise<ReadUpload> {
  const file = await filePart(String(contentType ?? ''), body)
  if (file === undefined || file.name === '') return INVALID
  if (!/\.csv$/i.test(file.name)) return { type: 'wrong-type' }
  const bytes = Buffer.from(await file.arrayBuffer())
  const rows = await readCsv(bytes)
  const header = rows?.shift()
  if (rows === undefined || header === undefined) return INVALID
  const valid = isUtf8(bytes)
  const columns = !valid && header.join().includes('\ufffd') ? undefined : columnsOf(header)
  return columns === undefined ? INVALID : { type: 'sheet', columns, rows, isUtf8: valid }
}

/** The one part named `file`; undefined when it is no file, there are others of that name, or no multipart body. */
async function filePart(contentType: string, body: Buffer): Promise<File | undefined> {
  if (!/^multipart\/form-data\b/i.test(contentType.trim())) return undefined
  try {
    const form = await new Response(body, { headers: { 'content-type': contentType } }).formData()
    const parts = form.getAll('file')
    return parts.length === 1 && typeof parts[0] !== 'string' ? (parts[0] as File) : undefined
  } catch (error) {
    // What undici says of a body that it cannot take apart.
    if (error instanceof TypeError) return undefined
    throw error
  }
}

/** Every record of a CSV file; undefined when a quoted cell has no end, or goes on after it. */
async function readCsv(bytes: Buffer): Promise<string[][] | undefined> {
  const rows: string[][] = []
  try {
    for await (const row of Readable.from(chunksOf(bytes)).pipe(parse(OPTIONS))) {
      if (rows.length > MOST_ROWS) return undefined
      rows.push(row)
    }
  } catch (error) {
    if (error instanceof CsvError) return undefined
    throw error
  }
  return rows
}

async function* chunksOf(bytes: Buffer): AsyncGenerator<Buffer> {
  const start = bytes.subarray(0, MARK.length).equals(MARK) ? MARK.length : 0
  for (let at = start; at < bytes.length; at += CHUNK) {
    yield bytes.subarray(at, at + CHUNK)
    await setImmediate()
  }
}
