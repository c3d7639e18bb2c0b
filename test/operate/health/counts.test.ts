/** Counts of records are kept in the transactions that change records, and `status` reads them instead of the records. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { sumUpCounts } from '../../../src/operate/health/counts.ts'
import { readStatus } from '../../../src/operate/health/status.ts'
import { openSession, type Session } from '../../../src/warehouse/connect.ts'
import { tryLock } from '../../../src/warehouse/locks.ts'
import { listTeams } from '../../../src/warehouse/teams.ts'
import { openChoice } from '../../simulate/choice.ts'
import { createTestDatabase, type TestDatabase } from '../../support/database.ts'

let database: TestDatabase
let session: Session
beforeAll(async () => {
  database = await createTestDatabase()
  session = await openSession({ url: database.url, purpose: 'counts' })
  await session.client.query(
    `insert into intake.teams (name) values ('north'), ('south') on conflict do nothing`,
  )
})
afterAll(async () => {
  await session?.close()
  await database?.drop()
})

const STREAMS = ['patients', 'forms', 'responses']

const counted = `
  select team.name as team, stream, count(record.id) filter (where not deleted)::int as rows,
    count(record.id) filter (where deleted)::int as deleted, to_json(max(version)) #>> '{}' as newest_record_at
  from intake.teams team cross join unnest($1::text[]) as stream
  left join intake_raw.records record using (team_id, stream)
  group by 1, 2 order by 1, 2`

async function expectExact(): Promise<void> {
  const { rows } = await session.client.query(counted, [STREAMS])
  const { streams } = await readStatus(database.url, 30)
  const shown = streams
    .filter(({ stream }) => STREAMS.includes(stream))
    .map(({ team, stream, rows, deleted, newest_record_at }) => ({
      team,
      stream,
      rows,
      deleted,
      newest_record_at,
    }))
    .sort((a, b) => (`${a.team} ${a.stream}` < `${b.team} ${b.stream}` ? -1 : 1))
  expect(shown).toEqual(rows)
  const live = (team: string) =>
    rows.filter((row) => row.team === team).reduce((sum, row) => sum + row.rows, 0)
  for (const team of await listTeams(database.url)) expect(team.rows).toBe(live(team.name))
}

const KEYS = `(select team_id from intake.teams order by team_id offset $1 limit 1)`
const STATES = `
  select ${KEYS}, $2::text, 'id ' || (random_ids.n * 7919 + $3::int) % 60, '2026-01-01'::timestamptz + make_interval(secs => ($4::int * random_ids.n) % 977),
    now(), random_ids.n % 5 = 0, '\\x00'::bytea, 'test'
  from generate_series(1, $5::int) as random_ids (n)`
const COLUMNS = '(team_id, stream, id, version, observed_at, deleted, hash, origin)'

const GIVEN = `(${STATES}) as given ${COLUMNS}`
const OWN = '(r.team_id, r.stream, r.id) = (given.team_id, given.stream, given.id)'

const STATEMENTS = [
  `insert into intake_raw.records ${COLUMNS} select distinct on (id) * from ${GIVEN} order by id, version
   on conflict do nothing`,
  `insert into intake_raw.records as current ${COLUMNS} select distinct on (id) * from ${GIVEN} order by id, version
   on conflict (team_id, stream, id) do update set version = excluded.version, deleted = excluded.deleted`,
  `update intake_raw.records r set version = r.version - interval '1 hour', deleted = not r.deleted from ${GIVEN} where ${OWN}`,
  `delete from intake_raw.records r using ${GIVEN} where ${OWN}`,
]

test('counts and the newest version are exact after any writes, rolled back or not, and after summing up', async () => {
  const random = openChoice(7)
  const writers = await Promise.all(
    [1, 2, 3].map(() => openSession({ url: database.url, purpose: 'writer' })),
  )
  const write = async ({ client }: Session) => {
    await client.query('begin')
    for (let at = random.below(3); at >= 0; at--) {
      const statement = random.one(STATEMENTS)
      await client.query(statement, [
        ...[random.below(2), random.one(STREAMS), random.below(60), 1 + random.below(500)],
        1 + random.below(8),
      ])
    }
    await client.query(random.chance(0.2) ? 'rollback' : 'commit')
  }
  try {
    for (let round = 0; round < 60; round++) {
      await write(writers[round % 3]!)
      if (round % 4 === 0) await expectExact()
      if (round % 15 === 14) {
        await sumUpCounts(session.db)
        await expectExact()
      }
    }
  } finally {
    for (const writer of writers) await writer.close()
  }
})

test.each(['first', 'last'])(
  'the newest version is exact if a delete that overlaps an insert commits %s',
  async (order) => {
    await session.client.query('truncate intake_raw.records')
    const insert = `insert into intake_raw.records ${COLUMNS} values (1, 'patients', $1, $2, now(), false, '\\x00', 'test')`
    await session.client.query(insert, ['old', '2026-01-01'])
    await session.client.query(insert, ['newest', '2026-01-02'])
    await using writer = await openSession({ url: database.url, purpose: 'writer' })
    for (const { client } of [session, writer]) await client.query('begin')
    await session.client.query(`delete from intake_raw.records where id = 'newest'`)
    await writer.client.query(insert, ['newer', '2026-01-03'])
    const both = [session, writer]
    for (const { client } of order === 'first' ? both : both.toReversed()) await client.query('commit')
    await expectExact()
    await session.client.query(`delete from intake_raw.records where id = 'newer'`)
    await expectExact()
    await sumUpCounts(session.db)
    await expectExact()
  },
)

test('summing up leaves one row of a stream with many changes, and waits for no writer', async () => {
  await session.client.query('truncate intake_raw.records')
  await expectExact()
  const one = `insert into intake_raw.records ${COLUMNS} values (1, 'patients', $1, now(), now(), false, '\\x00', 'test')`
  for (let at = 0; at < 600; at++) await session.client.query(one, [`p${at}`])
  await using writer = await openSession({ url: database.url, purpose: 'writer' })
  await writer.client.query('begin')
  await writer.client.query(one, ['late'])
  const rows = async () =>
    (await session.client.query('select live::int from intake_ops.record_counts order by live desc')).rows
  await Promise.all([sumUpCounts(session.db), sumUpCounts(writer.db)])
  await writer.client.query('commit')
  expect((await rows()).reduce((sum, row) => sum + row.live, 0)).toBe(601)
  expect((await rows()).length).toBeLessThan(4)
  await expectExact()
})

test('a single row of counts whose newest record may be gone is replaced, with the same totals', async () => {
  await session.client.query('truncate intake_raw.records, intake_ops.record_counts')
  const insert = `insert into intake_raw.records ${COLUMNS} values (2, $1, $2, $3, now(), $4, '\\x00', 'test')`
  for (const stream of ['forms', 'patients'])
    for (const [id, day, deleted] of [
      ['a', 1, false],
      ['b', 2, false],
      ['c', 3, true],
    ] as const)
      await session.client.query(insert, [stream, id, `2026-01-0${day}`, deleted])
  await sumUpCounts(session.db)
  // The state after another session has summed up a statement that changed all records.
  await session.client.query(`
    with old as (delete from intake_ops.record_counts returning *)
    insert into intake_ops.record_counts (team_id, stream, live, deleted, newest, gone)
    select team_id, stream, sum(live), sum(deleted), max(newest), max(newest) + interval '1 day' from old group by 1, 2`)
  await sumUpCounts(session.db)
  await expectExact()
  const { rows } = await session.client.query(
    'select stream, live::int, deleted::int, gone from intake_ops.record_counts order by stream',
  )
  expect(rows).toEqual(['forms', 'patients'].map((stream) => ({ stream, live: 2, deleted: 1, gone: null })))
})

test('summed up for some teams, the rows of others stay as they are; while another session does it, all stay', async () => {
  await session.client.query('truncate intake_raw.records, intake_ops.record_counts')
  for (const team of [1, 2])
    await session.client.query(
      `insert into intake_ops.record_counts (team_id, stream, live, deleted)
       select $1, stream, 1, 0 from generate_series(1, 500), unnest(array['forms', 'patients']) stream`,
      [team],
    )
  await session.client.query(
    `delete from intake_ops.record_counts where ctid = (select ctid from intake_ops.record_counts where stream = 'patients' limit 1)`,
  )
  const rows = async () =>
    (
      await session.client.query(
        `select concat_ws(' ', team_id, stream, count(*), sum(live)) as line from intake_ops.record_counts
         group by team_id, stream order by 1`,
      )
    ).rows.map(({ line }) => line)
  const all = ['1 forms 500 500', '1 patients 499 499', '2 forms 500 500', '2 patients 500 500']
  expect(await rows()).toEqual(all)
  await sumUpCounts(session.db, [])
  {
    await using other = await openSession({ url: database.url, purpose: 'other' })
    expect(await tryLock(other, 'counts', 'counts')).toBe(true)
    await sumUpCounts(session.db)
  }
  expect(await rows()).toEqual(all)
  await sumUpCounts(session.db, ['south'])
  expect(await rows()).toEqual([...all.slice(0, 2), '2 forms 1 500', '2 patients 1 500'])
  // Fewer than five hundred are left to the readers.
  await sumUpCounts(session.db, ['north', 'south'])
  expect(await rows()).toEqual(['1 forms 1 500', '1 patients 499 499', '2 forms 1 500', '2 patients 1 500'])
  await session.client.query('truncate intake_ops.record_counts')
})

test('newest times too are summed up for some teams, once there are five hundred rows of a stream', async () => {
  const { client, db } = session
  await client.query('truncate intake_ops.newest_times')
  for (const team of [1, 2])
    for (const [stream, count] of [
      ['forms', 500],
      ['patients', 499],
    ] as const)
      await client.query(
        `insert into intake_ops.newest_times (team_id, stream, newest, newest_event)
         select $1, $2, '2026-01-01'::timestamptz + n * interval '1 second', '2026-02-01'::timestamptz + n * interval '1 second'
         from generate_series(1, $3::int) n`,
        [team, stream, count],
      )
  const rows = async () =>
    (
      await client.query(
        `select concat_ws(' ', team_id, stream, count(*), extract(epoch from max(newest) - '2026-01-01')::int,
           extract(epoch from max(newest_event) - '2026-02-01')::int) as line
         from intake_ops.newest_times group by team_id, stream order by 1`,
      )
    ).rows.map(({ line }) => line)
  await sumUpCounts(db, ['south'])
  expect(await rows()).toEqual([
    '1 forms 500 500 500',
    '1 patients 499 499 499',
    '2 forms 1 500 500',
    '2 patients 499 499 499',
  ])
  await sumUpCounts(db)
  expect(await rows()).toEqual([
    '1 forms 1 500 500',
    '1 patients 499 499 499',
    '2 forms 1 500 500',
    '2 patients 499 499 499',
  ])
  await client.query('truncate intake_ops.newest_times')
})

test('status reads no record', async () => {
  const reads = async () => {
    await session.client.query('select pg_stat_force_next_flush()')
    const { rows } = await session.client.query(
      `select coalesce(seq_scan, 0) + coalesce(idx_scan, 0) as scans from pg_stat_user_tables
       where schemaname = 'intake_raw' and relname = 'records'`,
    )
    return Number(rows[0].scans)
  }
  await session.client.query('delete from intake_ops.record_counts where gone is not null')
  const before = await reads()
  await readStatus(database.url, 30)
  await listTeams(database.url)
  expect(await reads()).toBe(before)
  // The figure does count reads.
  await session.client.query('select count(*) from intake_raw.records')
  expect(await reads()).toBeGreaterThan(before)
})
