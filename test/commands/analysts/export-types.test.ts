/** `export`: a column of each type, with values at its limits and without one, in each format. */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { parse } from 'csv-parse/sync'
import { asyncBufferFromFile, parquetReadObjects } from 'hyparquet'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { openWarehouse, query } from '../../e2e/support/scene.ts'
import type { TestDatabase } from '../../support/database.ts'
import { makeFolder, removeFolder } from '../../support/folders.ts'
import { runCommand } from '../../support/run-command.ts'

let warehouse: TestDatabase
let folder: string
beforeAll(async () => {
  warehouse = await openWarehouse()
  await query(warehouse.url, `insert into intake.teams (name) values ('north')`)
  folder = makeFolder('export-types-')
})
afterAll(async () => {
  removeFolder(folder)
  await warehouse.drop()
})

/** Of each type: a value, how Postgres writes it, as JSON, and as Parquet has it. */
const TYPES: readonly (readonly [
  type: string,
  value: string,
  csv: string,
  json: unknown,
  parquet: unknown,
])[] = [
  ['boolean', 'true', 't', true, true],
  ['boolean', 'false', 'f', false, false],
  ['smallint', '-32768', '-32768', -32768, -32768],
  ['integer', '2147483647', '2147483647', 2147483647, 2147483647],
  ['integer', '-2147483648', '-2147483648', -2147483648, -2147483648],
  ['bigint', '-9223372036854775808', '-9223372036854775808', -(2 ** 63), -(2n ** 63n)],
  ['real', '1.5', '1.5', 1.5, 1.5],
  ['double precision', '-0.1', '-0.1', -0.1, -0.1],
  ['double precision', 'NaN', 'NaN', 'NaN', Number.NaN],
  ['numeric', '12.30', '12.30', 12.3, 12.3],
  ['numeric(6,2)', '-0.5', '-0.50', -0.5, -0.5],
  ['date', '2026-02-28', '2026-02-28', '2026-02-28', '2026-02-28'],
  ['date', '1969-12-30', '1969-12-30', '1969-12-30', '1969-12-30'],
  [
    'timestamp with time zone',
    '2026-03-01 00:30:00+01',
    '2026-02-28 23:30:00+00',
    '2026-02-28T23:30:00+00:00',
    1772321400000000n,
  ],
  [
    'timestamp without time zone',
    '2026-03-01 00:30:00.5',
    '2026-03-01 00:30:00.5',
    '2026-03-01T00:30:00.5',
    '2026-03-01 00:30:00.5',
  ],
  ['time without time zone', '01:02:03', '01:02:03', '01:02:03', '01:02:03'],
  ['interval', '26 hours', '26:00:00', '26:00:00', '26:00:00'],
  ['json', '{"b":1,  "a":2}', '{"b":1,  "a":2}', { b: 1, a: 2 }, '{"b":1,  "a":2}'],
  ['jsonb', '{"b":1,  "a":2}', '{"a": 2, "b": 1}', { a: 2, b: 1 }, '{"a": 2, "b": 1}'],
  ['jsonb', 'null', 'null', null, 'null'],
  ['text', 'null', 'null', 'null', 'null'],
  ['text', '', '', '', ''],
  ['text', ' a;b\r\n"c", d ', ' a;b\r\n"c", d ', ' a;b\r\n"c", d ', ' a;b\r\n"c", d '],
  ['character varying(5)', 'Zoë', 'Zoë', 'Zoë', 'Zoë'],
  ['text[]', '{a,"b c",NULL}', '{a,"b c",NULL}', ['a', 'b c', null], '{a,"b c",NULL}'],
  ['integer[]', '{}', '{}', [], '{}'],
  ['bytea', '\\x00ff', '\\x00ff', '\\x00ff', '\\x00ff'],
  [
    'uuid',
    '6f0d2c11-93a4-4d7e-8f10-2b3c4d5e6f70',
    '6f0d2c11-93a4-4d7e-8f10-2b3c4d5e6f70',
    '6f0d2c11-93a4-4d7e-8f10-2b3c4d5e6f70',
    '6f0d2c11-93a4-4d7e-8f10-2b3c4d5e6f70',
  ],
]

/** A row without values between two rows of them. */
const TEXT = [1, null, 2]
  .map(
    (n) =>
      `select ${n ?? 0} as n, ${TYPES.map(([type, value], at) =>
        n === null ? `null::${type} as c${at}` : `E'${value.replaceAll('\\', '\\\\')}'::${type} as c${at}`,
      ).join(', ')}`,
  )
  .join(' union all ')

async function exported(...words: readonly string[]) {
  const file = join(folder, 'types.sql')
  writeFileSync(file, TEXT)
  const out = join(folder, words.join('-') || 'plain')
  const ended = await runCommand(['export', '--sql', file, ...words, '--out', out], {
    DATABASE_URL: warehouse.url,
  })
  expect(ended).toMatchObject({ code: 0, stderr: '' })
  return { out, stdout: ended.stdout, manifest: JSON.parse(readFileSync(join(out, 'manifest.json'), 'utf8')) }
}

const rowsWith = <Value>(place: 2 | 3 | 4, nothing: Value, first: (n: number) => unknown) =>
  [1, null, 2].map((n) => [first(n ?? 0), ...TYPES.map((type) => (n === null ? nothing : type[place]))])

it.each(['csv', 'ndjson', 'parquet'])('the manifest names the types of Postgres: %s', async (format) => {
  const { manifest, stdout } = await exported('--format', format, '--by-day', 'c11')
  expect(manifest.columns).toEqual([
    { name: 'n', type: 'integer' },
    ...TYPES.map(([type], at) => ({ name: `c${at}`, type })),
  ])
  expect([manifest.format, manifest.rows, stdout]).toEqual([format, 3, '3 rows in 2 files\n'])
  expect(manifest.files.map(({ file, rows }: { file: string; rows: number }) => [file, rows])).toEqual([
    [`day=2026-02-28/data.${format}`, 2],
    [`day=__HIVE_DEFAULT_PARTITION__/data.${format}`, 1],
  ])
})

it('CSV has each value as Postgres writes it', async () => {
  const { out } = await exported('--format', 'csv')
  const rows = parse(readFileSync(join(out, 'data.csv')), {
    from: 2,
    cast: (text, { quoting }) => (text === '' && !quoting ? null : text),
  })
  expect(rows).toEqual(rowsWith(2, null, String))
})

it('NDJSON has each value as JSON', async () => {
  const { out } = await exported('--format', 'ndjson')
  const lines = readFileSync(join(out, 'data.ndjson'), 'utf8').trimEnd().split('\n')
  expect(lines.map((line) => Object.values(JSON.parse(line)))).toEqual(rowsWith(3, null, Number))
})

it('Parquet has each value in its own type', async () => {
  const { out } = await exported('--format', 'parquet')
  const file = await asyncBufferFromFile(join(out, 'data.parquet'))
  const day = (days: number) => new Date(days * 86_400_000).toISOString().slice(0, 10)
  const rows = await parquetReadObjects({
    file,
    parsers: { timestampFromMicroseconds: (at: bigint) => at, dateFromDays: day } as never,
  })
  expect(rows.map((row) => Object.values(row))).toEqual(rowsWith(4, null, Number))
})
