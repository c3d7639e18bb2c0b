/** The lines that COPY is given for the records of a file: no cell is lost, and what does not fit is in a problem. */
import { describe, expect, test } from 'vitest'
import { type FilePlace, LEADING_COLUMNS, openFileLines } from '../../../src/load/exports/file-lines.ts'
import { openFileProblems } from '../../../src/load/exports/file-problems.ts'

const TITLES = ['Client ID', 'First Name', 'Last Name', 'Email', 'Sent at', 'Completed at', 'Archived']
const HEADER = [...TITLES, 'Mood', 'Pain']
/** A character per byte, as cells are read. */
const bytes = (text: string) => Buffer.from(text).toString('latin1')

/** Lines and problems of records; the first one is the header. */
function linesOf(records: readonly (readonly string[])[], over: Partial<FilePlace> = {}, storable = true) {
  const problems = openFileProblems(3)
  const lines = openFileLines({ teamId: 3, exportId: 'e', fromJson: false, ...over }, problems)
  for (const record of records) lines.add(record.map(bytes), storable)
  const columns = lines.columnLines().toString().split('\n').slice(0, -1)
  return {
    columns: columns.map((line) => line.split('\t')),
    rows: tableOf(lines.rowLines.take()),
    cells: tableOf(lines.cellLines.take()),
    counts: [lines.rows, lines.cells],
    problems: problems.listed(),
    at: [...problems.at].map(([key, times]) => [...(JSON.parse(key) as unknown[]), times]),
  }
}

const tableOf = (lines: Buffer) =>
  lines
    .toString()
    .split('\n')
    .slice(0, -1)
    .map((line) => line.split('\t'))

/** The leading cells of one row, and its problems. */
function rowOf(leading: readonly string[], storable = true) {
  const { rows, problems } = linesOf([HEADER, leading], {}, storable)
  return { cells: rows[0]!.slice(3), problems }
}

test('the leading columns have the names and titles of the contract, in its order', () => {
  expect(LEADING_COLUMNS.map(({ name, title }) => [name, title])).toEqual([
    ['client_id', 'Client ID'],
    ['first_name', 'First Name'],
    ['last_name', 'Last Name'],
    ['email', 'Email'],
    ['sent_at', 'Sent at'],
    ['completed_at', 'Completed at'],
    ['archived', 'Archived'],
  ])
})

test('a file has a line for each title beyond the leading ones, for each row, and for each cell that is not empty', () => {
  const { columns, rows, cells, counts, problems } = linesOf([
    HEADER,
    [
      'c1',
      'Ann',
      'Other',
      'a@example.com',
      '2026-01-02 03:04:05.5',
      '2026-01-02T04:00:00',
      'True',
      'ok',
      '3',
    ],
    ['c2', '', '', '', '', '', '', '', '0'],
    ['c3'],
  ])
  expect(columns).toEqual([
    ['3', 'e', '8', 'Mood'],
    ['3', 'e', '9', 'Pain'],
  ])
  const [sent, completed] = ['2026-01-02 03:04:05.500000', '2026-01-02 04:00:00.000000']
  expect(rows).toEqual([
    ['3', 'e', '1', 'c1', 'Ann', 'Other', 'a@example.com', sent, completed, 't'],
    ['3', 'e', '2', 'c2', ...Array(6).fill('\\N')],
    ['3', 'e', '3', 'c3', ...Array(6).fill('\\N')],
  ])
  expect(cells).toEqual([
    ['3', 'e', '1', '8', 'ok'],
    ['3', 'e', '1', '9', '3'],
    ['3', 'e', '2', '9', '0'],
  ])
  expect([counts, problems]).toEqual([[3, 3], []])
})

test('what has a meaning for COPY, or several bytes, arrives as it is in the file', () => {
  const { columns, rows, cells } = linesOf(
    [
      [...TITLES, 'Q\\é'],
      ['ü\t', '', '', '', '', '', '', 'a\nb😀'],
    ],
    {
      exportId: 'é\\',
    },
  )
  expect(columns).toEqual([['3', 'é\\\\', '8', 'Q\\\\é']])
  expect(rows[0]!.slice(0, 4)).toEqual(['3', 'é\\\\', '1', 'ü\\t'])
  expect(cells).toEqual([['3', 'é\\\\', '1', '8', 'a\\nb😀']])
})

