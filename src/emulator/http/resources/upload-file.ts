/**
 * Reads the CSV file in the multipart body of a batch upload (specification, section 4.1).
 *
 * Invariant: a sheet has the columns first_name and last_name and no repeated names; its rows are all non-blank rows of
 * the file in order, whatever their cells contain.
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
  /** False if the file contains invalid UTF-8, which the cells show as U+FFFD. */
  readonly isUtf8: boolean
}

/** `invalid`: no file, or not a sheet of patients. `wrong-type`: a file of another type. */
export type ReadUpload = Sheet | { readonly type: 'invalid' } | { readonly type: 'wrong-type' }

const INVALID = { type: 'invalid' } as const

/**
 * Quotes inside a bare cell are part of it; blanks around an unquoted cell are not. The byte order mark is removed
 * separately: the option `bom` would accept UTF-16 too.
 */
const OPTIONS = {
  trim: true,
  record_delimiter: ['\r\n', '\n', '\r'],
  relax_column_count: true,
  relax_quotes: true,
  skip_empty_lines: true,
}

const MARK = Buffer.from('\ufeff')

/** Bytes parsed in one turn of the event loop, so that other requests do not wait long. */
const CHUNK = 64 * 1024

/** Greatest number of rows without the header; a longer file is refused. */
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

/** The one part named `file`; undefined if it is not a file, if it repeats, or without a multipart body. */
async function filePart(contentType: string, body: Buffer): Promise<File | undefined> {
  if (!/^multipart\/form-data\b/i.test(contentType.trim())) return undefined
  try {
    const form = await new Response(body, { headers: { 'content-type': contentType } }).formData()
    const parts = form.getAll('file')
    return parts.length === 1 && typeof parts[0] !== 'string' ? (parts[0] as File) : undefined
  } catch (error) {
    // Thrown by undici for a malformed body.
    if (error instanceof TypeError) return undefined
    throw error
  }
}

/** Every record of a CSV file; undefined if a quoted cell is unterminated or followed by text. */
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
