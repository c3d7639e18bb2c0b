/** A file far larger than what is held of it. */
import { Readable } from 'node:stream'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { expect, test } from 'vitest'
import { createTestDatabase } from '../support/database.ts'
import { HEADER, query, runExports, startFileService } from './exports-run.ts'

const MEGABYTE = 1024 * 1024
const ROWS = 3_500

setFlagsFromString('--expose-gc')
const collectGarbage = runInNewContext('gc') as () => void

/** Bytes in use once the garbage is gone. */
function held(): number {
  collectGarbage()
  const { heapUsed, arrayBuffers } = process.memoryUsage()
  return heapUsed + arrayBuffers
}

function* file(): Generator<Buffer> {
  yield Buffer.from(`${HEADER},Q\n`)
  const cell = 'so "" it is, \n'.repeat(2_000)
  for (let row = 1; row <= ROWS; row++) yield Buffer.from(`p${row},,,,,,,"${cell}${row}"\n`)
}

// A busy machine lets more pieces be on their way at a moment; what is held whole is held each time.
test('an export of ninety megabytes is loaded with next to nothing of it in memory', {
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
  const started = held()
  const most: number[] = []
  const measuring = setInterval(() => most.push(held() - started), 100)
  await runExports(service.url, database.url)
  clearInterval(measuring)
  const [row] = await query(
    database.url,
    `select (select bytes::int from intake_raw.export_files) as bytes, count(*)::int as cells from intake.export_cells`,
  )
  expect(row?.cells).toBe(ROWS)
  expect(row?.bytes).toBeGreaterThan(85 * MEGABYTE)
  expect(most.length).toBeGreaterThan(10)
  expect(Math.max(...most)).toBeLessThan(30 * MEGABYTE)
})
