/** A run of exports that ends at any step: whole files, an unmoved cursor, and a next run that completes the tables. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { createTestDatabase, type TestDatabase } from '../../support/database.ts'
import {
  type FileService,
  HEADER,
  idIn,
  query,
  rowVersions,
  runExports,
  shownTables,
  startFileService,
} from './run.ts'

let database: TestDatabase
let service: FileService

const IDS = ['e1', 'e2', 'e3']
/** Files of a night: in each, cells and a problem that name it. */
const offer = (night: string) => {
  for (const id of IDS)
    service.put(
      id,
      `${HEADER},Q ${night}\np1,${night},,,${night},,,${id} ${night}\n${'p2\n'.repeat(night.length)}`,
    )
}

beforeAll(async () => {
  database = await createTestDatabase()
  service = await startFileService()
  offer('first')
  await runExports(service.url, database.url)
  // For a trigger: fails for the rows with the argument's export, or for each one.
  await query(
    database.url,
    `create function public.refuse() returns trigger language plpgsql as $$
     begin
       if tg_argv[0] in ('', to_jsonb(new) ->> 'export_id', to_jsonb(new) ->> 'id') then raise 'no'; end if;
       return new;
     end $$`,
  )
})
afterAll(async () => {
  await service[Symbol.asyncDispose]()
  await database.drop()
})

const rows = (text: string) => query(database.url, text)
const state = async () => ({
  cursor: await rows(`select cursor from intake_ops.checkpoints where stream = 'exports'`),
  /** By export: every place that says which night its file is of. */
  nights: await rows(
    `select id, (select regexp_replace(title, '^Q ', '') from intake.export_columns c where c.export_id = id) as columns,
       (select min(first_name) from intake.export_rows r where r.export_id = id) as rows,
       (select split_part(value, ' ', 2) from intake.export_cells x where x.export_id = id) as cells,
       (select substring(convert_from(body, 'UTF8') from 'Q (\\w+)') from intake_raw.export_chunks k where k.export_id = id) as bytes,
       _problems -> 0 ->> 'original' as problems, jsonb_array_length(_problems) as listed,
       (select count(*)::int - 1 from intake.export_rows r where r.export_id = id) as others
     from intake.exports order by id`,
  ),
})

const whole = (id: string, night: string) => ({
  ...{ id, columns: night, rows: night, cells: night, bytes: night, problems: night, listed: 1 },
  others: night.length,
})

test.each([
  ['notes that the export changed', 'night', 'e2', 'before update on intake_raw.records'],
  ['stores the file', 'nightx', 'e2', 'before insert on intake_raw.export_files'],
  ['stores its bytes', 'nightxx', 'e3', 'before insert on intake_raw.export_chunks'],
  ['stores its rows', 'nightxxx', 'e2', 'before insert on intake.export_rows'],
  ['stores its cells', 'nightxxxx', 'e3', 'before insert on intake.export_cells'],
  ['stores its columns', 'nightxxxxx', 'e1', 'before insert on intake.export_columns'],
  ['stores its problems', 'nightxxxxxx', 'e2', 'before update of _problems on intake.exports'],
  ['counts problems', 'nightxxxxxxx', '', 'before update on intake_ops.problems'],
  ['moves the cursor', 'nightxxxxxxxx', '', 'before update of cursor on intake_ops.checkpoints'],
])(
  'where it %s: each file is of one night, and the next run loads the rest',
  async (_, night, which, when) => {
    const before = await state()
    offer(night)
    await rows(`create trigger refuse ${when} for each row execute function public.refuse('${which}')`)
    await expect(runExports(service.url, database.url)).rejects.toThrow()
    await rows(`drop trigger refuse on ${when.split(' on ')[1]}`)
    const between = await state()
    expect(between.cursor).toEqual(before.cursor)
    for (const [at, id] of IDS.entries())
      expect([before.nights[at], whole(id, night)]).toContainEqual(between.nights[at])
    if (which !== '') expect(between.nights).toContainEqual(before.nights[IDS.indexOf(which)])
    const { note } = await runExports(service.url, database.url)
    expect(note).toEqual({ text: null, attention: false })
    const after = await state()
    expect(after.nights).toEqual(IDS.map((id) => whole(id, night)))
    expect(after.cursor).not.toEqual(before.cursor)
  },
)

test('the tables are those of a fresh load after that, and another run changes none of them', async () => {
  await using fresh = await createTestDatabase()
  await runExports(service.url, fresh.url)
  expect(await shownTables(database.url)).toEqual(await shownTables(fresh.url))
  const before = await rowVersions(database.url)
  expect((await runExports(service.url, database.url)).tally).toMatchObject({ changed: 0, unchanged: 3 })
  expect(await rowVersions(database.url)).toEqual(before)
})

test('a run that is stopped while a file comes leaves the file of the night before, and asks for it again', async () => {
  const [before, stop] = [await state(), new AbortController()]
  offer('stopped')
  service.interfere = (request, response) => {
    if (idIn(request) !== 'e2') return false
    response.writeHead(200, { 'content-type': 'text/plain' }).write(`${HEADER},Q stopped\np1,stop`)
    stop.abort(new Error('SIGTERM'))
    return true
  }
  await expect(runExports(service.url, database.url, { signal: stop.signal })).rejects.toThrow()
  const between = await state()
  expect([between.cursor, between.nights[1]]).toEqual([before.cursor, before.nights[1]])
  service.interfere = () => false
  await runExports(service.url, database.url)
  expect((await state()).nights).toEqual(IDS.map((id) => whole(id, 'stopped')))
})
