/** Migrations: all or nothing, once, even when several processes try; and each role has its privileges and no more. */
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { migrate, migrationStatus, requireMigrated } from '../../src/analytics/migrate.ts'
import { openEmbedded } from '../../src/embedded/server.ts'
import { migrationFiles } from '../../src/warehouse/migrations.ts'
import { createTestDatabase, type TestDatabase } from '../support/database.ts'
import { cleanUp, temporaryDirectory } from '../support/embedded-fixture.ts'

async function query<Row extends object = Record<string, unknown>>(
  url: string,
  ...statements: string[]
): Promise<Row[]> {
  const client = new pg.Client({ connectionString: url, application_name: 'migrate test' })
  client.on('error', () => undefined)
  await client.connect()
  try {
    let rows: Row[] = []
    for (const statement of statements) rows = (await client.query<Row>(statement)).rows
    return rows
  } finally {
    await client.end()
  }
}

/** Our tables in a database, except those of the migrator. */
const tablesOf = async (url: string) =>
  (
    await query<{ name: string }>(
      url,
      `select format('%I.%I', schemaname, tablename) as name from pg_tables
       where schemaname like 'intake%' and tablename not in ('migrations', 'migrations_lock') order by 1`,
    )
  ).map((row) => row.name)

let all: readonly string[]
beforeAll(async () => {
  all = Object.keys(await migrationFiles.getMigrations()).sort()
})

test('an empty database has everything pending, and migrate --status changes nothing', async () => {
  await using database = await createTestDatabase({ empty: true })
  expect(await migrationStatus(database.url)).toEqual({ applied: [], pending: all })
  expect(await query(database.url, `select nspname from pg_namespace where nspname like 'intake%'`)).toEqual(
    [],
  )
  await expect(requireMigrated(database.url)).rejects.toMatchObject({
    code: 'database_behind',
    verdict: 'stop',
    hint: 'run intake-sync migrate',
  })
})

test('migrating applies everything once, and nothing the second time', async () => {
  await using database = await createTestDatabase({ empty: true })
  expect(await migrate(database.url)).toEqual({
    applied: all,
    pending: [],
    migrated: all,
    rolesNote: null,
    notes: [],
  })
  const tables = await tablesOf(database.url)
  expect(tables).toContain('intake.patients')
  expect(await migrate(database.url)).toEqual({
    applied: all,
    pending: [],
    migrated: [],
    rolesNote: null,
    notes: [],
  })
  expect(await migrationStatus(database.url)).toEqual({ applied: all, pending: [] })
  expect(await tablesOf(database.url)).toEqual(tables)
  await requireMigrated(database.url)
})

test('when four processes migrate one database at once, one does the work and the others find it done', async () => {
  await using database = await createTestDatabase({ empty: true })
  const reports = await Promise.all([1, 2, 3, 4].map(() => migrate(database.url)))
  expect(reports.map((report) => report.migrated.length).sort()).toEqual([0, 0, 0, all.length])
  for (const report of reports) expect(report).toMatchObject({ applied: all, pending: [], rolesNote: null })
})

test('a database that a newer version migrated is rejected and not changed', async () => {
  await using database = await createTestDatabase()
  await query(
    database.url,
    `insert into intake_ops.migrations values ('9998_tomorrow', '2030-01-02T00:00:00.000Z'), ('9999_today', '2030-01-01T00:00:00.000Z'), ('9997_tomorrow', '2030-01-02T00:00:00.000Z')`,
  )
  for (const attempt of [migrate, migrationStatus, requireMigrated]) {
    await expect(attempt(database.url)).rejects.toMatchObject({
      code: 'database_ahead',
      verdict: 'stop',
      message: 'the database was migrated by a newer version (9999_today, 9997_tomorrow, 9998_tomorrow)',
      hint: expect.stringMatching(/from before 2030-01-01T00:00:00\.000Z$/),
    })
  }
})

test('a failing migration leaves none applied, and succeeds once its obstacle is removed', async () => {
  await using database = await createTestDatabase({ empty: true })
  await query(database.url, 'create schema intake', 'create table intake.documents (stranger text)')
  await expect(migrate(database.url)).rejects.toMatchObject({
    code: 'migration_failed',
    message: expect.stringMatching(/^migration 0004_\w+ failed: .*nothing was changed$/),
  })
  expect(await tablesOf(database.url)).toEqual(['intake.documents'])
  expect(await migrationStatus(database.url)).toEqual({ applied: [], pending: all })
  await query(database.url, 'drop table intake.documents')
  expect(await migrate(database.url)).toMatchObject({ migrated: all, pending: [] })
})

