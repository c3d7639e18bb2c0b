/** Migrations that run in batches: each statement commits on its own, until it changes nothing; the others wait for them. */
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { migrate, migrationStatus } from '../../src/analytics/migrate.ts'
import { openWarehouse, query } from '../e2e/support/scene.ts'
import type { TestDatabase } from '../support/database.ts'

/** Files of later versions. */
const later = vi.hoisted(() => new Map<string, string>())

vi.mock('node:fs/promises', async (original) => {
  const real = await original<typeof import('node:fs/promises')>()
  const nameOf = (path: unknown) => /migrations\/(\w+\.sql)$/.exec(String(path))?.[1] ?? ''
  return {
    ...real,
    readdir: async (...[path, ...more]: Parameters<typeof real.readdir>) => [
      ...(await real.readdir(path, ...more)),
      ...(/sql\/migrations\/$/.test(String(path)) ? later.keys() : []),
    ],
    readFile: async (...args: Parameters<typeof real.readFile>) =>
      later.get(nameOf(args[0])) ?? (await real.readFile(...args)),
  }
})

let warehouse: TestDatabase
beforeAll(async () => {
  warehouse = await openWarehouse()
})
afterAll(() => warehouse.drop())

const FILL = `update intake_ops.filled set by = pg_current_xact_id()::text
  where n in (select n from intake_ops.filled where by is null order by n limit 2)`

test('what is done stays when a batch fails, and the next call goes on from there, before what comes later', async () => {
  later.set(
    '9990_rows.sql',
    'create table intake_ops.filled (n int, by text); insert into intake_ops.filled select generate_series(1, 7)',
  )
  later.set('9991_batches.sql', `-- In batches\n${FILL} and n < 3;\nupdate intake_ops.nowhere set n = 1`)
  later.set(
    '9992_after.sql',
    'create table intake_ops.after as select count(by)::int as filled from intake_ops.filled',
  )
  later.set('9993_also.sql', 'create table intake_ops.also ()')
  await expect(migrate(warehouse.url)).rejects.toMatchObject({
    code: 'migration_failed',
    message: expect.stringMatching(
      /^migration 9991_batches failed: .*; what is done stays; intake-sync migrate goes on from there$/,
    ),
  })
  expect((await migrationStatus(warehouse.url)).pending).toEqual(['9991_batches', '9992_after', '9993_also'])
  const filled = () => query(warehouse.url, 'select n, by from intake_ops.filled order by n')
  const before = await filled()
  expect(before.map(({ by }) => by === null)).toEqual([false, false, true, true, true, true, true])

  later.set('9991_batches.sql', `-- In batches\n${FILL};\n${FILL}`)
  expect(await migrate(warehouse.url)).toMatchObject({
    migrated: ['9991_batches', '9992_after', '9993_also'],
    pending: [],
  })
  const after = await filled()
  expect(after.slice(0, 2)).toEqual(before.slice(0, 2))
  const batches = after.map(({ by }) => by)
  expect(batches.map((by) => batches.indexOf(by))).toEqual([0, 0, 2, 2, 4, 4, 6])
  expect(await query(warehouse.url, 'select filled from intake_ops.after')).toEqual([{ filled: 7 }])
})

test('several wait for one another, and what fails after one is not said to be done', async () => {
  const add = (table: string) =>
    `insert into intake_ops.steps select '${table}' where not exists (select from intake_ops.steps where step = '${table}')`
  later.set(
    '9994_steps.sql',
    'create table intake_ops.steps (step text, at timestamptz default clock_timestamp())',
  )
  later.set('9995_one.sql', `-- In batches\n${add('one')}`)
  // One row at a time.
  later.set(
    '9996_two.sql',
    `-- In batches\ninsert into intake_ops.steps select 'two ' || count(*) from intake_ops.steps having count(*) < 4`,
  )
  later.set('9997_three.sql', `${add('three')}; select from intake_ops.nowhere`)
  await expect(migrate(warehouse.url)).rejects.toMatchObject({
    message: expect.stringMatching(/^migration 9997_three failed: .*; nothing was changed$/),
  })
  const steps = async () =>
    (await query(warehouse.url, 'select step from intake_ops.steps order by at')).map(({ step }) => step)
  expect(await steps()).toEqual(['one', 'two 1', 'two 2', 'two 3'])
  expect((await migrationStatus(warehouse.url)).pending).toEqual(['9996_two', '9997_three'])
  later.set('9997_three.sql', add('three'))
  expect((await migrate(warehouse.url)).migrated).toEqual(['9996_two', '9997_three'])
  expect(await steps()).toEqual(['one', 'two 1', 'two 2', 'two 3', 'three'])
})
