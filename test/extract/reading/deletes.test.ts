/** Exports that the service no longer lists are deleted when two complete lists in a row miss them, and not before. */
import { beforeEach, expect, test } from 'vitest'
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
  for (let nth = 1; nth <= 3; nth++) service.put(`e${nth}`, `${HEADER},Q\np1,Ann,,,,,,${nth}\n`)
  return async () => {
    await service[Symbol.asyncDispose]()
    await database.drop()
  }
})

const run = (options = {}) => runExports(service.url, database.url, options)
const rows = (text: string) => query(database.url, text)
const live = async () =>
  (await rows('select id from intake.exports where _deleted_at is null order by 1')).map(({ id }) => id)
const unlist = (id: string) => {
  const entries = service.entries
  service.entries = entries.filter((entry) => entry.id !== id)
  return () => {
    service.entries = entries
  }
}

test('an export that one complete list misses stays, and is deleted with its file when the next misses it too', async () => {
  await run()
  unlist('e2')
  expect((await run()).tally.deleted).toBe(0)
  expect(await live()).toEqual(['e1', 'e2', 'e3'])
  expect((await run()).tally.deleted).toBe(1)
  expect(await live()).toEqual(['e1', 'e3'])
  const left = await rows(`
    select (select count(*)::int from intake.export_cells where export_id = 'e2') as cells,
      (select count(*)::int from intake.export_rows where export_id = 'e2') as rows,
      (select count(*)::int from intake.export_columns where export_id = 'e2') as columns,
      (select count(*)::int from intake_raw.export_files where export_id = 'e2') as files,
      (select count(*)::int from intake_raw.export_chunks where export_id = 'e2') as chunks,
      name, form_id, deleted from intake.exports join intake_raw.records using (team_id, id) where id = 'e2'`)
  expect(left).toEqual([
    { cells: 0, rows: 0, columns: 0, files: 0, chunks: 0, name: null, form_id: null, deleted: true },
  ])
  const before = await rowVersions(database.url)
  await run()
  expect(await rowVersions(database.url)).toEqual(before)
})

test('an export that returns in between starts again, and one that returns later is loaded again', async () => {
  await run()
  let list = unlist('e2')
  await run()
  list()
  await run()
  list = unlist('e2')
  await run()
  expect(await live()).toContain('e2')
  await run()
  expect(await live()).not.toContain('e2')
  list()
  await run()
  await using fresh = await createTestDatabase()
  await runExports(service.url, fresh.url)
  expect(await shownTables(database.url)).toEqual(await shownTables(fresh.url))
})

test('an export that reappears while its tombstone is dated later is loaded with its file by the same run', async () => {
  await run()
  const list = unlist('e2')
  await run()
  await run()
  expect(await live()).not.toContain('e2')
  await query(
    database.url,
    `update intake_raw.records set version = version + interval '1 hour' where id = 'e2'`,
  )
  list()
  expect((await run()).note).toEqual({ text: null, attention: false })
  await using fresh = await createTestDatabase()
  await runExports(service.url, fresh.url)
  expect(await shownTables(database.url)).toEqual(await shownTables(fresh.url))
})

test('an incomplete list proves nothing, nor does a dry run', async () => {
  await run()
  unlist('e2')
  expect((await run({ dry: true })).tally.deleted).toBe(0)
  expect((await run({ dry: true })).tally.deleted).toBe(0)
  await run()
  service.interfere = (request, response) => {
    if (request.method !== 'GET') return false
    response
      .writeHead(200, { 'content-type': 'application/json' })
      .end(JSON.stringify({ count: 3, next: null, results: service.entries }))
    return true
  }
  const { note } = await run()
  expect(note.attention).toBe(true)
  expect(await live()).toContain('e2')
  service.interfere = () => false
  expect((await run({ dry: true })).tally.deleted).toBe(1)
  expect(await live()).toContain('e2')
  expect((await run()).tally.deleted).toBe(1)
})

test('more than fifty missing ones wait for approval, and are then deleted', async () => {
  for (let nth = 10; nth < 61; nth++) service.put(`e${nth}`, '')
  await run()
  service.entries = service.entries.slice(0, 3)
  for (let time = 1; time <= 2; time++) {
    const { note, tally } = await run()
    expect(note).toMatchObject({ attention: true, text: expect.stringContaining('--allow-mass-delete') })
    expect(tally.deleted).toBe(0)
  }
  expect(await live()).toHaveLength(54)
  expect((await run({ allowMassDelete: true })).tally.deleted).toBe(51)
  expect(await live()).toEqual(['e1', 'e2', 'e3'])
})

test('a state stored with a time far ahead of the service is still deleted by its lists', async () => {
  await run()
  await query(database.url, `update intake_raw.records set version = version + interval '1 year'`)
  service.entries[0] = { id: 'e1', name: 'renamed' }
  unlist('e2')
  await run()
  expect(await rows(`select name from intake.exports where id = 'e1'`)).toEqual([{ name: 'renamed' }])
  await run()
  expect(await live()).toEqual(['e1', 'e3'])
  expect(await rows(`select * from intake.export_cells where export_id = 'e2'`)).toEqual([])
})