test('a database that cannot store every text is refused before anything is changed', async () => {
  await using latin = await createTestDatabase({ empty: true, encoding: 'LATIN1' })
  await expect(migrate(latin.url)).rejects.toMatchObject({
    code: 'migration_failed',
    message: 'the database is encoded in LATIN1, which cannot store every text; nothing was changed',
    hint: expect.stringContaining("encoding 'UTF8'"),
  })
  expect(await query(latin.url, `select to_regnamespace('intake_ops') is null as clean`)).toEqual([
    { clean: true },
  ])
})

test('words are found in a database that takes bytes for characters, as in others', async () => {
  await using bytes = await createTestDatabase({ empty: true, encoding: 'SQL_ASCII' })
  await migrate(bytes.url)
  const asks = `intake_ops.asks_age('Votre ÂGE ?') as age, intake_ops.asks_year('Née en') as year, intake_ops.asks_age('mAÑOSo') as other`
  expect(await query(bytes.url, `select ${asks}`)).toEqual([{ age: true, year: true, other: false }])
})

describe('a role', () => {
  /** The statements change nothing. */
  let database: TestDatabase

  beforeAll(async () => {
    database = await createTestDatabase()
    return () => database.drop()
  })

  /** The SQLSTATE with which each statement ends for a login with only that role; null if it succeeds. */
  async function endings(role: string, statements: readonly string[]): Promise<(string | null)[]> {
    const client = new pg.Client({ connectionString: database.url, application_name: 'migrate test' })
    await client.connect()
    try {
      await client.query(`set role ${role}`)
      const ends: (string | null)[] = []
      for (const statement of statements)
        ends.push(
          await client.query(statement).then(
            () => null,
            (error: { code?: string }) => String(error.code),
          ),
        )
      return ends
    } finally {
      await client.end()
    }
  }

  /** Tables that a login with only that role may read. */
  async function readable(role: string): Promise<Record<string, boolean>> {
    const tables = Object.keys(NOTHING)
    const reading = tables.map((table) => `select from ${table} limit 1`)
    const ends = await endings(role, reading)
    for (const end of ends) expect([null, '42501']).toContain(end)
    return Object.fromEntries(tables.map((table, at) => [table, ends[at] === null]))
  }

  const NOTHING = {
    'intake.patients': false,
    'intake.teams': false,
    'intake_raw.records': false,
    'intake_raw.set_aside': false,
    'intake_ops.dead_letters': false,
    'intake_ops.migrations': false,
    'intake_ops.webhook_secrets': false,
  }

  test('of an analyst reads nothing identified, raw or operational', async () => {
    expect(await readable('intake_analyst')).toEqual(NOTHING)
    // It may use the schema, but not that view.
    expect(await endings('intake_analyst', ['select from intake_analytics.nothing'])).toEqual(['42P01'])
  })

  test('of a researcher reads nothing of these, nor of the analysts', async () => {
    expect(await readable('intake_researcher')).toEqual(NOTHING)
    const statements = ['select from intake_safe_harbor.patients', 'select from intake_analytics.patients']
    expect(await endings('intake_researcher', statements)).toEqual([null, '42501'])
  })

  test('of a clinician reads the normalized tables, and no others', async () => {
    expect(await readable('intake_clinical')).toEqual({
      ...NOTHING,
      'intake.patients': true,
      'intake.teams': true,
    })
  })

  test.each(['intake_analyst', 'intake_clinical', 'intake_researcher'])('%s writes nothing', async (role) => {
    const statements = [
      `insert into intake.teams (name) values ('x')`,
      'delete from intake.patients',
      'update intake_raw.records set deleted = true',
      'create table intake.mine ()',
      'create table intake_analytics.mine ()',
    ]
    expect(await endings(role, statements)).toEqual(statements.map(() => '42501'))
  })

  test('of the loader reads and writes every table, and alters none', async () => {
    const statements = (await tablesOf(database.url)).flatMap((table) => [
      `select from ${table} limit 1`,
      `delete from ${table} where false`,
    ])
    expect(statements.length).toBeGreaterThan(20)
    expect(await endings('intake_loader', statements)).toEqual(statements.map(() => null))
    expect(await endings('intake_loader', ['drop table intake.patients'])).toEqual(['42501'])
  })

  test('cannot log in', async () => {
    const roles = await query(
      database.url,
      `select rolname, rolcanlogin, rolsuper, rolcreaterole, rolcreatedb from pg_roles where rolname in ('intake_loader', 'intake_analyst', 'intake_clinical', 'intake_researcher') order by 1`,
    )
    const not = { rolcanlogin: false, rolsuper: false, rolcreaterole: false, rolcreatedb: false }
    expect(roles).toEqual(
      ['intake_analyst', 'intake_clinical', 'intake_loader', 'intake_researcher'].map((rolname) => ({
        rolname,
        ...not,
      })),
    )
  })
})

