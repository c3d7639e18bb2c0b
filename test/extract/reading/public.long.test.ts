/** Public survey files, put behind the seven leading columns: the warehouse has them cell by cell. */
import { readdirSync, readFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { realData, realDataMissing, reasonWhenMissing } from '../../emulator/real-data.ts'
import { createTestDatabase, type TestDatabase } from '../../support/database.ts'
import { independently } from './reading.ts'
import { type FileService, HEADER, query, runExports, startFileService } from './run.ts'

/** Its cells contain bare quotes: malformed by our rules. */
const MALFORMED = 'location_coordinates'

const everything = realDataMissing
  ? []
  : ['surveys', 'csv'].flatMap((folder) =>
      readdirSync(realData(folder), { recursive: true, withFileTypes: true })
        .filter((entry) => entry.isFile())
        .map(({ parentPath, name }) => relative(realData('.'), join(parentPath, name)))
        .sort(),
    )
const names = everything.filter((name) => /\.[ct]sv$/i.test(name))
/** Files whose authors publish the content as JSON too. */
const withJson = everything.filter((name) => name.endsWith('.json') && !name.includes(MALFORMED))

/** The file as an export of this service: every record begins with seven more cells. */
function asExport(bytes: Buffer): Buffer {
  const records = independently(bytes)
  if (records === null) return Buffer.concat([Buffer.from(`${HEADER},`), bytes])
  // Bytes that are not UTF-8 stay in the file: only the beginnings of records are added.
  const latin1 = records.length === 0 ? [] : recordsAsTheyStand(bytes)
  return Buffer.from(
    latin1.map((record, at) => `${at === 0 ? HEADER : `p${at},,,,,,False`},${record}`).join(''),
    'latin1',
  )
}

/** The file cut before each record, as latin1. */
function recordsAsTheyStand(bytes: Buffer): readonly string[] {
  const text = bytes.toString('latin1').replace(/^\xef\xbb\xbf/, '')
  const records: string[] = []
  let quoted = false
  let from = 0
  for (let at = 0; at < text.length; at++) {
    if (text[at] === '"') quoted = !quoted
    else if (!quoted && (text[at] === '\n' || (text[at] === '\r' && text[at + 1] !== '\n'))) {
      records.push(text.slice(from, at + 1))
      from = at + 1
    }
  }
  records.push(text.slice(from))
  return records.filter((record) => /[^\r\n]/.test(record))
}

describe.skipIf(realDataMissing)(`public files${reasonWhenMissing}`, () => {
  let database: TestDatabase
  let service: FileService
  const files = new Map(names.map((name) => [name, asExport(readFileSync(realData(name)))]))

  beforeAll(async () => {
    database = await createTestDatabase()
    service = await startFileService()
    for (const [name, bytes] of files) service.put(name, bytes)
    await runExports(service.url, database.url)
  })
  afterAll(async () => {
    await service[Symbol.asyncDispose]()
    await database.drop()
  })

  test('all of them exist', async () => {
    expect(names.length).toBeGreaterThan(250)
    const others = everything.filter((name) => !names.includes(name) && !/\.json$/.test(name))
    expect(others.filter((name) => !/\.md$|\/(?:LICENSE\w*|COPYING)$/.test(name))).toEqual([])
    const [row] = await query(database.url, 'select count(*)::int as exports from intake.exports')
    expect(row).toEqual({ exports: names.length })
  })

  test.each(withJson)('%s is read as its JSON says', async (name) => {
    const file = name.replace('/json/', '/csvs/').replace(/json$/, 'csv')
    const rows = await query<{ cells: Record<string, string> }>(
      database.url,
      `select jsonb_object_agg(c.title, coalesce(x.value, '')) as cells
       from intake.export_rows r join intake.export_columns c using (team_id, export_id)
       left join intake.export_cells x using (team_id, export_id, row_number, position)
       where r.export_id = $1 group by r.row_number order by r.row_number`,
      [file],
    )
    // Line ends inside a cell are kept as in the file; version control has changed them in these files.
    const normal = (text: string) => JSON.parse(text.replaceAll('\\r\\n', '\\n'))
    expect(normal(JSON.stringify(rows.map(({ cells }) => cells)))).toEqual(
      normal(readFileSync(realData(name), 'utf8')),
    )
  })

  test.each(names)('%s', async (name) => {
    const expected = independently(files.get(name)!)
    const deadLetters = await query(
      database.url,
      `select reason from intake_ops.dead_letters where record_id = $1 and status = 'waiting'`,
      [name],
    )
    if (expected === null) {
      expect(deadLetters).toEqual([{ reason: expect.stringContaining('the file is malformed: ') }])
      return
    }
    expect(deadLetters).toEqual([])
    const [header = [], ...body] = expected
    const width = Math.max(7, ...expected.map((record) => record.length))
    const columns = await query(
      database.url,
      'select position, title from intake.export_columns where export_id = $1 order by 1',
      [name],
    )
    expect(columns).toEqual(
      Array.from({ length: width - 7 }, (_, at) => ({ position: at + 8, title: header[at + 7] ?? null })),
    )
    const rows = await query<{ cells: Record<string, string>; client: string }>(
      database.url,
      `select client_id as client, coalesce((
         select jsonb_object_agg(position, value) from intake.export_cells cell
         where (cell.team_id, cell.export_id, cell.row_number) = (own.team_id, own.export_id, own.row_number)), '{}') as cells
       from intake.export_rows own where export_id = $1 order by row_number`,
      [name],
    )
    expect(rows.length).toBe(body.length)
    for (const [at, record] of body.entries()) {
      const cells = record.flatMap((cell, place) => (place < 7 || cell === '' ? [] : [[place + 1, cell]]))
      expect(rows[at]).toEqual({ client: record[0], cells: Object.fromEntries(cells) })
    }
  })
})
