import pg from 'pg'
import { expect, inject, test } from 'vitest'
import { createTestDatabase } from './database.ts'

async function query(url: string, text: string) {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  return client.query(text).finally(() => client.end())
}

test('databases created at the same time are migrated, empty, and independent', async () => {
  const databases = await Promise.all([1, 2, 3, 4].map(() => createTestDatabase()))
  await query(databases[0]!.url, 'create table public.mine ()')
  for (const [index, { url }] of databases.entries()) {
    const { rows } = await query(
      url,
      `select to_regclass('intake.patients') is not null as ours, to_regclass('public.mine') is not null as mine`,
    )
    expect(rows).toEqual([{ ours: true, mine: index === 0 }])
  }
  await Promise.all(databases.map((database) => database.drop()))
})

test('an empty database has no schema of ours', async () => {
  await using database = await createTestDatabase({ empty: true })
  const { rows } = await query(database.url, `select nspname from pg_namespace where nspname like 'intake%'`)
  expect(rows).toEqual([])
})

test('a connection left open fails the test by its name, and its database is gone all the same', async () => {
  const database = await createTestDatabase({ empty: true })
  const forgotten = new pg.Client({ connectionString: database.url, application_name: 'forgotten' })
  forgotten.on('error', () => undefined)
  await forgotten.connect()
  await expect(database.drop()).rejects.toThrow(/1 connection.*forgotten \(idle\)/)
  const name = new URL(database.url).pathname.slice(1)
  const { rowCount } = await query(
    inject('testServer').url,
    `select from pg_database where datname = '${name}'`,
  )
  expect(rowCount).toBe(0)
})