describe('a leading cell', () => {
  test.each([
    ['2026-01-02 03:04:05.678901', '2026-01-02 03:04:05.678901'],
    [' 2026-01-02 03:04:05 ', '2026-01-02 03:04:05.000000'],
    ['2026-01-02T03:04:05', '2026-01-02 03:04:05.000000'],
    ['2026-01-02', '2026-01-02 00:00:00.000000'],
    // One with a zone is that instant, wherever the team is.
    ['2026-01-02 03:04:05Z', '2026-01-02T03:04:05.000000Z'],
    ['2026-01-02T03:04:05z', '2026-01-02T03:04:05.000000Z'],
    ['2026-01-02 03:04:05+01:00', '2026-01-02T02:04:05.000000Z'],
    ['2026-01-02T03:04:05-0130 ', '2026-01-02T04:34:05.000000Z'],
    ['2026-01-02 03:04:05+01', '2026-01-02T02:04:05.000000Z'],
  ])('is a time: %j', (cell, expected) => {
    for (const at of [4, 5]) expect(rowOf(Array(at).fill('').concat(cell)).cells[at]).toBe(expected)
  })

  test.each([
    ['True', 't'],
    [' false ', 'f'],
    ['TRUE', 't'],
  ])('says whether the row is archived: %j', (cell, expected) => {
    expect(rowOf([...Array(6).fill(''), cell])).toEqual({
      cells: [...Array(6).fill('\\N'), expected],
      problems: [],
    })
  })

  test.each([
    [4, 'sent_at', 'soon', 'not a time (YYYY-MM-DD HH:MM:SS.ffffff)'],
    [5, 'completed_at', '2026-02-30 00:00:00', 'not a time (YYYY-MM-DD HH:MM:SS.ffffff)'],
    [6, 'archived', 'já', 'not True or False'],
    [6, 'archived', 'constructor', 'not True or False'],
    [6, 'archived', ' ', 'not True or False'],
  ])('that does not fit column %i is null, and in a problem: %s %j', (at, name, cell, reason) => {
    const row = ['c', '', '', '', '', '', ''].with(at, cell)
    expect(rowOf(row)).toEqual({
      cells: ['c', ...Array(6).fill('\\N')],
      problems: [{ path: `raw_text.rows[1].${name}`, reason, original: cell }],
    })
    expect(linesOf([HEADER, row, row]).at).toEqual([[3, `raw_text.rows[].${name}`, reason, 2]])
  })
})

describe('a file whose titles are not as specified', () => {
  const REASON = 'the leading columns are not titled as specified; they were read by their place'

  test('is read by place, and the problem shows its titles', () => {
    const titles = ['Ñame', ...TITLES.slice(1)]
    const { rows, problems, at } = linesOf([
      [...titles, 'Mood'],
      ['c1', 'Ann'],
    ])
    expect(rows[0]!.slice(3, 5)).toEqual(['c1', 'Ann'])
    expect(at).toEqual([[3, 'raw_text.header', REASON, 1]])
    expect(problems).toEqual([{ path: 'raw_text.header', reason: REASON, original: titles }])
  })

  test('shows titles that cannot be stored visibly', () => {
    const { problems } = linesOf([['a\u0000', ...TITLES.slice(1)]], {}, false)
    expect(problems.map(({ original }) => original)).toEqual([['a\\u0000', ...TITLES.slice(1)]])
  })

  test('without any record has no column, and says so', () => {
    const { columns, problems, at } = linesOf([])
    const reason = 'the file is empty: it has no header'
    expect(columns).toEqual([])
    expect(problems).toEqual([{ path: 'raw_text.header', reason, original: null }])
    expect(at).toEqual([[3, 'raw_text.header', reason, 1]])
  })
})

