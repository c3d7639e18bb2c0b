/** `export`: what a reader may see as files, complete, typed, and without small counts where asked. */
import { createHash } from 'node:crypto'
import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { parse } from 'csv-parse/sync'
import { asyncBufferFromFile, parquetReadObjects } from 'hyparquet'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { makeLogin } from '../../analytics/logins.ts'
import { openWarehouse, query } from '../../e2e/support/scene.ts'
import type { TestDatabase } from '../../support/database.ts'
import { makeFolder, removeFolder } from '../../support/folders.ts'
import { runCommand } from '../../support/run-command.ts'

let warehouse: TestDatabase
let folder: string
let exports = 0

beforeAll(async () => {
  warehouse = await openWarehouse()
  folder = makeFolder('export-')
  await query(
    warehouse.url,
    `insert into intake.teams (name) values ('north'), ('south');
     insert into intake.forms (team_id, id, name, _version, _origin, _loaded_at, _hash)
       select team_id, 'f' || n, 'Form, "' || n || '"', now(), 'page', now(), '' from intake.teams, generate_series(1, 3) as n;
     insert into intake.responses (team_id, id, patient_id, form_id, is_submitted, created_at, _version, _origin, _loaded_at, _hash)
       select team_id, 'r' || n, 'p' || n, case when n <= 4000 then 'f1' when n <= 4011 then 'f2' else 'f3' end, n % 2 = 0,
         '2026-03-01T23:59:58.123456Z'::timestamptz + n % 3 * interval '1 day', now(), 'page', now(), ''
       from intake.teams, generate_series(1, 4021) as n where name = 'north' or n <= 5;
     insert into intake_ops.access (login, team_id) select 'intake_analyst', team_id from intake.teams where name = 'north'`,
  )
})
afterAll(async () => {
  removeFolder(folder)
  await warehouse.drop()
})

async function exported(words: readonly string[], url = warehouse.url) {
  exports += 1
  const out = join(folder, `out-${exports}`)
  const ended = await runCommand(['export', ...words, '--out', out], { DATABASE_URL: url })
  const manifest = () => JSON.parse(readFileSync(join(out, 'manifest.json'), 'utf8'))
  return { ...ended, out, manifest }
}

const sqlFile = (text: string): string => {
  const path = join(folder, `query-${createHash('sha256').update(text).digest('hex')}.sql`)
  writeFileSync(path, text)
  return path
}

/** One row of each kind of value, and one of nulls. */
const KINDS = () =>
  sqlFile(`
  select true as flag, 7::smallint as small, 9007199254740993 as large, 0.1::numeric as share, date '2026-02-28' as day,
    timestamptz '2026-02-28 23:00:00.000001+00' as at, '{"a": [1, null]}'::jsonb as tree, E'a"b,\\nc' as words, '' as empty
  union all select null, null, null, null, null, null, null, null, null; -- both
  `)

