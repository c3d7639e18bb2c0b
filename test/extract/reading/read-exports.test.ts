/** Exports in the warehouse: every cell of every file in its place, written once. */
import { beforeEach, describe, expect, test } from 'vitest'
import { createTestDatabase, type TestDatabase } from '../../support/database.ts'
import {
  type FileService,
  HEADER,
  query,
  rowVersions,
  runExports,
  shownTables,
  startFileService,
} from './run.ts'

let database: TestDatabase
let service: FileService

beforeEach(async () => {
  database = await createTestDatabase()
  service = await startFileService()
  return async () => {
    await service[Symbol.asyncDispose]()
    await database.drop()
  }
})

const run = (options = {}) => runExports(service.url, database.url, options)
const rows = (text: string) => query(database.url, text)

describe('a file', () => {
  test('is stored by position: the leading columns, the titles and every cell that is not empty', async () => {
    service.entries = [
      {
        id: 'e1',
        name: 'PHQ-9 export',
        form: { id: 'f1', name: 'PHQ-9' },
        created_at: '2026-01-01T00:00:00Z',
      },
    ]
    const long = 'x'.repeat(3_000)
    service.put(
      'e1',
      `${HEADER},Name,Name,,First Name,${long}\r\n` +
        `p1,Ann,Lee,ann@example.com,2026-01-02 10:00:00.123456,2026-01-03 11:00:00,True,a,b,c,d,e\r\n` +
        `p2,,,,,,false,,"say ""ü""\n",,  ,\r\n`,
    )
    const { tally, note } = await run()
    expect(note).toEqual({ text: null, attention: false })
    expect(tally).toMatchObject({ fetched: 1, changed: 1, unchanged: 0, deadLetters: 0, problems: 0 })
    expect(
      await rows('select id, name, form_id, form_name, created_at, _problems, _extra from intake.exports'),
    ).toEqual([
      {
        id: 'e1',
        name: 'PHQ-9 export',
        form_id: 'f1',
        form_name: 'PHQ-9',
        created_at: new Date('2026-01-01T00:00:00Z'),
        _problems: null,
        _extra: null,
      },
    ])
    expect(await rows('select position, title from intake.export_columns order by 1')).toEqual(
      ['Name', 'Name', '', 'First Name', long].map((title, at) => ({ position: at + 8, title })),
    )
    expect(
      await rows(
        `select row_number, client_id, first_name, last_name, email, sent_at::text, completed_at::text, archived
         from intake.export_rows order by 1`,
      ),
    ).toEqual([
      {
        row_number: 1,
        client_id: 'p1',
        first_name: 'Ann',
        last_name: 'Lee',
        email: 'ann@example.com',
        sent_at: '2026-01-02 10:00:00.123456+00',
        completed_at: '2026-01-03 11:00:00+00',
        archived: true,
      },
      {
        row_number: 2,
        client_id: 'p2',
        first_name: null,
        last_name: null,
        email: null,
        sent_at: null,
        completed_at: null,
        archived: false,
      },
    ])
    expect(await rows('select row_number, position, value from intake.export_cells order by 1, 2')).toEqual([
      ...['a', 'b', 'c', 'd', 'e'].map((value, at) => ({ row_number: 1, position: at + 8, value })),
      { row_number: 2, position: 9, value: 'say "ü"\n' },
      { row_number: 2, position: 11, value: '  ' },
    ])
  })

  test('with seven hundred columns, only a header, less than a header, or no bytes is read as such', async () => {
    const titles = Array.from({ length: 693 }, (_, at) => `Q${at}`)
    service.put('wide', `${HEADER},${titles.join()}\np1,,,,,,,${titles.join()}\n`)
    service.put('bare', `${HEADER}`)
    service.put('short', 'Client ID,First Name\np1,Ann\np2\n')
    service.put('empty', '')
    await run()
    const counted = await rows(`
      select id, (select count(*)::int from intake.export_columns c where c.export_id = id) as columns,
        (select count(*)::int from intake.export_rows r where r.export_id = id) as rows,
        (select count(*)::int from intake.export_cells x where x.export_id = id) as cells,
        (select array_agg(p ->> 'path' || ': ' || (p ->> 'reason')) from jsonb_array_elements(_problems) p) as problems
      from intake.exports order by id`)
    const titled =
      'raw_text.header: the leading columns are not titled as specified; they were read by their place'
    expect(counted).toEqual([
      { id: 'bare', columns: 0, rows: 0, cells: 0, problems: null },
      {
        id: 'empty',
        columns: 0,
        rows: 0,
        cells: 0,
        problems: ['raw_text.header: the file is empty: it has no header'],
      },
      { id: 'short', columns: 0, rows: 2, cells: 0, problems: [titled] },
      { id: 'wide', columns: 693, rows: 1, cells: 693, problems: null },
    ])
    expect(
      await rows(`select client_id, first_name from intake.export_rows where export_id = 'short' order by 1`),
    ).toEqual([
      { client_id: 'p1', first_name: 'Ann' },
      { client_id: 'p2', first_name: null },
    ])
  })

  test('with leading columns in another order is read by position, with a note', async () => {
    service.put(
      'e1',
      `client id,FIRST  NAME,Last Name,Email,Archived,Sent at,Completed at,Q\np1,A,B,c,True,x,y,1\n`,
    )
    await run()
    const [{ problems } = { problems: null }] = await rows('select _problems as problems from intake.exports')
    expect(problems).toEqual([
      {
        path: 'raw_text.header',
        reason: 'the leading columns are not titled as specified; they were read by their place',
        original: ['client id', 'FIRST  NAME', 'Last Name', 'Email', 'Archived', 'Sent at', 'Completed at'],
      },
      { path: 'raw_text.rows[1].sent_at', reason: expect.stringContaining('not a time'), original: 'True' },
      { path: 'raw_text.rows[1].completed_at', reason: expect.stringContaining('not a time'), original: 'x' },
      { path: 'raw_text.rows[1].archived', reason: 'not True or False', original: 'y' },
    ])
    expect(await rows('select path, reason, count from intake_ops.problems order by 1')).toHaveLength(4)
  })

  test('whose rows are longer than the header keeps those cells, in columns without a title, with a note', async () => {
    service.put('e1', `${HEADER},Q\np1,,,,,,,a,b\np2,,,,,,,a,,,d\np3,,,,,,,a,b,c\n`)
    await run()
    expect(await rows('select position, title from intake.export_columns order by 1')).toEqual([
      { position: 8, title: 'Q' },
      { position: 9, title: null },
      { position: 10, title: null },
      { position: 11, title: null },
    ])
    expect(
      await rows(
        'select row_number, position, value from intake.export_cells where position > 8 order by 1, 2',
      ),
    ).toEqual([
      { row_number: 1, position: 9, value: 'b' },
      { row_number: 2, position: 11, value: 'd' },
      { row_number: 3, position: 9, value: 'b' },
      { row_number: 3, position: 10, value: 'c' },
    ])
    const [{ paths } = { paths: [] }] = await rows(
      `select array(select p ->> 'path' from jsonb_array_elements(_problems) p) as paths from intake.exports`,
    )
    expect(paths).toEqual(['raw_text.rows[1]', 'raw_text.rows[2]'])
  })

  test('with characters that Postgres cannot store shows them escaped, cell by cell', async () => {
    const bytes = Buffer.from(`${HEADER},Q\x96,é\np\0,A\x96,B,C,D,E,x\x96,a\x96,\xc3\xa9\n`, 'latin1')
    service.put('e1', bytes.subarray(0))
    service.put('e2', JSON.stringify(`${HEADER},Q\ud83d\n`), 'application/json')
    await run()
    expect(await rows('select export_id, title from intake.export_columns order by 1, position')).toEqual([
      { export_id: 'e1', title: 'Q\\x96' },
      { export_id: 'e1', title: '\\xe9' },
      { export_id: 'e2', title: 'Q\\ud83d' },
    ])
    expect(await rows('select client_id, first_name, archived from intake.export_rows')).toEqual([
      { client_id: 'p\\u0000', first_name: 'A\\x96', archived: null },
    ])
    expect(await rows('select value from intake.export_cells order by position')).toEqual([
      { value: 'a\\x96' },
      { value: 'é' },
    ])
    const [{ problems } = { problems: [] }] = await rows(
      `select array(select p ->> 'path' from jsonb_array_elements(_problems) p) as problems from intake.exports order by id`,
    )
    expect(problems).toEqual([
      'raw_text.header[8]',
      'raw_text.header[9]',
      'raw_text.rows[1].client_id',
      'raw_text.rows[1].first_name',
      'raw_text.rows[1].sent_at',
      'raw_text.rows[1].completed_at',
      'raw_text.rows[1].archived',
      'raw_text.rows[1].archived',
      'raw_text.rows[1][8]',
    ])
  })

  test('with a problem in every row lists a thousand of them, and their total number', async () => {
    service.put('e1', `${HEADER}\n${'p,,,,never,,\n'.repeat(1_500)}`)
    const { tally } = await run()
    expect(tally.problems).toBe(1_500)
    const [{ count, last } = { count: 0, last: null }] = await rows(
      `select jsonb_array_length(_problems) as count, _problems -> -1 as last from intake.exports`,
    )
    expect(count).toBe(1_001)
    expect(last).toMatchObject({ path: 'raw_text', original: 1_500 })
    expect(await rows('select path, count from intake_ops.problems')).toEqual([
      { path: 'raw_text.rows[].sent_at', count: '1500' },
    ])
  })
})

