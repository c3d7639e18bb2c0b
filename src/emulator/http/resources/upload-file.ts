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
import { CONTACT, NO_FIELDS, type PatientFields, readPatientFields } from './patient-body.ts'

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
const MAX_ROWS = 250_000

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
      if (rows.length > MAX_ROWS) return undefined
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
  for (let index = start; index < bytes.length; index += CHUNK) {
    yield bytes.subarray(index, index + CHUNK)
    await setImmediate()
  }
}

/** The field of a column's cells; a column of kind `none` has no name and must be empty. */
type Column =
  | { readonly kind: 'field' | 'contact' | 'custom'; readonly name: string; readonly header: string }
  | { readonly kind: 'none' }

export type ReadRow = { readonly fields: PatientFields } | { readonly detail: string }

const REQUIRED = ['first_name', 'last_name'] as const
const FIELDS = new Set(Object.keys(NO_FIELDS))
FIELDS.delete('emergency_contact')
FIELDS.delete('custom_fields')
const CONTACTS = new Map<string, string>(CONTACT.map((name) => [`emergency_${name}`, name]))

const IS_REQUIRED = 'This field is required.'
const FAULTS: Readonly<Record<string, string>> = {
  first_name: 'This field may not be blank.',
  last_name: 'This field may not be blank.',
  email: 'Enter a valid email address.',
  date_birth: 'Enter a date that exists, in the format YYYY-MM-DD.',
  patient_tags: 'Enter each tag as its name and a color of the form #rrggbb, with a semicolon between two.',
}

/** The columns of a header; undefined if a required one is missing or a name repeats. */
function columnsOf(header: readonly string[]): Column[] | undefined {
  const columns = header.map(columnOf)
  const names = header.map((text) => text.trim().toLowerCase()).filter((name) => name !== '')
  if (new Set(names).size < names.length) return undefined
  return REQUIRED.every((name) => names.includes(name)) ? columns : undefined
}

function columnOf(text: string): Column {
  const header = text.trim()
  const name = header.toLowerCase()
  if (FIELDS.has(name)) return { kind: 'field', name, header: name }
  const contact = CONTACTS.get(name)
  if (contact !== undefined) return { kind: 'contact', name: contact, header: name }
  return header === '' ? { kind: 'none' } : { kind: 'custom', name: header, header }
}

/**
 * Reads one row of a batch upload as a patient.
 *
 * Invariant: a row is refused for the same reasons as a POST /v2/patients, and for a missing name of an emergency
 * contact, a cell without a column and invalid UTF-8. The error names a column and contains no value.
 */
export function readRow(columns: readonly Column[], cells: readonly string[], isUtf8: boolean): ReadRow {
  const given = { field: new Map<string, unknown>(), contact: new Map(), custom: new Map() }
  for (const [index, cell] of cells.entries()) {
    if (cell === '') continue
    const column = columns[index] ?? { kind: 'none' }
    if (column.kind === 'none') return { detail: `non_field_errors: Column ${index + 1} has no name.` }
    if (!isUtf8 && cell.includes('\ufffd')) return { detail: `${column.header}: Enter text in UTF-8.` }
    given[column.kind].set(column.name, column.name === 'patient_tags' ? tagsOf(cell) : cell)
  }
  const missing = REQUIRED.find((name) => !given.field.has(name))
  if (missing !== undefined) return { detail: `${missing}: ${IS_REQUIRED}` }
  const nameless = REQUIRED.find((name) => given.contact.size > 0 && !given.contact.get(name)?.trim())
  if (nameless !== undefined) return { detail: `emergency_${nameless}: ${IS_REQUIRED}` }
  const read = readPatientFields({
    ...Object.fromEntries(given.field),
    emergency_contact: given.contact.size === 0 ? null : Object.fromEntries(given.contact),
    custom_fields: Object.fromEntries(given.custom),
  })
  if ('fault' in read) return { detail: `${read.fault}: ${FAULTS[read.fault] ?? 'Enter a valid value.'}` }
  return { fields: { ...NO_FIELDS, ...read.fields } }
}

/** `VIP #ff0000; Recall #00aa00`. A tag without a color gets an empty one, which validation refuses. */
function tagsOf(cell: string): { name: string; color: string }[] {
  const parts = cell.split(';').map((part) => part.trim())
  return parts
    .filter((part) => part !== '')
    .map((part) => {
      const [, name = part, color = ''] = /^(.*\S)\s+(#\S+)$/.exec(part) ?? []
      return { name, color }
    })
}