describe('a view of the analyst', () => {
  it('has the rows of the teams that the reader sees, in one file, listed in the manifest with its hash', async () => {
    const { code, out, stdout, manifest } = await exported(['responses'])
    expect([code, stdout]).toEqual([0, '4021 rows in 1 file\n'])
    expect(readdirSync(out).sort()).toEqual(['data.csv', 'manifest.json'])
    const bytes = readFileSync(join(out, 'data.csv'))
    const rows: Record<string, string>[] = parse(bytes, { columns: true })
    expect(rows).toHaveLength(4021)
    expect(new Set(rows.map((row) => row.team_id)).size).toBe(1)
    expect(manifest()).toMatchObject({
      version: expect.any(String),
      role: 'intake_analyst',
      view: 'intake_analytics.responses',
      format: 'csv',
      rows: 4021,
      suppressed: null,
      files: [
        {
          file: 'data.csv',
          rows: 4021,
          bytes: bytes.length,
          sha256: createHash('sha256').update(bytes).digest('hex'),
        },
      ],
    })
    expect(manifest().columns.map((column: { name: string }) => column.name)).toEqual(Object.keys(rows[0]!))
    for (const name of ['.', 'data.csv', 'manifest.json'])
      expect(statSync(join(out, name)).mode & 0o077, name).toBe(0)
  })

  it('with --by-day there is one file for each day in UTC, and together they have every row', async () => {
    for (const format of ['ndjson', 'parquet']) {
      const { code, out, manifest } = await exported([
        'responses',
        '--by-day',
        'created_at',
        '--format',
        format,
      ])
      expect(code).toBe(0)
      const files: { file: string; rows: number }[] = manifest().files
      expect(files.map(({ file, rows }) => [file, rows])).toEqual([
        [`day=2026-03-01/data.${format}`, 1340],
        [`day=2026-03-02/data.${format}`, 1341],
        [`day=2026-03-03/data.${format}`, 1340],
      ])
      const path = join(out, files[1]!.file)
      const rows =
        format === 'parquet'
          ? await parquetReadObjects({ file: await asyncBufferFromFile(path) })
          : readFileSync(path, 'utf8')
              .trimEnd()
              .split('\n')
              .map((line) => JSON.parse(line))
      expect(rows).toHaveLength(1341)
      for (const row of rows) expect(new Date(row.created_at).toISOString().slice(0, 10)).toBe('2026-03-02')
    }
  })

  it('a login that is an analyst and nothing more sees the teams granted to it; without any, a note says so', async () => {
    const login = await makeLogin(warehouse.url, 'intake_analyst')
    const before = await exported(['responses'], login.url)
    expect([before.code, before.stdout]).toEqual([0, '0 rows in 1 file\n'])
    expect(before.stderr).toContain(`access grant ${login.name} TEAM`)
    await query(
      warehouse.url,
      `insert into intake_ops.access (login, team_id) select '${login.name}', team_id from intake.teams where name = 'south'`,
    )
    expect((await exported(['responses'], login.url)).stdout).toBe('5 rows in 1 file\n')
  })

  it.each([
    [['intake.patients'], 'the query cannot run: permission denied for schema intake'],
    [['no_such_view'], 'the query cannot run: relation "intake_analytics.no_such_view" does not exist'],
    [['responses', '--by-day', 'nothing'], 'the query cannot run: column exported.nothing does not exist'],
    [['responses', '--min-cell', '11'], '--min-cell: no column is a count'],
    [['responses', '--min-cell', '11', '--count-column', 'x'], '--count-column: there is no column "x"'],
    [['no_such_view'], 'code: query_invalid'],
    [['responses', '--min-cell', '1'], 'Use a whole number from 2.'],
    [['responses', '--team', 'north'], '--team belongs to --format fhir-ndjson'],
    [['responses', '--format', 'fhir-ndjson'], '--format fhir-ndjson takes no view'],
    [['--format', 'fhir-ndjson', '--as', 'analyst'], '--format fhir-ndjson takes no view, no other reader'],
    [['--format', 'fhir-ndjson', '--min-cell', '5'], '--format fhir-ndjson takes no view'],
    [['responses', '--sql', 'missing.sql'], 'name either a view or a file with --sql'],
    [[], 'name either a view or a file with --sql'],
    [['--sql', 'missing.sql'], '--sql: the file cannot be read (ENOENT)'],
  ])('%j ends with 2, says why, and leaves no manifest', async (words, message) => {
    const { code, stdout, stderr, manifest } = await exported(words)
    expect([code, stdout]).toEqual([2, ''])
    expect(stderr).toContain(message)
    expect(manifest).toThrow('ENOENT')
  })
})

