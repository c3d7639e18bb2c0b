/** Statistics and tables after an erasure: which tables may contain the patient, and what a login may do about them. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { systemClock } from '../../../src/core/clock.ts'
import { erase } from '../../../src/operate/erase/erase.ts'
import {
  keepersOf,
  refreshStatistics,
  tablesToRewrite,
} from '../../../src/operate/erase/refresh-statistics.ts'
import { openSession, type Session } from '../../../src/warehouse/connect.ts'
import { makeLogin } from '../../analytics/logins.ts'
import { createTestDatabase, type TestDatabase } from '../../support/database.ts'

let database: TestDatabase
let session: Session
const run = (text: string) => session.client.query(text)
beforeAll(async () => {
  database = await createTestDatabase()
  session = await openSession({ url: database.url, purpose: 'test' })
  await run(`
    insert into intake.patients (team_id, id, last_name, _version, _origin)
    select 1, n::text, 'Erased', now(), 'test' from generate_series(1, 50) n`)
})
afterAll(async () => {
  await session?.close()
  await database?.drop()
})

const known = async () => {
  const { rows } = await run(
    `select array_to_string(most_common_vals::text::text[], ',') as values from pg_stats
     where schemaname = 'intake' and tablename = 'patients' and attname = 'last_name'`,
  )
  return rows.map((row) => (row as { values: string }).values)
}

test('statistics of the values that are left are made anew by the owner of a table, and by no other login', async () => {
  await run('analyze')
  expect(await known()).toEqual(['Erased'])
  await run(`update intake.patients set last_name = 'Another'`)
  await run('set role intake_loader')
  expect(await refreshStatistics(session.db)).toBe(false)
  await run('reset role')
  expect(await known()).toEqual(['Erased'])
  await refreshStatistics(session.db)
  expect(await known()).toEqual(['Another'])
})

test('statistics of a table in partitions are made anew too, in the table and in each of its partitions', async () => {
  await run(`
    create schema if not exists intake_partitions;
    create table intake.divided (n int, name text) partition by range (n);
    create table intake_partitions.divided_0 partition of intake.divided default;
    insert into intake.divided select n, 'Erased' from generate_series(1, 50) n;
    analyze intake.divided`)
  const values = async () => {
    const { rows } = await run(
      `select tablename::text as table, array_to_string(most_common_vals::text::text[], ',') as values from pg_stats
       where tablename ~ '^divided' and attname = 'name' order by 1`,
    )
    return rows
  }
  const both = (values: string) => ['divided', 'divided_0'].map((table) => ({ table, values }))
  try {
    expect(await values()).toEqual(both('Erased'))
    await run(`update intake.divided set name = 'Another'`)
    await refreshStatistics(session.db)
    expect(await values()).toEqual(both('Another'))
  } finally {
    await run('drop table intake.divided')
  }
})

test('a table or partition without rows loses its statistics where Postgres can clear them; else that is said', async () => {
  const schemas = ['intake', 'intake_raw', 'intake_ops', 'intake_partitions', 'public']
  await run('create schema if not exists intake_partitions')
  for (const schema of schemas)
    await run(`create table ${schema}.emptied as select 'Erased' as name from generate_series(1, 50);
      create table ${schema}.still as select 'Kept' as name from generate_series(1, 50);
      analyze ${schema}.emptied, ${schema}.still; delete from ${schema}.emptied`)
  try {
    const { rows: version } = await run(
      `select current_setting('server_version_num')::int >= 180000 as clears`,
    )
    const { clears } = version[0] as { clears: boolean }
    expect(await refreshStatistics(session.db)).toBe(clears)
    const { rows } = await run(
      `select schemaname::text as schema, tablename::text as name from pg_stats where tablename in ('emptied', 'still') order by 2, 1`,
    )
    const statisticsOf = (name: string, of: readonly string[]) =>
      of.toSorted().map((schema) => ({ schema, name }))
    expect(rows).toEqual([
      ...statisticsOf('emptied', clears ? ['public'] : schemas),
      ...statisticsOf('still', schemas),
    ])
  } finally {
    for (const schema of schemas) await run(`drop table ${schema}.emptied, ${schema}.still`)
  }
})

test('all tables are rewritten but those of streams that name nobody, by a login that owns them', async () => {
  const tables = await tablesToRewrite(session.db)
  const names = tables.map(({ name }) => name)
  expect(names).toEqual(
    expect.arrayContaining([
      ...['intake.patients', 'intake.patient_tags', 'intake.responses', 'intake.response_answers'],
      ...['intake.messages', 'intake.packet_responses', 'intake.packet_response_members'],
      ...['intake.exports', 'intake.export_columns', 'intake.export_rows', 'intake.export_cells'],
      ...['intake_raw.records', 'intake_raw.record_history', 'intake_raw.inbox', 'intake_raw.set_aside'],
      ...['intake_ops.dead_letters', 'intake_ops.run_log', 'pg_catalog.pg_statistic'],
    ]),
  )
  for (const name of ['teams', 'forms', 'form_questions', 'packets', 'documents', 'webhook_configs'])
    expect(names).not.toContain(`intake.${name}`)
  expect(new Set(names).size).toBe(names.length)
  expect(tables.filter(({ own }) => !own)).toEqual([])
  expect(tables.find(({ name }) => name === 'intake.patients')!.bytes).toBeGreaterThan(8_000)
  await run('set role intake_loader')
  expect((await tablesToRewrite(session.db)).filter(({ own }) => own)).toEqual([])
  await run('reset role')
})

test('tables that the login does not own are named, and the erasure says that they were not rewritten', async () => {
  const login = await makeLogin(database.url, 'intake_loader')
  const rewriting: string[] = []
  const { rewritten, ...erased } = await erase({
    ...{ url: login.url, patient: { teamId: 1, id: '1' }, forget: false },
    onRewrite: (table) => rewriting.push(table),
    // Transactions of other tests are not waited for.
    clock: { now: systemClock.now, sleep: async () => {} },
  })
  expect(erased).toMatchObject({ login: login.name, statisticsRefreshed: false })
  expect(await run(`select from intake.patients where id = '1'`)).toMatchObject({ rowCount: 0 })
  expect([rewriting, rewritten!.tables, rewritten!.isComplete]).toEqual([[], [], false])
  expect(rewritten!.notOwned).toEqual((await tablesToRewrite(session.db)).map(({ name }) => name))
})

test('deleted rows are kept for whoever writes in any database or reads in this one, for prepared transactions and for slots', async () => {
  const { rows } = await run(
    `select pg_current_xact_id()::xid::text as same, current_database() as own, pg_backend_pid() as pid`,
  )
  const [{ same, own, pid }] = rows as [{ same: string; own: string; pid: number }]
  const [older, newer] = [Number(same) - 1, Number(same) + 1]
  // The views of Postgres, as a server could show them that has all of these.
  await run(`
    create schema shown;
    create table shown.pg_stat_activity (pid int, datname name, backend_xid xid, backend_xmin xid);
    create table shown.pg_prepared_xacts (transaction xid, database name);
    insert into shown.pg_stat_activity values
      (1, 'other', '${same}', null), (2, 'other', '${newer}', '${newer}'), (3, 'other', null, '${older}'),
      (4, '${own}', null, '${same}'), (5, '${own}', null, '${newer}'), (6, null, null, '${older}'),
      (7, '${own}', null, null), (${pid}, '${own}', '${older}', '${older}');
    insert into shown.pg_prepared_xacts values ('${older}', 'other'), ('${newer}', '${own}');
    create view shown.pg_replication_slots as
      select slot_name, xmin::xid, catalog_xmin::xid, database from (values
        ('physical', '${same}', null, null), ('logical', null, '${older}', '${own}'), ('unused', null, null, null),
        ('elsewhere', '${older}', '${older}', 'other'), ('later', '${newer}', '${newer}', '${own}')
      ) as slot (slot_name, xmin, catalog_xmin, database);
    set search_path = shown, pg_catalog`)
  try {
    expect(await keepersOf(session.db, same)).toEqual([
      'a prepared transaction of database other',
      'session 1 of database other',
      `session 4 of database ${own}`,
      'session 6',
      'the replication slot logical',
      'the replication slot physical',
    ])
  } finally {
    await run('reset search_path; drop schema shown cascade')
  }
})
