/** The history of runs: what is marked running is running, whoever looks and begins beside it. */
import { beforeEach, expect, test, vi } from 'vitest'
import { beginRun } from '../../src/load/runs.ts'
import { openSession, type Session } from '../../src/warehouse/connect.ts'
import { createTestDatabase, type TestDatabase } from '../support/database.ts'

let database: TestDatabase
beforeEach(async () => {
  database = await createTestDatabase()
  return () => database.drop()
})

const open = () => openSession({ url: database.url, purpose: 'run' })

async function runs({ client }: Session): Promise<unknown[]> {
  const { rows } = await client.query('select status from intake_ops.runs order by run_id')
  return rows.map(({ status }) => status)
}

test('a run that begins is not taken for interrupted by another that begins at the worst moment', async () => {
  await using one = await open()
  await using other = await open()
  const query = one.client.query.bind(one.client) as (...words: unknown[]) => Promise<unknown>
  let begun = 0
  vi.spyOn(one.client, 'query').mockImplementation((async (...words: unknown[]) => {
    if (JSON.stringify(words[0]).includes('pg_try_advisory_lock')) {
      begun += 1
      await beginRun(other, 'verify', {})
    }
    return await query(...words)
  }) as never)
  await beginRun(one, 'backfill', {})
  expect(begun).toBe(1)
  expect(await runs(other)).toEqual(['running', 'running'])
  await using third = await open()
  await beginRun(third, 'backfill', {})
  expect(await runs(third)).toEqual(['running', 'running', 'running'])
})

test('a run whose session ended is interrupted, as the next one says', async () => {
  await using one = await open()
  await beginRun(one, 'backfill', {})
  {
    await using gone = await open()
    await beginRun(gone, 'verify', {})
  }
  await using next = await open()
  await vi.waitFor(async () => {
    await beginRun(next, 'backfill', {})
    expect((await runs(next)).slice(0, 2)).toEqual(['running', 'interrupted'])
  })
})
