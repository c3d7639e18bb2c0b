/** After a load: statistics of the planner for tables that have none or have outgrown theirs, and views that are missing. */
import { expect, test } from 'vitest'
import { refreshAnalytics } from '../../src/analytics/refresh.ts'
import { openSession } from '../../src/warehouse/connect.ts'
import { query } from '../e2e/support/scene.ts'
import { createTestDatabase } from '../support/database.ts'
import { partition } from '../support/partition.ts'

const ROWS = 10_000

const put = (first: number, rows: number) => `
  insert into intake.patients (team_id, id, address, _version, _origin)
  select 1, 'p' || n, repeat('x', 100), now(), 'test' from generate_series(${first}, ${first + rows - 1}) n`

async function refresh(url: string): Promise<void> {
  await using session = await openSession({ url, purpose: 'test' })
  expect(await refreshAnalytics(session.db)).toBeNull()
}

/** -1 without statistics. */
async function known(url: string, table = 'patients'): Promise<number> {
  const [row] = await query<{ rows: number }>(
    url,
    `select reltuples::int as rows from pg_class where oid = '${table.includes('.') ? table : `intake.${table}`}'::regclass`,
  )
  return row!.rows
}

test('a large table that has no statistics has them when the refresh is over; a small one, or one that has them, is left alone', async () => {
  await using database = await createTestDatabase()
  const { url } = database
  await query(url, 'alter table intake.patients set (autovacuum_enabled = false)')
  await query(url, `insert into intake.teams (name) values ('default'); ${put(1, ROWS)}`)
  await query(url, `insert into intake.forms (team_id, id, _version, _origin) values (1, 'f', now(), 'test')`)
  await query(
    url,
    `alter table intake_raw.records set (autovacuum_enabled = false);
     insert into intake_raw.records (team_id, stream, id, version, observed_at, hash, origin)
       select 1, 'patients', repeat('x', 100) || n, now(), now(), '', 'test' from generate_series(1, ${ROWS}) n;
     create table public.patients with (autovacuum_enabled = false) as select * from intake.patients`,
  )
  await refresh(url)
  expect([await known(url), await known(url, 'forms')]).toEqual([ROWS, -1])
  // So have payloads; a table of somebody else has not.
  expect([await known(url, 'intake_raw.records'), await known(url, 'public.patients')]).toEqual([ROWS, -1])
  await query(url, put(ROWS + 1, ROWS))
  await refresh(url)
  expect(await known(url)).toBe(ROWS)
})

test('the views of a newer version stay as they are; those that were dropped come back when this one is the newest', async () => {
  await using database = await createTestDatabase()
  const { url } = database
  await query(
    url,
    `drop view intake_analytics.daily_volume;
     insert into intake_ops.migrations (name, timestamp) values ('9999_later', '2026-01-01T00:00:00.000Z')`,
  )
  const has = () => query(url, `select to_regclass('intake_analytics.daily_volume') is not null as view`)
  await refresh(url)
  expect(await has()).toEqual([{ view: false }])
  await query(url, `delete from intake_ops.migrations where name = '9999_later'`)
  await refresh(url)
  expect(await has()).toEqual([{ view: true }])
})

test('a table of partitions gets statistics again when it has a fifth more rows, by those of its partitions', async () => {
  await using database = await createTestDatabase()
  const { url } = database
  await query(url, `insert into intake.teams (name) values ('default')`)
  {
    await using session = await openSession({ url, purpose: 'test' })
    await session.client.query(`set application_name = 'partitions'`)
    await partition(session.client, 2)
  }
  const parts = await query<{ name: string }>(
    url,
    `select inhrelid::regclass::text as name from pg_inherits where inhparent = 'intake.patients'::regclass`,
  )
  for (const { name } of parts) await query(url, `alter table ${name} set (autovacuum_enabled = false)`)
  const analyzed = async (text: string) => {
    await query(url, text)
    // As autovacuum does: the partitions, not the whole.
    for (const { name } of parts) await query(url, `analyze ${name}`)
    await refresh(url)
    return known(url)
  }
  expect(await analyzed(put(1, ROWS))).toBe(ROWS)
  expect(await analyzed(put(ROWS + 1, ROWS / 10))).toBe(ROWS)
  expect(await analyzed(put(ROWS * 1.1 + 1, ROWS / 5))).toBe(ROWS * 1.3)
})
