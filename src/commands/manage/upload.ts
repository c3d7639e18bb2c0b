/**
 * The file and the record of a batch upload: its columns are checked and renamed before anything is sent; its record is
 * read tolerantly (specification: not shown).
 *
 * Invariant: only the header of the file changes; every row stays as it is, byte for byte. A header may be a row about a
 * person, so its names are results, and are in no error. A field of the record that is absent or unreadable is null, never
 * 0. An upload has ended only when the service reports a final status, or has processed all of its rows.
 */
import { readFileSync } from 'node:fs'
import { parse } from 'csv-parse/sync'
import { stringify } from 'csv-stringify/sync'
import { z } from 'zod'
import { withoutMark } from '../../config/settings.ts'
import { UsageError } from '../../core/errors.ts'
import { recordId } from '../../core/identifiers.ts'
import { isObject, type JsonObject } from '../../core/json.ts'
import { PERSONS } from '../../streams/catalogue.ts'
import { shown, table } from '../printable.ts'

/** Required by the service (specification, section 4.1). */
const REQUIRED = ['first_name', 'last_name']
const CONTACT = [
  'first_name',
  'last_name',
  'phone_number',
  'relationship',
  'address',
  'address2',
  'city',
  'state',
  'zipcode',
]
const KNOWN: ReadonlySet<string> = new Set([
  ...PERSONS.columns.map(({ name }) => name),
  ...['provider', ...CONTACT.map((name) => `emergency_${name}`)],
])

export interface Upload {
  readonly bytes: Uint8Array
  readonly missing: readonly string[]
  /** The specification names some columns only, so the service may know these. */
  readonly unknown: readonly string[]
}

/** `mapPath` names a JSON file: the column of the file to the column of the service. */
export function readColumns(bytes: Uint8Array, mapPath: string | undefined): Upload {
  const header = headerOf(bytes)
  const map = mapPath === undefined ? {} : readMap(mapPath)
  const names = (header?.names ?? []).map((name) => (Object.hasOwn(map, name) ? map[name]! : name))
  const stray = Object.keys(map).filter((name) => !header?.names.includes(name)).length
  if (stray > 0)
    throw new UsageError(
      `--map: FILE lacks ${stray} of its columns`,
      'correct their names',
      '--map',
      'definition_invalid',
    )
  return {
    bytes:
      mapPath === undefined || header === null
        ? bytes
        : Buffer.concat([Buffer.from(stringify([names])), bytes.subarray(header.end)]),
    missing: REQUIRED.filter((name) => !names.includes(name)),
    unknown: names.filter((name) => !KNOWN.has(name)),
  }
}

/** Null for a file without a readable first line; the service judges it. */
function headerOf(bytes: Uint8Array): { names: readonly string[]; end: number } | null {
  const options = {
    ...{ to: 1, info: true, bom: true, trim: true, relax_quotes: true, skip_empty_lines: true },
    record_delimiter: ['\r\n', '\n', '\r'],
  }
  try {
    const [first] = parse(Buffer.from(bytes), options) as unknown as [
      { record: string[]; info: { bytes: number } } | undefined,
    ]
    return first === undefined ? null : { names: first.record, end: first.info.bytes }
  } catch {
    return null
  }
}

function readMap(path: string): Readonly<Record<string, string>> {
  const wrong = (what: string) =>
    new UsageError(
      `--map ${what}`,
      'write {"column of the file": "first_name", …}',
      '--map',
      'definition_invalid',
    )
  let text: string
  try {
    text = withoutMark(readFileSync(path, 'utf8'))
  } catch (error) {
    throw wrong(`cannot be read (${(error as NodeJS.ErrnoException).code ?? 'unknown'})`)
  }
  try {
    return z.record(z.string(), z.string().min(1)).parse(JSON.parse(text))
  } catch {
    throw wrong('is not a JSON object of names')
  }
}

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
  /^(?:completed?|done|finished|processed|success(?:ful)?|succeeded|failed|failure|error(?:ed)?|cancell?ed|aborted|partial(?:ly)?(?:[ _-]\w+)?)(?:[ _-]with[ _-]\w+)?$/i

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
