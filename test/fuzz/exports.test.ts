/** Every cell of an export is in its table, or the file is a dead letter with a reason: none is lost, none invented. */
import fc from 'fast-check'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { independently } from '../extract/reading/reading.ts'
import { type FileService, HEADER, query, runExports, startFileService } from '../extract/reading/run.ts'
import { createTestDatabase, type TestDatabase } from '../support/database.ts'
import { holds, PATIENCE } from './budget.ts'
import { anyText, csvFiles, damaged } from './corpora.ts'

let database: TestDatabase
let service: FileService
let files = 0

beforeAll(async () => {
  database = await createTestDatabase()
  service = await startFileService()
})

afterAll(async () => {
  await service[Symbol.asyncDispose]()
  await database.drop()
})

const LEADING = HEADER.split(',').length

/** Serves files, reads them in one run, and returns the stored content of each. */
async function readAll(all: readonly { readonly bytes: Buffer; readonly type: string }[]) {
  const names = all.map(({ bytes, type }) => {
    const name = `f${++files}`
    service.put(name, bytes, type)
    return name
  })
  await runExports(service.url, database.url)
  // Only those of this case are listed; earlier ones are missed, and never looked at again.
  service.entries = []
  service.files.clear()
  return await Promise.all(names.map(storedFile))
}

interface StoredFile {
  readonly reasons: readonly string[]
  readonly titles: readonly (string | null)[]
  /** The cells by row and position; including the leading ones, as shown. */
  readonly rows: readonly Readonly<Record<number, string>>[]
  /** Paths of problems, below `raw_text`. */
  readonly problems: ReadonlySet<string>
}

async function storedFile(name: string): Promise<StoredFile> {
  const reasons = await query<{ reason: string }>(
    database.url,
    `select reason from intake_ops.dead_letters where stream = 'exports' and record_id = $1 and status = 'waiting'`,
    [name],
  )
  const titles = await query<{ position: number; title: string | null }>(
    database.url,
    'select position, title from intake.export_columns where export_id = $1 order by position',
    [name],
  )
  expect(titles.map(({ position }) => position)).toEqual(titles.map((_, at) => at + LEADING + 1))
  const rows = await query<{ number: number; cells: Record<number, string> }>(
    database.url,
    `select r.row_number as number, jsonb_strip_nulls(jsonb_build_object(
         '1', client_id, '2', first_name, '3', last_name, '4', email, '5', sent_at, '6', completed_at, '7', archived))
       || coalesce((select jsonb_object_agg(position, value) from intake.export_cells c
          where (c.team_id, c.export_id, c.row_number) = (r.team_id, r.export_id, r.row_number)), '{}') as cells
     from intake.export_rows r where export_id = $1 order by row_number`,
    [name],
  )
  expect(rows.map(({ number }) => number)).toEqual(rows.map((_, at) => at + 1))
  const problems = await query<{ path: string }>(
    database.url,
    `select jsonb_array_elements(_problems) ->> 'path' as path from intake.exports where id = $1 and _problems is not null`,
    [name],
  )
  return {
    reasons: reasons.map(({ reason }) => reason),
    titles: titles.map(({ title }) => title),
    rows: rows.map(({ cells }) => cells),
    problems: new Set(problems.map(({ path }) => path.replace(/^raw_text\./, ''))),
  }
}

const LEADING_NAMES = ['client_id', 'first_name', 'last_name', 'email', 'sent_at', 'completed_at', 'archived']

/** Compares the stored content with known records; `visible` is a cell as the warehouse can store it. */
function expectStored(found: StoredFile, records: readonly (readonly string[])[]): void {
  const [header = [], ...body] = records
  expect(found.reasons).toEqual([])
  const width = Math.max(LEADING, ...records.map((record) => record.length))
  expect(found.titles).toEqual(
    Array.from({ length: width - LEADING }, (_, at) => header[at + LEADING] ?? null),
  )
  expect(found.rows).toHaveLength(body.length)
  for (const [at, record] of body.entries()) {
    const row = found.rows[at]!
    const positions = Object.keys(row).map(Number)
    const own = record.flatMap((cell, place) => (cell === '' ? [] : [place + 1]))
    // Nothing that is not in the file; and everything in the file, except unreadable times and flags, which are problems.
    expect(own).toEqual(expect.arrayContaining(positions))
    for (const position of own) {
      const cell = record[position - 1]!
      if (position <= 4 || position > LEADING)
        expect(row[position], `row ${at + 1}, cell ${position}`).toBe(cell)
      else if (row[position] === undefined)
        expect(found.problems).toContain(`rows[${at + 1}].${LEADING_NAMES[position - 1]}`)
    }
  }
}

