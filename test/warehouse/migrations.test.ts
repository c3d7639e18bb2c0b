/** The applied migrations, and roles that another database may be granting at the same time; the server is played here. */
import type { ClientBase } from 'pg'
import { expect, test } from 'vitest'
import { databaseOf, openSession } from '../../src/warehouse/connect.ts'
import {
  appliedTo,
  ensureRoles,
  isAhead,
  migrationFiles,
  runsInBatches,
  statementsIn,
} from '../../src/warehouse/migrations.ts'
import { createTestDatabase } from '../support/database.ts'

type Answer = { readonly code: string } | readonly object[]

/** A server that answers each statement with the next of these, which is an error if it has a code. */
function serverWith(...answers: readonly Answer[]) {
  const statements: string[] = []
  const query = async (text: string) => {
    const answer = answers[statements.length]
    statements.push(text)
    if (answer === undefined) throw new Error(`an unexpected statement: ${text}`)
    if ('code' in answer) throw Object.assign(new Error('of the server'), answer)
    return { command: 'SELECT', rowCount: answer.length, rows: answer }
  }
  return { db: databaseOf({ query } as unknown as ClientBase), statements }
}

const roles = async (...answers: readonly Answer[]) => {
  const { db, statements } = serverWith(...answers)
  return [await ensureRoles(db), statements.length]
}
const collision = { code: 'XX000' }
const ROLE = [{}]

test('roles are created anew where another database of the server did the same at this moment, up to five times', async () => {
  expect(await roles([], ROLE)).toEqual([null, 2])
  expect(await roles(collision, { code: '23505' }, collision, collision, [], ROLE)).toEqual([null, 6])
  await expect(roles(collision, collision, collision, collision, collision, [], ROLE)).rejects.toMatchObject(
    collision,
  )
  await expect(roles({ code: '40P01' }, [], ROLE)).rejects.toMatchObject({ code: '40P01' })
})

test('who may not create roles can migrate, and hears what is missing', async () => {
  for (const code of ['42501', '42704'])
    expect(await roles({ code })).toEqual([
      'roles intake_loader, intake_analyst, intake_clinical and intake_researcher are not in place: this user may not create or grant them; create them as a superuser and migrate again',
      1,
    ])
  expect(await roles([], [])).toEqual([
    'the role intake_researcher is not in place: this user may not create it; create it as a superuser and migrate again',
    2,
  ])
})

test('a database without our schemas has no migrations, and another failure is no such database', async () => {
  for (const code of ['42P01', '3F000']) expect(await appliedTo(serverWith({ code }).db)).toEqual([])
  await expect(appliedTo(serverWith({ code: '42501' }).db)).rejects.toMatchObject({ code: '42501' })
  const applied = [{ name: '0001_x', timestamp: '2026-01-01T00:00:00.000Z' }]
  expect(await appliedTo(serverWith(applied).db)).toEqual(applied)
})

test('migrations are listed as they were applied, and by name where that was at the same time', async () => {
  await using database = await createTestDatabase()
  await using session = await openSession({ url: database.url, purpose: 'test' })
  await session.client.query(`
    delete from intake_ops.migrations;
    insert into intake_ops.migrations (name, timestamp) values ('0001_c', '2026-01-02'), ('0003_b', '2026-01-01'), ('0002_a', '2026-01-01')`)
  expect((await appliedTo(session.db)).map(({ name }) => name)).toEqual(['0002_a', '0003_b', '0001_c'])
})

test('a database is ahead where it has a migration that this version does not know', async () => {
  const names = Object.keys(await migrationFiles.getMigrations())
  expect(names).toEqual(names.toSorted())
  expect(names[0]).toMatch(/^0001_/)
  const isAheadWith = (...applied: string[]) => isAhead(serverWith(applied.map((name) => ({ name }))).db)
  expect(await isAheadWith()).toBe(false)
  expect(await isAheadWith(...names)).toBe(false)
  expect(await isAheadWith(...names, '9999_later')).toBe(true)
})

test('a migration in batches was executed before its turn, and says so in its first line', async () => {
  expect([
    runsInBatches('-- In batches\nselect 1'),
    runsInBatches('\n-- In batches'),
    runsInBatches(''),
  ]).toEqual([...[true, false, false]])
})

test('statements are those between semicolons, without comments before them', () => {
  expect(statementsIn('')).toEqual([])
  expect(statementsIn(' ; ;\n-- only this')).toEqual([])
  expect(statementsIn('select 1')).toEqual(['select 1'])
  expect(statementsIn('-- a\n\n  -- b\nselect 1 -- c; d\n; select 2;')).toEqual([
    'select 1 -- c; d',
    'select 2',
  ])
  expect(statementsIn('do $a$ x; $b$ y; $a$; select 3')).toEqual(['do $a$ x; $b$ y; $a$', 'select 3'])
})
