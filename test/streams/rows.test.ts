/** What every fixture promises, without a warehouse: the cells that COPY is given, and the columns that take them. */
import { describe, expect, test } from 'vitest'
import { canonicalText } from '../../src/core/canonical.ts'
import { parseText } from '../../src/core/json.ts'
import { mapRecord } from '../../src/normalize/map.ts'
import { withoutPositions } from '../../src/normalize/safe-paths.ts'
import { ALL_STREAMS } from '../../src/streams/catalogue.ts'
import type { Cell } from '../../src/streams/parts/cell.ts'
import type { Stream } from '../../src/streams/stream.ts'
import { type Fixture, loadedOf, type Row, readFixture } from './fixture.ts'
import { FIXTURES, TABLES } from './fixtures/all.ts'

/** A cell, and a value as a fixture promises it, in one form. */
function comparable(value: unknown, type: string): unknown {
  if (value === null || value === undefined) return null
  if (type === 'boolean') return typeof value === 'boolean' ? String(value)[0] : value
  if (type === 'timestamp with time zone')
    return new Date(String(value).replace(/(\.\d{3})\d*/, '$1')).toISOString() + fractionOf(String(value))
  if (type === 'text[]') return arrayText(value)
  // Promised as numbers of JavaScript, which hold fewer digits than the cell.
  if (type === 'numeric') return String(Number(value))
  return String(value)
}

/** What a `Date` leaves out of the microseconds. */
function fractionOf(time: string): string {
  return (/\.\d{3}(\d+)/.exec(time)?.[1] ?? '').replace(/0+$/, '')
}

function arrayText(value: unknown): string {
  if (!Array.isArray(value)) return String(value)
  return `{${value.map((item) => `"${String(item).replace(/["\\]/g, '\\$&')}"`).join()}}`
}

function rowOf(table: string, columns: readonly string[], cells: readonly Cell[]): Row {
  const types = TABLES[table]!.columns
  expect(cells).toHaveLength(columns.length)
  return Object.fromEntries(columns.map((column, at) => [column, comparable(cells[at], types[column]!)]))
}

function promisedRow(table: string, columns: readonly string[], row: Row): Row {
  const types = TABLES[table]!.columns
  expect(columns).toEqual(expect.arrayContaining(Object.keys(row)))
  return Object.fromEntries(columns.map((column) => [column, comparable(row[column], types[column]!)]))
}

describe.each(ALL_STREAMS.map((stream) => ({ name: stream.name, stream })))('$name', ({ name, stream }) => {
  const loading = FIXTURES[name]!.filter((fixture) => !('dead' in fixture.expected))

  test.each(loading.map((fixture) => ({ variant: fixture.name, fixture })))('$variant', ({ fixture }) => {
    check(stream, fixture)
  })

  test('declares every column of its tables, each as its type, and no other', () => {
    const own = stream.columns.map((column) => column.name)
    const declared = Object.keys(TABLES[stream.table]!.columns).filter((each) => !each.startsWith('_'))
    expect(['team_id', 'id', ...own].sort()).toEqual(declared.sort())
    const types = {
      text: 'text',
      reference: 'text',
      boolean: 'boolean',
      time: 'timestamp with time zone',
    } as const
    const others = {
      date: 'date',
      integer: 'integer',
      bigint: 'bigint',
      number: 'numeric',
      texts: 'text[]',
    } as const
    for (const column of stream.columns) {
      const type = TABLES[stream.table]!.columns[column.name]
      expect({ ...types, ...others }[column.type], column.name).toBe(type)
    }
    for (const child of stream.children) {
      const columns = Object.keys(TABLES[child.table]!.columns)
      expect(['team_id', child.parent, ...child.columns].sort()).toEqual(columns.sort())
    }
  })
})

function check(stream: Stream, fixture: Fixture): void {
  const expected = loadedOf(fixture)
  const read = readFixture(stream, fixture, 1)
  if (read.kind === 'dead') throw new Error(`a dead letter: ${read.deadLetter.reason}`)
  const { payload, problems } = read.envelope.content!
  const mapped = mapRecord(stream, payload, problems)
  const own = stream.columns.map((column) => column.name)
  expect(rowOf(stream.table, own, mapped.root)).toEqual(promisedRow(stream.table, own, expected.root))
  for (const [at, { table, columns }] of stream.children.entries()) {
    const rows = mapped.children[at]!.map((cells) => rowOf(table, columns, cells))
    const promised = (expected.children?.[table] ?? []).map((row) => promisedRow(table, columns, row))
    expect(sorted(rows), table).toEqual(sorted(promised))
  }
  const extra = mapped.extra === null ? null : canonicalText(parseText(mapped.extra))
  expect(extra).toBe(expected.extra ?? null)
  expect(mapped.problems.map(({ path, reason }) => [path, reason])).toEqual(expected.problems ?? [])
  const drift = mapped.drift.map(({ path, type }) => `${path} ${type}`).sort()
  expect(drift).toEqual(
    (expected.drift ?? []).map(([path, type]) => `${withoutPositions(path)} ${type}`).sort(),
  )
}

/** Rows of children are keyed by their positions, or their key: they come in any order. */
function sorted(rows: readonly Row[]): readonly string[] {
  return rows.map((row) => JSON.stringify(row)).sort()
}
