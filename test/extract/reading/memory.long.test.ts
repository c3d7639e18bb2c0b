/** A file far larger than the memory that loading it may use. */
import { Readable } from 'node:stream'
import { expect, test } from 'vitest'
import { createTestDatabase } from '../../support/database.ts'
import { bytesInUse, bytesInUseDuring } from '../../support/garbage.ts'
import { HEADER, query, runExports, startFileService } from './run.ts'

const MEGABYTE = 1024 * 1024
const ROWS = 3_500

function* file(): Generator<Buffer> {
  yield Buffer.from(`${HEADER},Q\n`)
  const cell = 'so "" it is, \n'.repeat(2_000)
  for (let row = 1; row <= ROWS; row++) yield Buffer.from(`p${row},,,,,,,"${cell}${row}"\n`)
}

// On a busy machine more pieces are in flight at once; a file that is kept whole shows every time.
test('an export of ninety megabytes is loaded with nearly none of it in memory', {
  retry: 2,
}, async () => {
  await using database = await createTestDatabase()
  await using service = await startFileService()
  service.put('e1', '')
  service.interfere = (request, response) => {
    if (request.method !== 'POST') return false
    response.writeHead(200, { 'content-type': 'text/plain' })
    Readable.from(file(), { objectMode: false }).pipe(response)
    return true
  }
  const started = bytesInUse()
  const inUse = await bytesInUseDuring(runExports(service.url, database.url))
  const [row] = await query(
    database.url,
    `select (select bytes::int from intake_raw.export_files) as bytes, count(*)::int as cells from intake.export_cells`,
  )
  expect(row?.cells).toBe(ROWS)
  expect(row?.bytes).toBeGreaterThan(85 * MEGABYTE)
  expect(inUse.length).toBeGreaterThan(10)
  expect(Math.max(...inUse) - started).toBeLessThan(30 * MEGABYTE)
})