test('columns beyond the header have lines without a title; a problem says each time that a row is the widest', () => {
  const wide = (width: number) => Array.from({ length: width }, (_, at) => (at < 7 ? '' : `v${at}`))
  const { columns, cells, problems, at } = linesOf([HEADER, wide(9), wide(10), wide(10), wide(12)])
  expect(columns.map(([, , ...line]) => line)).toEqual([
    ['8', 'Mood'],
    ['9', 'Pain'],
    ['10', '\\N'],
    ['11', '\\N'],
    ['12', '\\N'],
  ])
  expect(cells).toHaveLength(2 + 3 + 3 + 5)
  const reason = 'a row has cells beyond the header; their columns have no title'
  expect(problems).toEqual([
    { path: 'raw_text.rows[2]', reason, original: 10 },
    { path: 'raw_text.rows[4]', reason, original: 12 },
  ])
  expect(at).toEqual([[3, 'raw_text.rows[]', reason, 2]])
})

describe('a file that contains what Postgres cannot store', () => {
  const REASON = 'holds what Postgres cannot; written visibly'

  test('has those cells written visibly, with a problem each, and the others unchanged', () => {
    const records = [
      [...TITLES, 'Mo\u0000od', 'Pain'],
      ['c\u0000', 'Ännä', '', '', '', '', '', 'é', '\u0000ö'],
    ]
    const { columns, rows, cells, problems, at } = linesOf(records, {}, false)
    expect(columns.map(([, , ...line]) => line)).toEqual([
      ['8', 'Mo\\\\u0000od'],
      ['9', 'Pain'],
    ])
    expect(rows[0]!.slice(3, 5)).toEqual(['c\\\\u0000', 'Ännä'])
    expect(cells.map(([, , ...line]) => line)).toEqual([
      ['1', '8', 'é'],
      ['1', '9', '\\\\u0000ö'],
    ])
    expect(problems).toEqual([
      { path: 'raw_text.header[8]', reason: REASON, original: 'Mo\\u0000od' },
      { path: 'raw_text.rows[1].client_id', reason: REASON, original: 'c\\u0000' },
      { path: 'raw_text.rows[1][9]', reason: REASON, original: '\\u0000ö' },
    ])
    expect(at).toEqual([
      [3, 'raw_text.header[]', REASON, 1],
      [3, 'raw_text.rows[].client_id', REASON, 1],
      [3, 'raw_text.rows[][]', REASON, 1],
    ])
  })

  test('and that is a JSON string shows lone surrogates as its escapes', () => {
    const surrogate = Buffer.from([0xed, 0xa0, 0xbd]).toString('latin1')
    for (const [fromJson, text] of [
      [true, '\\ud83d'],
      [false, '\\xed\\xa0\\xbd'],
    ] as const) {
      const problems = openFileProblems(3)
      const lines = openFileLines({ teamId: 3, exportId: 'e', fromJson }, problems)
      lines.add([surrogate, ...HEADER.slice(1)], false)
      lines.add([surrogate], false)
      expect(tableOf(lines.rowLines.take())[0]![3]).toBe(text.replaceAll('\\', '\\\\'))
      expect(problems.listed()).toMatchObject([
        { original: [text, ...TITLES.slice(1)] },
        { path: 'raw_text.rows[1].client_id', original: text },
      ])
    }
  })
})

test('a row of an erased patient, or one that is erased in the file, keeps its number and has no lines', () => {
  const erased = ['\u007ferased\u007f']
  const seen: string[][] = []
  const { rows, cells, counts } = linesOf(
    [HEADER, erased, ['c2', ...Array(6).fill(''), 'ok'], ['c3', ...Array(6).fill(''), 'no'], ['c4']],
    {
      isErased: (row) => {
        seen.push([...row])
        return row[0] === 'c3'
      },
    },
  )
  expect(rows.map(([, , number, id]) => [number, id])).toEqual([
    ['2', 'c2'],
    ['4', 'c4'],
  ])
  expect(cells).toEqual([['3', 'e', '2', '8', 'ok']])
  expect([counts, seen.map(([id]) => id)]).toEqual([
    [4, 1],
    ['c2', 'c3', 'c4'],
  ])
})
