/** An export far larger than the memory that it may use. */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { FORMATS } from '../../../src/analytics/export/formats.ts'
import { openWarehouse } from '../../e2e/support/scene.ts'
import { runCli } from '../../support/cli.ts'
import type { TestDatabase } from '../../support/database.ts'
import { makeFolder, removeFolder } from '../../support/folders.ts'

const ROWS = 200_000
/** Characters of each row. */
const WIDE = 640

let warehouse: TestDatabase
let folder: string

beforeAll(async () => {
  warehouse = await openWarehouse()
  folder = makeFolder('export-memory-')
})
afterAll(async () => {
  removeFolder(folder)
  await warehouse.drop()
})

// The engine ends a process whose objects do not fit: no figure has to be compared.
it.each(FORMATS)('128 MB are written as %s by a process with 96 MB for its objects', async (format) => {
  const [query, out] = [join(folder, 'query.sql'), join(folder, format)]
  writeFileSync(
    query,
    `select n, repeat(md5(n::text), ${WIDE / 32}) as words from generate_series(1, ${ROWS}) as n`,
  )
  const { code, stderr } = await runCli(['export', '--sql', query, '--format', format, '--out', out], {
    DATABASE_URL: warehouse.url,
    NODE_OPTIONS: '--max-old-space-size=96',
  })
  expect([code, stderr]).toEqual([0, expect.not.stringContaining('heap')])
  const { rows, files } = JSON.parse(readFileSync(join(out, 'manifest.json'), 'utf8'))
  expect(rows).toBe(ROWS)
  if (format !== 'parquet') expect(files[0].bytes).toBeGreaterThan(ROWS * WIDE)
})