describe('a file that is read again', () => {
  const text = `${HEADER},Q\np1,Ann,,,,,,one\np2,Bo,,,,,maybe,two\n`

  test('unchanged writes nothing', async () => {
    service.put('e1', text)
    service.put('e2', '')
    await run()
    const before = await rowVersions(database.url)
    const { tally, requests } = await run()
    expect(tally).toMatchObject({ fetched: 2, changed: 0, unchanged: 2, problems: 0 })
    expect(requests).toBe(3)
    expect(await rowVersions(database.url)).toEqual(before)
  })

  test('changed replaces the earlier one, as a fresh load would', async () => {
    service.put('e1', text)
    await run()
    service.put('e1', `${HEADER},Q,R\np2,Bo,,,,,True,,zwei\n`)
    const { tally } = await run()
    expect(tally).toMatchObject({ changed: 1, unchanged: 0 })
    await using fresh = await createTestDatabase()
    await runExports(service.url, fresh.url)
    expect(await shownTables(database.url)).toEqual(await shownTables(fresh.url))
    expect(await rows('select convert_from(body, $$UTF8$$) as text from intake_raw.export_chunks')).toEqual([
      { text: `${HEADER},Q,R\np2,Bo,,,,,True,,zwei\n` },
    ])
  })

  test('with only its list entry changed keeps its cells, and its problems along with those of the entry', async () => {
    service.put('e1', text)
    await run()
    service.entries = [{ id: 'e1', name: 'renamed', created_at: 'never' }]
    const { tally } = await run()
    expect(tally).toMatchObject({ changed: 1, unchanged: 0 })
    const [row] = await rows(
      `select name, array(select p ->> 'path' from jsonb_array_elements(_problems) p) as paths from intake.exports`,
    )
    expect(row).toEqual({ name: 'renamed', paths: ['created_at', 'raw_text.rows[2].archived'] })
    expect(await rows('select value from intake.export_cells order by 1')).toHaveLength(2)
    const before = await rowVersions(database.url)
    await run()
    expect(await rowVersions(database.url)).toEqual(before)
  })

  test('in another time zone, or with another version, is loaded again although its bytes are the same', async () => {
    service.put('e1', `${HEADER}\np1,,,,2026-07-01 12:00:00,,\n`)
    const sent = async () => (await rows('select sent_at::text as at from intake.export_rows'))[0]
    await run()
    expect(await sent()).toEqual({ at: '2026-07-01 12:00:00+00' })
    expect((await run({ timezone: 'Europe/Berlin' })).tally.changed).toBe(1)
    expect(await sent()).toEqual({ at: '2026-07-01 10:00:00+00' })
    const other = { timezone: 'Europe/Berlin', client: { apiVersion: '' } }
    expect((await run(other)).tally.changed).toBe(1)
    expect((await run(other)).tally.changed).toBe(0)
  })

  test('by a dry run is compared and reported, and nothing is written', async () => {
    service.put('e1', text)
    expect((await run({ dry: true })).tally).toMatchObject({ fetched: 1, changed: 1 })
    await run()
    const before = await rowVersions(database.url)
    expect((await run({ dry: true })).tally).toMatchObject({ changed: 0, unchanged: 1 })
    service.put('e1', `${text}p3\n`)
    service.put('e2', text)
    service.entries = [...service.entries].reverse()
    expect((await run({ dry: true })).tally).toMatchObject({ fetched: 2, changed: 2, unchanged: 0 })
    expect(await rowVersions(database.url)).toEqual(before)
  })
})
