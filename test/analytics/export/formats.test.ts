/** The files of an export: each kind of value in each format, for their owner only, and never over another file. */
import { existsSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { asyncBufferFromFile, parquetMetadataAsync, parquetReadObjects } from 'hyparquet'
import { afterAll, expect, test } from 'vitest'
import { FORMATS, WRITERS } from '../../../src/analytics/export/formats.ts'
import type { Column, Row } from '../../../src/analytics/export/query.ts'
import { makeFolder, removeFolder } from '../../support/folders.ts'

const folder = makeFolder('formats-')
afterAll(() => removeFolder(folder))

const COLUMNS: readonly Column[] = [
  { name: 'flag', type: 'boolean', kind: 'boolean' },
  { name: 'small', type: 'integer', kind: 'int32' },
  { name: 'large', type: 'bigint', kind: 'int64' },
  { name: 'share', type: 'numeric', kind: 'double' },
  { name: 'day', type: 'date', kind: 'date' },
  { name: 'at', type: 'timestamp with time zone', kind: 'timestamp' },
  { name: 'tree', type: 'jsonb', kind: 'json' },
  { name: 'words', type: 'text', kind: 'text' },
]

const row = (...values: (string | null)[]): Row => ({ values, day: null, json: JSON.stringify(values) })
const ROWS: readonly Row[] = [
  row(
    't',
    '-7',
    '9007199254740993',
    '12.50',
    '2026-02-28',
    '2026-02-28 23:00:00.5+00',
    '{"a": 1}',
    'a"b,\r\nü',
  ),
  row('f', '0', '-1', 'NaN', '1969-12-31', '1969-12-31 23:59:59.999999+00', 'null', ''),
  row(null, null, null, null, null, null, null, null),
  row('t', '1', '1', 'Infinity', 'infinity', '-infinity', '[]', ' '),
]

async function* given(rows: Iterable<Row>): AsyncGenerator<Row> {
  yield* rows
}

const places = new Map<string, number>()
const placeOf = (name: string) => {
  places.set(name, (places.get(name) ?? 0) + 1)
  return join(folder, `${places.get(name)}-${name}`)
}

async function written(format: (typeof FORMATS)[number], columns: readonly Column[], rows: Iterable<Row>) {
  const path = placeOf(`data.${format}`)
  await WRITERS[format](path, columns, given(rows))
  return path
}

test('CSV: a header, lines that end as RFC 4180 says, quotes where they are needed, null apart from an empty text', async () => {
  const path = await written('csv', COLUMNS, ROWS)
  expect(readFileSync(path, 'utf8')).toBe(
    [
      'flag,small,large,share,day,at,tree,words',
      't,-7,9007199254740993,12.50,2026-02-28,2026-02-28 23:00:00.5+00,"{""a"": 1}","a""b,\r\nü"',
      'f,0,-1,NaN,1969-12-31,1969-12-31 23:59:59.999999+00,null,""',
      ',,,,,,,',
      't,1,1,Infinity,infinity,-infinity,[], ',
      '',
    ].join('\r\n'),
  )
  expect(readFileSync(await written('csv', COLUMNS.slice(0, 2), []), 'utf8')).toBe('flag,small\r\n')
})

test('NDJSON: one object in each line, also of far more than is written at once, and nothing without rows', async () => {
  expect(readFileSync(await written('ndjson', COLUMNS, ROWS), 'utf8')).toBe(
    ROWS.map(({ json }) => `${json}\n`).join(''),
  )
  const many = Array.from({ length: 3_000 }, (_, n) => row(`${n} ${'x'.repeat(60)}`))
  expect(readFileSync(await written('ndjson', [], many), 'utf8')).toBe(
    many.map(({ json }) => `${json}\n`).join(''),
  )
  expect(readFileSync(await written('ndjson', COLUMNS, []), 'utf8')).toBe('')
})

test('Parquet: each kind has a type of its own, and a value that the type cannot hold is null', async () => {
  const file = await asyncBufferFromFile(await written('parquet', COLUMNS, ROWS))
  const { schema, created_by, num_rows } = await parquetMetadataAsync(file)
  expect([created_by, num_rows]).toEqual(['intake-sync', 4n])
  expect(schema).toMatchObject([
    { name: 'root', num_children: 8 },
    { name: 'flag', type: 'BOOLEAN' },
    { name: 'small', type: 'INT32' },
    { name: 'large', type: 'INT64' },
    { name: 'share', type: 'DOUBLE' },
    { name: 'day', type: 'INT32', converted_type: 'DATE' },
    {
      ...{ name: 'at', type: 'INT64', converted_type: 'TIMESTAMP_MICROS' },
      logical_type: { type: 'TIMESTAMP', isAdjustedToUTC: true, unit: 'MICROS' },
    },
    { name: 'tree', type: 'BYTE_ARRAY', converted_type: 'UTF8' },
    { name: 'words', type: 'BYTE_ARRAY', converted_type: 'UTF8' },
  ])
  for (const column of schema.slice(1)) expect(column.repetition_type).toBe('OPTIONAL')
  const rows = await parquetReadObjects({
    file,
    parsers: { timestampFromMicroseconds: (micros: bigint) => micros, dateFromDays: (days: number) => days },
  })
  const of = (...cells: unknown[]) => Object.fromEntries(COLUMNS.map(({ name }, at) => [name, cells[at]]))
  expect(rows).toEqual([
    of(true, -7, 9007199254740993n, 12.5, 20512, 1772319600500000n, '{"a": 1}', 'a"b,\r\nü'),
    of(false, 0, -1n, Number.NaN, -1, -1n, 'null', ''),
    of(null, null, null, null, null, null, null, null),
    of(true, 1, 1n, Number.POSITIVE_INFINITY, null, null, '[]', ' '),
  ])
})

test('Parquet: ten thousand rows are compressed together, and all are there', async () => {
  const many = Array.from({ length: 10_001 }, (_, n) => row(`${n}`))
  const file = await asyncBufferFromFile(await written('parquet', COLUMNS.slice(7), many))
  const { row_groups } = await parquetMetadataAsync(file)
  expect(row_groups.map(({ num_rows }) => num_rows)).toEqual([10_000n, 1n])
  const rows = await parquetReadObjects({ file })
  expect(rows.map(({ words }) => words)).toEqual(many.map(({ values }) => values[0]))
})

test.each(FORMATS)(
  '%s: the file is for its owner only, and one that is there stays as it is',
  async (format) => {
    const path = await written(format, COLUMNS, ROWS)
    expect(statSync(path).mode & 0o777).toBe(0o600)
    writeFileSync(path, 'of somebody')
    await expect(WRITERS[format](path, COLUMNS, given(ROWS))).rejects.toThrow('EEXIST')
    expect(readFileSync(path, 'utf8')).toBe('of somebody')
  },
)

test.each(FORMATS)('%s: rows that cannot be read further make the file fail', async (format) => {
  async function* failing(): AsyncGenerator<Row> {
    yield ROWS[0]!
    throw new Error('no further row')
  }
  const path = placeOf('failing')
  await expect(WRITERS[format](path, COLUMNS, failing())).rejects.toThrow('no further row')
  // It was opened before, and is closed now: none appears where a folder was removed meanwhile.
  expect(existsSync(path)).toBe(true)
})