describe('a query', () => {
  it('CSV has each value as Postgres writes it, null as nothing and an empty text as ""', async () => {
    const { code, out } = await exported(['--sql', KINDS()])
    expect(code).toBe(0)
    expect(readFileSync(join(out, 'data.csv'), 'utf8')).toBe(
      'flag,small,large,share,day,at,tree,words,empty\r\n' +
        't,7,9007199254740993,0.1,2026-02-28,2026-02-28 23:00:00.000001+00,"{""a"": [1, null]}","a""b,\nc",""\r\n' +
        ',,,,,,,,\r\n',
    )
  })

  it('is read as UTF-8, with or without a byte order mark, and the manifest has the hash of its file', async () => {
    const file = sqlFile("\ufeffselect 'Zoë' as name; -- ü\n")
    const { code, out, manifest } = await exported(['--sql', file])
    expect([code, readFileSync(join(out, 'data.csv'), 'utf8')]).toEqual([0, 'name\r\nZoë\r\n'])
    const sql_sha256 = createHash('sha256').update(readFileSync(file)).digest('hex')
    expect(manifest()).toMatchObject({ sql_sha256, rows: 1 })
  })

  it('NDJSON has JSON types, and numbers with every digit', async () => {
    const { out } = await exported(['--sql', KINDS(), '--format', 'ndjson'])
    const lines = readFileSync(join(out, 'data.ndjson'), 'utf8').split('\n')
    expect(lines[0]).toContain('"large":9007199254740993')
    expect(lines[0]).toContain('"tree":{"a": [1, null]}')
    expect(JSON.parse(lines[1]!)).toEqual({
      ...{
        flag: null,
        small: null,
        large: null,
        share: null,
        day: null,
        at: null,
        tree: null,
        words: null,
        empty: null,
      },
    })
    expect(lines.slice(2)).toEqual([''])
  })

  it('Parquet has typed columns, read back with every microsecond and digit of whole numbers', async () => {
    const { out } = await exported(['--sql', KINDS(), '--format', 'parquet'])
    const file = await asyncBufferFromFile(join(out, 'data.parquet'))
    const rows = await parquetReadObjects({ file, parsers: { ...RAW_TIMES } })
    expect(rows).toEqual([
      {
        ...{ flag: true, small: 7, large: 9007199254740993n, share: 0.1, day: '2026-02-28' },
        ...{ at: 1772319600000001n, tree: '{"a": [1, null]}', words: 'a"b,\nc', empty: '' },
      },
      {
        flag: null,
        small: null,
        large: null,
        share: null,
        day: null,
        at: null,
        tree: null,
        words: null,
        empty: null,
      },
    ])
  })

  it('Parquet has times and days before and after 1970, however many digits their fraction has, and null for those it cannot store', async () => {
    const times = [
      ["'2026-02-28 23:00:00.5+00'", "'1969-12-31'", 1772319600500000n, '1969-12-31'],
      ["'1969-12-31 23:59:59.25+00'", "'0001-01-01'", -750000n, '0001-01-01'],
      ["'2026-02-28 23:00:00+00'", "'9999-12-31'", 1772319600000000n, '9999-12-31'],
      ["'infinity'", "'infinity'", null, null],
      ["'0044-03-15 12:00:00+00 BC'", "'0044-03-15 BC'", null, null],
    ] as const
    const values = times.map(([at, day], n) => `(${n}, timestamptz ${at}, date ${day})`)
    const text = sqlFile(`select at, day from (values ${values.join(', ')}) as given (n, at, day) order by n`)
    const { out } = await exported(['--sql', text, '--format', 'parquet'])
    const file = await asyncBufferFromFile(join(out, 'data.parquet'))
    expect(await parquetReadObjects({ file, parsers: { ...RAW_TIMES } })).toEqual(
      times.map(([, , at, day]) => ({ at, day })),
    )
  })

  it('no row shows a count below --min-cell, and the manifest says how many were left out', async () => {
    const grouped = sqlFile(`select form_id, count(*) as responses from responses group by form_id
      union all select 'none', 0 order by form_id`)
    for (const format of ['csv', 'ndjson', 'parquet']) {
      const { code, stdout, manifest } = await exported([
        '--sql',
        grouped,
        '--min-cell',
        '11',
        '--format',
        format,
      ])
      expect([code, stdout]).toEqual([0, '3 rows in 1 file; left out for small counts: 1\n'])
      expect(manifest().suppressed).toEqual({ min_cell: 11, columns: ['responses'], rows: 1 })
    }
    const { out } = await exported(['--sql', grouped, '--min-cell', '11'])
    const rows: Record<string, string>[] = parse(readFileSync(join(out, 'data.csv')), { columns: true })
    expect(rows.map(({ responses }) => responses)).toEqual(['4000', '11', '0'])
  })

  it('columns are counts by their names, if they are whole numbers; negative and small ones leave out their row', async () => {
    const names =
      'n count total rows people patients responses messages answers cells started submitted skipped open archived form_count form_total form_n n_x count_x number_of_x responses_x messages_x patients_x answers_x'.split(
        ' ',
      )
    const types = ['smallint', 'integer', 'bigint', 'numeric']
    const others = [
      ...['counted', 'country', 'nn', 'rows_x', 'age', 'form_total_x'].map((name) => `1 as ${name}`),
      ...[`'1' as count_text`, '1::float8 as total_n', 'true as n_true'],
    ]
    const columns = [...names.map((name, at) => `20::${types[at % 4]} as ${name}`), ...others]
    const { manifest } = await exported([
      '--sql',
      sqlFile(`select ${columns.join(', ')}`),
      '--min-cell',
      '11',
    ])
    expect(manifest()).toMatchObject({ rows: 1, suppressed: { columns: names, rows: 0 } })
    const cells = sqlFile(
      `select v as n, 1 as count from unnest('{null,-1,0,0.5,1,10,10.99,11,12}'::numeric[]) v`,
    )
    const chosen = await exported(['--sql', cells, '--min-cell', '11', '--count-column', 'n'])
    expect(chosen.manifest().suppressed).toEqual({ min_cell: 11, columns: ['n'], rows: 5 })
    expect(readFileSync(join(chosen.out, 'data.csv'), 'utf8')).toBe(
      'n,count\r\n,1\r\n0,1\r\n11,1\r\n12,1\r\n',
    )
  })

  it('is read in one snapshot without writing; rows without a day have a file of their own', async () => {
    const settings = `current_setting('transaction_isolation') as isolation, current_setting('transaction_read_only') as read_only`
    const days = sqlFile(
      `select ${settings}, v as at from unnest('{2026-03-02 00:30+01,null,2026-03-02 00:30+00}'::timestamptz[]) v`,
    )
    const { out, manifest } = await exported(['--sql', days, '--by-day', 'at', '--format', 'ndjson'])
    expect(manifest().files.map(({ file, rows }: { file: string; rows: number }) => [file, rows])).toEqual([
      ['day=2026-03-01/data.ndjson', 1],
      ['day=2026-03-02/data.ndjson', 1],
      ['day=__HIVE_DEFAULT_PARTITION__/data.ndjson', 1],
    ])
    expect(JSON.parse(readFileSync(join(out, 'day=2026-03-01/data.ndjson'), 'utf8'))).toMatchObject({
      isolation: 'repeatable read',
      read_only: 'on',
    })
    expect(statSync(join(out, 'day=2026-03-01')).mode & 0o077).toBe(0)
    await query(
      warehouse.url,
      `create table public.written (a int);
       create function public.write() returns int language sql security definer as 'insert into public.written values (1) returning a'`,
    )
    const written = await exported(['--sql', sqlFile('select public.write() as a')])
    await query(warehouse.url, 'drop function public.write; drop table public.written')
    expect([written.code, written.stderr]).toEqual([2, expect.stringContaining('the query writes')])
    const nothing = await exported(['--sql', sqlFile('select')])
    expect([nothing.code, nothing.stderr]).toEqual([2, expect.stringContaining('the query has no columns')])
    const empty = await exported(['--sql', sqlFile('select 1 as a where false'), '--by-day', 'a'])
    expect(empty.code).not.toBe(0)
  })

  it.each([
    ['delete from responses', 'the query cannot run: syntax error'],
    ['select 1 as a) b; drop view intake_analytics.responses; select (2', 'the query cannot run: '],
    ['select 1 as a, 2 as a', 'two columns have the name "a"'],
    ["select 'Ada'::int as a", 'the query failed on a value (SQLSTATE 22P02)'],
    ["select 'Ada'::int as a", 'code: query_value'],
    ['select 1 as a, 2 as a', 'code: query_invalid'],
    ['select', 'code: query_invalid'],
    ['select passwd from pg_shadow', 'hint: the reader has no right to it: see --as'],
    ['select x from nowhere', 'hint: try it in intake-sync psql'],
    ['select x from nowhere', 'code: query_invalid'],
  ])('%s is refused without a value in the message, and changes nothing', async (text, message) => {
    const { code, stderr } = await exported(['--sql', sqlFile(text)])
    expect(code).toBeGreaterThan(0)
    expect(stderr).toContain(message)
    expect(stderr).not.toContain('Ada')
    expect(await query(warehouse.url, 'select count(*)::int as n from intake_analytics.responses')).toEqual([
      { n: 4026 },
    ])
  })

  it('that fails for another reason says the state and no value; a folder that cannot be made is named as the cause', async () => {
    await query(
      warehouse.url,
      `create function public.fail() returns int language plpgsql as $$ begin raise exception 'Ada has failed'; end $$`,
    )
    const { code, stderr, manifest } = await exported(['--sql', sqlFile('select public.fail() as a')])
    await query(warehouse.url, 'drop function public.fail')
    expect(code).toBeGreaterThan(0)
    expect(stderr).toContain('P0001')
    expect(stderr).not.toContain('Ada')
    expect(manifest).toThrow('ENOENT')
    const words = ['export', '--sql', KINDS(), '--out', join(KINDS(), 'below a file')]
    const below = await runCommand(words, { DATABASE_URL: warehouse.url })
    expect([below.code, below.stderr]).toEqual([
      2,
      expect.stringMatching(/--out: the folder cannot be made \(ENOTDIR\)\n[\s\S]*code: file_unreadable/),
    ])
  })

  it('a folder with anything in it is refused, and what is there stays', async () => {
    const { out } = await exported(['--sql', KINDS()])
    const again = await runCommand(['export', '--sql', KINDS(), '--out', out], {
      DATABASE_URL: warehouse.url,
    })
    expect([again.code, again.stderr]).toEqual([
      2,
      expect.stringMatching(/--out: the folder is not empty\n[\s\S]*code: folder_not_empty/),
    ])
    expect(readdirSync(out).sort()).toEqual(['data.csv', 'manifest.json'])
  })
})

const RAW_TIMES = {
  timestampFromMicroseconds: (micros: bigint) => micros,
  dateFromDays: (days: number) => new Date(days * 86_400_000).toISOString().slice(0, 10),
}
