/**
 * The formats of an export: rows → the bytes of one file.
 *
 * Invariant: CSV and NDJSON hold each value as Postgres writes it. Parquet holds `numeric` as a 64-bit float, the only
 * type that loses digits. Null, an empty text and a missing column are three things in each format.
 */
import { createWriteStream, type WriteStream } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { stringify } from 'csv-stringify'
import type { SchemaElement } from 'hyparquet'
import { fileWriter, parquetWriteRows } from 'hyparquet-writer'
import type { Column, ColumnKind, Row } from './query.ts'

export const FORMATS = ['csv', 'parquet', 'ndjson'] as const
export type Format = (typeof FORMATS)[number]

/** Writes one file; resolves when all of it is written. Only its owner may read it. */
export type WriteFile = (path: string, columns: readonly Column[], rows: AsyncIterable<Row>) => Promise<void>

export const WRITERS: Readonly<Record<Format, WriteFile>> = {
  csv: writeCsv,
  ndjson: writeNdjson,
  parquet: writeParquet,
}

const PRIVATE = { mode: 0o600, flags: 'wx' } as const

/** Ends once the file is closed, also where `write` fails: nothing appears in its folder later. */
async function intoFile(path: string, write: (file: WriteStream) => Promise<void>): Promise<void> {
  const file = createWriteStream(path, PRIVATE)
  const closed = new Promise<void>((resolve) => file.once('close', () => resolve()))
  try {
    await write(file)
  } finally {
    await closed
  }
}

/** RFC 4180 with a header; null is empty, and an empty text is `""`. */
async function writeCsv(path: string, columns: readonly Column[], rows: AsyncIterable<Row>): Promise<void> {
  const lines = stringify({
    header: true,
    columns: columns.map(({ name }) => name),
    cast: { string: (value) => (value === '' ? { value, quoted_empty: true } : value) },
    record_delimiter: 'windows',
  })
  await intoFile(path, (file) => pipeline(Readable.from(valuesOf(rows)), lines, file))
}

async function* valuesOf(rows: AsyncIterable<Row>): AsyncGenerator<readonly (string | null)[]> {
  for await (const { values } of rows) yield values
}

/** One JSON object per line. */
async function writeNdjson(path: string, _: readonly Column[], rows: AsyncIterable<Row>): Promise<void> {
  async function* lines(): AsyncGenerator<string> {
    let text = ''
    for await (const { json } of rows) {
      text += `${json}\n`
      if (text.length < 65_536) continue
      yield text
      text = ''
    }
    yield text
  }
  await intoFile(path, (file) => pipeline(Readable.from(lines()), file))
}

/** Rows that are compressed together, and kept in memory until then. */
const ROW_GROUP = 10_000

async function writeParquet(
  path: string,
  columns: readonly Column[],
  rows: AsyncIterable<Row>,
): Promise<void> {
  const schema: SchemaElement[] = [
    { name: 'root', num_children: columns.length },
    ...columns.map(({ name, kind }) => ({
      name,
      repetition_type: 'OPTIONAL' as const,
      ...PARQUET[kind].element,
    })),
  ]
  async function* records(): AsyncGenerator<Record<string, unknown>> {
    for await (const { values } of rows) {
      const cells = columns.map(({ name, kind }, place): [string, unknown] => {
        const text = values[place] ?? null
        return [name, text === null ? null : PARQUET[kind].value(text)]
      })
      yield Object.fromEntries(cells)
    }
  }
  // The library opens the file for everybody to read; it keeps the rights of one that exists.
  await writeFile(path, '', { mode: 0o600, flag: 'wx' })
  await parquetWriteRows({
    writer: fileWriter(path),
    schema,
    columns: columns.map(({ name }) => ({ name })),
    rows: records(),
    rowGroupSize: ROW_GROUP,
    createdBy: 'intake-sync',
  })
}

interface ParquetKind {
  readonly element: Omit<SchemaElement, 'name'>
  value(text: string): unknown
}

const PARQUET: Readonly<Record<ColumnKind, ParquetKind>> = {
  boolean: { element: { type: 'BOOLEAN' }, value: (text) => text === 't' },
  int32: { element: { type: 'INT32' }, value: Number },
  int64: { element: { type: 'INT64' }, value: BigInt },
  double: { element: { type: 'DOUBLE' }, value: Number },
  date: { element: { type: 'INT32', converted_type: 'DATE' }, value: daysOf },
  timestamp: {
    element: {
      type: 'INT64',
      converted_type: 'TIMESTAMP_MICROS',
      logical_type: { type: 'TIMESTAMP', isAdjustedToUTC: true, unit: 'MICROS' },
    },
    value: microsOf,
  },
  json: { element: { type: 'BYTE_ARRAY', converted_type: 'UTF8' }, value: (text) => text },
  text: { element: { type: 'BYTE_ARRAY', converted_type: 'UTF8' }, value: (text) => text },
}

const DAY_MS = 86_400_000

/** Days since 1970 of a date; null for `infinity` and dates before Christ, which Parquet cannot hold. */
function daysOf(text: string): number | null {
  const at = Date.parse(`${text}T00:00:00Z`)
  return Number.isNaN(at) ? null : at / DAY_MS
}

/** Microseconds since 1970 of `2026-11-22 01:02:03.123456+00`; null for `infinity`. */
function microsOf(text: string): bigint | null {
  const [, date, time, fraction = ''] = /^(\S+) ([\d:]{8})(?:\.(\d+))?\+00$/.exec(text) ?? []
  const at = Date.parse(`${date}T${time}Z`)
  return Number.isNaN(at) ? null : BigInt(at) * 1_000n + BigInt(fraction.padEnd(6, '0'))
}