const plain = anyText.map((text) => text.replaceAll('\0', '').toWellFormed())
const cell = fc.oneof(
  { weight: 3, arbitrary: plain },
  fc.constantFrom(
    '',
    ' ',
    '"',
    '""',
    ',',
    '\r',
    '\n',
    '\r\n',
    '\r\r\n',
    '\ufeff',
    '\\N',
    '\\.',
    '\t',
    "'",
    '\x7f',
    '\u2028',
    '=1+1',
  ),
  fc.integer({ min: 1, max: 3_000 }).map((length) => '"é,\r\n'.repeat(length).slice(0, length)),
)
const leading = fc.tuple(
  cell,
  cell,
  cell,
  cell,
  fc.oneof(fc.constantFrom('2026-03-01 10:11:12.131415', '', '2026-02-30 00:00:00', '1 March'), cell),
  fc.oneof(
    fc.constantFrom('2026-03-01 10:11:12', '', '0001-01-01 00:00:00.000001', '9999-12-31 23:59:59.999999'),
    cell,
  ),
  fc.oneof(fc.constantFrom('True', 'False', '', 'yes'), cell),
)
const table = fc
  .record({
    titles: fc.array(cell, { maxLength: 5 }),
    rows: fc.array(
      fc.tuple(leading, fc.array(cell, { maxLength: 7 })).map(([first, rest]) => [...first, ...rest]),
      { maxLength: 6 },
    ),
  })
  .map(({ titles, rows }) => [[...HEADER.split(','), ...titles], ...rows])

const LINE_ENDS = ['\n', '\r\n', '\r', '\r\r\n']

/** How a table may be written: every cell quoted, or only those that need it; with any line ends. */
const writing = fc.record({
  table,
  quoteAll: fc.boolean(),
  ends: fc.array(fc.constantFrom(...LINE_ENDS), { minLength: 1, maxLength: 3 }),
  blanks: fc.nat(2),
  lastEnd: fc.boolean(),
  bom: fc.boolean(),
  asJson: fc.boolean(),
})

type Writing = typeof writing extends fc.Arbitrary<infer T> ? T : never

function written({ table: records, quoteAll, ends, blanks, lastEnd, bom, asJson }: Writing): Buffer {
  const quoted = (text: string) =>
    quoteAll || /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text
  const lines = records.map((record, at) => {
    const end = ends[at % ends.length]!
    const isLast = at === records.length - 1
    return record.map(quoted).join() + (isLast && !lastEnd ? '' : end + (isLast ? end.repeat(blanks) : ''))
  })
  const text = (bom ? '\ufeff' : '') + lines.join('')
  return Buffer.from(asJson ? JSON.stringify(text) : text)
}

it('any cell content, in any valid notation, is in the table', PATIENCE, async () => {
  await holds(
    fc.asyncProperty(fc.array(writing, { minLength: 1, maxLength: 12 }), async (all) => {
      const found = await readAll(
        all.map((each) => ({ bytes: written(each), type: each.asJson ? 'application/json' : 'text/csv' })),
      )
      for (const [at, each] of all.entries()) expectStored(found[at]!, each.table)
    }),
    7,
  )
})

/** A foreign file, behind the seven leading columns of this service. */
const foreign = fc
  .constantFrom(...(csvFiles.length > 0 ? csvFiles : [Buffer.from('a,b\n1,"2"\n')]))
  .map((bytes) => Buffer.concat([Buffer.from(`${HEADER},`), bytes]))
const ruined = fc.oneof(
  damaged(writing.map((each) => written({ ...each, asJson: false, bom: false }))),
  damaged(foreign),
)

it(
  'for a damaged file, every cell that an independent reader finds is in the table, or the file is a dead letter',
  PATIENCE,
  async () => {
    const outcomes = { read: 0, aside: 0 }
    await holds(
      // The other reader takes a NUL after a closing quote for the end of the file.
      fc.asyncProperty(
        fc.array(
          ruined.filter((bytes) => !bytes.includes(0) && bytes[0] !== 0xef),
          { minLength: 4, maxLength: 16 },
        ),
        async (all) => {
          const found = await readAll(all.map((bytes) => ({ bytes, type: 'text/csv' })))
          for (const [at, bytes] of all.entries()) {
            const records = independently(bytes)
            if (records === null) {
              outcomes.aside += 1
              expect(found[at]!.reasons).toEqual([expect.stringContaining('the file is malformed: ')])
              expect([...found[at]!.rows, ...found[at]!.titles]).toEqual([])
            } else {
              outcomes.read += 1
              expectStored(found[at]!, records)
            }
          }
        },
      ),
      7,
    )
    expect(Math.min(outcomes.read, outcomes.aside)).toBeGreaterThan(0)
  },
)
