/** `export --sql` without a warehouse: which text becomes the query, and what the manifest says of the file. */
import { createHash } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeEach, expect, it, vi } from 'vitest'
import { exportRows } from '../../../src/analytics/export/export.ts'
import { takeRole } from '../../../src/commands/reader.ts'
import { makeFolder, removeFolder } from '../../support/folders.ts'
import { runCommand } from '../../support/run-command.ts'

const query = vi.fn()

vi.mock('../../../src/warehouse/connect.ts', async (original) => ({
  ...(await original()),
  openSession: async () => ({ client: { query }, [Symbol.asyncDispose]: async () => {} }),
}))
vi.mock('../../../src/analytics/export/export.ts', () => ({ exportRows: vi.fn() }))
vi.mock('../../../src/commands/reader.ts', async (original) => ({ ...(await original()), takeRole: vi.fn() }))

const folder = makeFolder('export-asked-')
const file = join(folder, 'query.sql')
afterAll(() => removeFolder(folder))
beforeEach(() => {
  vi.resetAllMocks()
  vi.mocked(exportRows).mockResolvedValue({ rows: 1, files: [{}], suppressed: null } as never)
})

async function exported(sql: string, ...words: string[]) {
  writeFileSync(file, sql)
  const env = { DATABASE_URL: 'postgres://u@127.0.0.1:1/d' }
  const { code, stdout, stderr } = await runCommand(
    ['export', '--sql', file, '--out', 'o', ...words],
    ...[env, { version: '1.2.3' }],
  )
  expect({ code, stdout, stderr }).toEqual({ code: 0, stdout: '1 rows in 1 file\n', stderr: '' })
  const [, options] = vi.mocked(exportRows).mock.calls.at(-1)!
  return options
}

it.each([
  ['select 1', 'select 1'],
  ['select 1;', 'select 1'],
  ['select 1;\n', 'select 1'],
  ['select 1\n;;  ; \r\n', 'select 1\n;;  '],
  ['select 1; -- the end\n', 'select 1'],
  ['select 1;\n-- one\n  -- two', 'select 1'],
  ['\ufeffselect 1;', 'select 1'],
  ["select ';' -- the end", "select ';' -- the end"],
  ["select 1; -- a;\nselect ';'", "select 1; -- a;\nselect ';'"],
  ['select 1 -- no end;', 'select 1 -- no end'],
  ['', ''],
])('the query of %j is %j', async (sql, text) => {
  expect(await exported(sql)).toMatchObject({ from: { text } })
})

it.each([
  ['analyst', 'intake_analyst', 'intake_analytics'],
  ['clinical', 'intake_clinical', 'intake, intake_analytics'],
  ['researcher', 'intake_researcher', 'intake_safe_harbor'],
])(
  'as %s, the query finds the views of its role, and the manifest names the file by its bytes',
  async (as, role, path) => {
    const sql = '\ufeffselect 1;\r\n'
    const { about } = await exported(sql, '--as', as)
    expect(about).toEqual({
      ...{ exported_at: expect.any(String), version: '1.2.3', role },
      sql_sha256: createHash('sha256').update(Buffer.from(sql)).digest('hex'),
    })
    expect(vi.mocked(takeRole).mock.calls[0]![2]).toBe(as)
    expect(query.mock.calls).toEqual([[`set search_path = ${path}, public`]])
  },
)