describe('on a server without any of the roles', () => {
  let server: Awaited<ReturnType<typeof openEmbedded>>

  beforeAll(async () => {
    server = await openEmbedded({ dataDir: temporaryDirectory(), unsafe: true })
  })

  afterAll(async () => {
    await server.stop()
    await cleanUp()
  })

  const urlOf = (database: string, user?: string) => {
    const url = new URL(server.url)
    url.pathname = `/${database}`
    if (user !== undefined) Object.assign(url, { username: user, password: 'p' })
    return url.href
  }

  const roles = async () =>
    (
      await query<{ rolname: string }>(
        server.url,
        `select rolname from pg_roles where rolname like 'intake\\_%' order by 1`,
      )
    ).map((row) => row.rolname)

  test('a user who may not create roles migrates all the same and gets a warning; one who may adds them later', async () => {
    await query(server.url, `create role plain login password 'p'`, 'create database modest owner plain')
    const report = await migrate(urlOf('modest', 'plain'))
    expect(report).toMatchObject({ migrated: all, pending: [] })
    expect(report.rolesNote).toMatch(/this user may not create or grant them/)
    expect(await roles()).toEqual([])
    await requireMigrated(urlOf('modest', 'plain'))

    expect(await migrate(urlOf('modest'))).toMatchObject({ migrated: [], rolesNote: null, notes: [] })
    expect(await roles()).toEqual(['intake_analyst', 'intake_clinical', 'intake_loader', 'intake_researcher'])
    expect(await query(urlOf('modest'), 'set role intake_clinical', 'select from intake.patients')).toEqual(
      [],
    )
  })

  test('where only the youngest role is missing, the others get their grants on what is new', async () => {
    await query(urlOf('modest'), 'drop owned by intake_researcher', 'drop role intake_researcher')
    await query(urlOf('modest'), 'revoke all on schema intake_exports from intake_analyst')
    const { rolesNote } = await migrate(urlOf('modest', 'plain'))
    expect(rolesNote).toMatch(/^the role intake_researcher is not in place/)
    const granted = `select has_schema_privilege('intake_analyst', 'intake_exports', 'usage') as usage`
    expect(await query(urlOf('modest'), granted)).toEqual([{ usage: true }])
    expect(await migrate(urlOf('modest'))).toMatchObject({ migrated: [], rolesNote: null })
    expect(
      await query(urlOf('modest'), 'set role intake_researcher', 'select from intake_safe_harbor.patients'),
    ).toEqual([])
  })

  test('databases of one server that are migrated at once all get their grants', async () => {
    const modest = ['intake_loader', 'intake_analyst', 'intake_clinical', 'intake_researcher'].flatMap(
      (role) => [`drop owned by ${role}`, `drop role ${role}`],
    )
    await query(urlOf('modest'), ...modest)
    const names = ['twin_a', 'twin_b', 'twin_c']
    for (const name of names) await query(server.url, `create database ${name}`)
    const reports = await Promise.all(names.map((name) => migrate(urlOf(name))))
    expect(reports.map((report) => [report.migrated.length, report.rolesNote])).toEqual(
      names.map(() => [all.length, null]),
    )
    for (const name of names) {
      expect(await query(urlOf(name), 'set role intake_clinical', 'select from intake.patients')).toEqual([])
    }
  })
})
