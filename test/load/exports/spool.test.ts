/** A file in transit: measured, cut into chunks, kept byte for byte, and free of the previous file. */

import { createHash } from 'node:crypto'
import fc from 'fast-check'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { spool, spooledChunk, storeSpool } from '../../../src/load/exports/spool.ts'
import { openSession, type Session } from '../../../src/warehouse/connect.ts'
import { createTestDatabase, type TestDatabase } from '../../support/database.ts'
import { rowsOf } from '../loading.ts'

const MIB = 1024 * 1024
let database: TestDatabase
let session: Session

beforeAll(async () => {
  database = await createTestDatabase()
  session = await openSession({ url: database.url, purpose: 'spool' })
})
afterAll(async () => {
  await session.close()
  await database.drop()
})

async function* pieces(...all: readonly Buffer[]) {
  yield* all
}
/** Bytes without equal chunks. */
const bytesOf = (length: number, seed = 0) =>
  Buffer.from(
    Uint32Array.from({ length: Math.ceil(length / 4) }, (_, at) => at * 2_654_435_761 + seed).buffer,
  ).subarray(0, length)
const sha = (bytes: Buffer) => createHash('sha256').update(bytes).digest('hex')
const chunksOf = async (spooled: Awaited<ReturnType<typeof spool>>) => {
  const all: Buffer[] = []
  for (let number = 1; number <= spooled.chunks; number++)
    all.push(await spooledChunk(session, spooled, number))
  return all
}

test.each([0, 1, MIB - 1, MIB, MIB + 1, 8 * MIB, 8 * MIB + 1, 10 * MIB + 5])(
  'every byte of a file of %i bytes is in a chunk of one mebibyte, in order, however many stay in memory',
  async (length) => {
    const bytes = bytesOf(length)
    const cut = Math.min(length, 700_001)
    const spooled = await spool(session, pieces(bytes.subarray(0, cut), bytes.subarray(cut)))
    expect(spooled).toMatchObject({ hash: sha(bytes), bytes: length, chunks: Math.ceil(length / MIB) })
    expect(spooled.last).toBe(bytes.at(-1))
    expect(spooled.first.length).toBe(Math.min(8, spooled.chunks))
    const chunks = await chunksOf(spooled)
    expect(chunks.slice(0, -1).every((chunk) => chunk.length === MIB)).toBe(true)
    expect(Buffer.concat(chunks).equals(bytes)).toBe(true)
  },
)

test('does not depend on how the file is cut, and ignores empty pieces', async () => {
  const lengths = fc.array(fc.integer({ min: 0, max: 900_000 }), { minLength: 1, maxLength: 8 })
  await fc.assert(
    fc.asyncProperty(lengths, fc.nat(), async (cuts, seed) => {
      const whole = bytesOf(
        cuts.reduce((sum, each) => sum + each, 0),
        seed,
      )
      const ends = cuts.map((_, nth) => cuts.slice(0, nth + 1).reduce((sum, each) => sum + each, 0))
      const spooled = await spool(
        session,
        pieces(...ends.map((end, nth) => whole.subarray(end - cuts[nth]!, end))),
      )
      expect(spooled).toMatchObject({ hash: sha(whole), bytes: whole.length })
      const lengths = (await chunksOf(spooled)).map((chunk) => chunk.length)
      expect(lengths.slice(0, -1).every((length) => length === MIB)).toBe(true)
      expect(Buffer.concat(await chunksOf(spooled)).equals(whole)).toBe(true)
      expect(spooled.last).toBe(whole.at(-1))
    }),
    { numRuns: 12 },
  )
})

test.each([8, 9, 10])(
  'a second file of %i chunks replaces a larger one before it, in the table too',
  async (chunks) => {
    await spool(session, pieces(bytesOf(12 * MIB, 1)))
    const bytes = bytesOf((chunks - 1) * MIB + 3, chunks)
    const spooled = await spool(session, pieces(bytes))
    const file = { teamId: 3, exportId: `e${chunks}`, isLoaded: true }
    await rowsOf(
      session,
      `insert into intake_raw.export_files (team_id, export_id, is_loaded, hash, bytes, is_json_string, api_version, timezone, observed_at, origin)
     values (3, $1, true, '\\x00', 1, false, '', 'UTC', now(), 'run:1 file')`,
      [file.exportId],
    )
    await storeSpool(session, spooled, file)
    const kept = await rowsOf<{ number: number; body: Buffer }>(
      session,
      `select number, body from intake_raw.export_chunks where (team_id, export_id, is_loaded) = (3, $1, true) order by number`,
      [file.exportId],
    )
    expect(kept.map(({ number }) => number)).toEqual(Array.from({ length: chunks }, (_, at) => at + 1))
    expect(Buffer.concat(kept.map(({ body }) => body)).equals(bytes)).toBe(true)
  },
)

test('without a session a file is only measured', async () => {
  const bytes = bytesOf(3 * MIB)
  const spooled = await spool(null, pieces(bytes))
  expect(spooled).toEqual({ hash: sha(bytes), bytes: 3 * MIB, chunks: 0, first: [], last: bytes.at(-1) })
})

test('fails when its input fails', async () => {
  async function* broken() {
    yield bytesOf(10)
    throw new Error('broke off')
  }
  await expect(spool(session, broken())).rejects.toThrow('broke off')
})
