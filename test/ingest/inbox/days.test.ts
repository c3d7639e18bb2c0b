/** Days of the inbox: created ahead, filled from the default partition, dropped when all is settled, without blocking ingest. */
import { readFileSync } from 'node:fs'
import pg from 'pg'
import { describe, expect, it } from 'vitest'
import { keepInboxDays } from '../../../src/ingest/inbox/days.ts'
import { createTestDatabase } from '../../support/database.ts'
import { query } from '../support/ingest.ts'

const DAY = 86_400_000
const dayOf = (now: Date, ahead: number) => new Date(now.getTime() + ahead * DAY).toISOString().slice(0, 10)
const partitionOf = (day: string) => `inbox_${day.replaceAll('-', '')}`

async function partitions(url: string): Promise<readonly string[]> {
  const rows = await query<{ name: string }>(
    url,
    `select inhrelid::regclass::text as name from pg_inherits
     where inhparent = 'intake_raw.inbox'::regclass order by 1`,
  )
  return rows.map(({ name }) => name.replace('intake_raw.', ''))
}

/** Stores an event of `day`; settled that many days before `now` if given. */
async function put(url: string, id: string, day: string, settledAt: Date | null = null): Promise<void> {
  await query(
    url,
    `insert into intake_raw.inbox (team_id, event_id, body_hash, received_on, received_at, body, status, settled_at)
     values (1, $1, '\\x00', $2::date, $2::date, 'x', case when $3::timestamptz is null then 'pending' else 'done' end, $3)`,
    [id, day, settledAt],
  )
}

const whereIs = async (url: string, id: string) =>
  (
    await query<{ place: string }>(
      url,
      'select tableoid::regclass::text as place from intake_raw.inbox where event_id = $1',
      [id],
    )
  )[0]?.place.replace('intake_raw.', '')

describe('days', () => {
  it('are created ahead, each once', async () => {
    await using database = await createTestDatabase()
    const now = new Date()
    expect(await keepInboxDays(database.url, { days: 30, now })).toEqual({ created: 3, dropped: 0, moved: 0 })
    const wanted = [0, 1, 2].map((ahead) => partitionOf(dayOf(now, ahead)))
    expect(await partitions(database.url)).toEqual([...wanted, 'inbox_rest'])
    expect(await keepInboxDays(database.url, { days: 30, now })).toEqual({ created: 0, dropped: 0, moved: 0 })
    await put(database.url, 'now', dayOf(now, 0))
    expect(await whereIs(database.url, 'now')).toBe(wanted[0])
  })

  it('are created by several processes at once without errors', async () => {
    await using database = await createTestDatabase()
    const now = new Date()
    const kept = await Promise.all(
      Array.from({ length: 4 }, () => keepInboxDays(database.url, { days: 30, now })),
    )
    expect(kept.reduce((sum, { created }) => sum + created, 0)).toBeLessThanOrEqual(3)
    // On a busy machine a day may be left for the next time.
    await expect
      .poll(async () => {
        await keepInboxDays(database.url, { days: 30, now })
        return await partitions(database.url)
      })
      .toHaveLength(4)
  })

  it('take over events from the default partition, and every event stays', async () => {
    await using database = await createTestDatabase()
    const now = new Date()
    await put(database.url, 'today', dayOf(now, 0))
    await put(database.url, 'last week', dayOf(now, -7), now)
    expect(await whereIs(database.url, 'today')).toBe('inbox_rest')
    expect(await keepInboxDays(database.url, { days: 30, now })).toEqual({ created: 4, dropped: 0, moved: 2 })
    expect(await whereIs(database.url, 'today')).toBe(partitionOf(dayOf(now, 0)))
    expect(await whereIs(database.url, 'last week')).toBe(partitionOf(dayOf(now, -7)))
    expect(await query(database.url, 'select count(*)::int from intake_raw.inbox_rest')).toEqual([
      { count: 0 },
    ])
  })

  it('have comments, as every table has', async () => {
    await using database = await createTestDatabase()
    // A machine that is ten days ahead: the days of the warehouse are made too.
    const now = new Date(Date.now() + 10 * DAY)
    expect(await keepInboxDays(database.url, { days: 30, now })).toMatchObject({ created: 6 })
    const bare = await query(
      database.url,
      `select relname, attname from pg_class join pg_attribute on attrelid = pg_class.oid and attnum > 0
       where relname like 'inbox_2%' and relkind = 'r' and col_description(pg_class.oid, attnum) is null
       union all select relname, null from pg_class
       where relname like 'inbox_2%' and relkind = 'r' and obj_description(oid) is null`,
    )
    expect(bare).toEqual([])
  })
})

it('making a day may take a second, and dropping one as long as it takes; neither waits long for a lock', async () => {
  await using database = await createTestDatabase()
  const { url } = database
  const now = new Date()
  await query(url, 'select intake_raw.add_inbox_day($1, 0)', [dayOf(now, -60)])
  const wrap = (name: string, parameters: string, result: string) => `
    alter function intake_raw.${name} rename to ${name}_itself;
    create function intake_raw.${name}(day date, ${parameters}) returns ${result} language plpgsql as $$
    begin
      if day = '${dayOf(now, 1)}' then perform pg_sleep(60); end if;
      insert into seen values ('${name}', current_setting('statement_timeout'), current_setting('lock_timeout'));
      return intake_raw.${name}_itself(day, ${parameters.split(' ')[0]});
    end $$;`
  await query(
    url,
    `create table seen (step text, statements text, locks text);
     ${wrap('add_inbox_day', 'most int', 'int')} ${wrap('drop_inbox_day', 'before timestamptz', 'boolean')}`,
  )
  // A day that takes longer is left for the next time, and stops nothing else.
  expect(await keepInboxDays(url, { days: 30, now })).toEqual({ created: 2, dropped: 1, moved: 0 })
  expect(await query(url, 'select distinct * from seen order by step')).toEqual([
    { step: 'add_inbox_day', statements: '1s', locks: '100ms' },
    { step: 'drop_inbox_day', statements: '0', locks: '100ms' },
  ])
})

describe('an expired day', () => {
  it('is dropped when all of it was settled long ago, and kept as long as one event was not', async () => {
    await using database = await createTestDatabase()
    const { url } = database
    const now = new Date()
    const ago = (days: number) => new Date(now.getTime() - days * DAY)
    for (const days of [60, 50, 45, 40, 20]) {
      await query(url, 'select intake_raw.add_inbox_day($1, 0)', [dayOf(now, -days)])
    }
    await put(url, 'settled', dayOf(now, -60), ago(59))
    await put(url, 'waits', dayOf(now, -50))
    await put(url, 'waits not', dayOf(now, -50), ago(49))
    await put(url, 'settled late', dayOf(now, -45), ago(10))
    await put(url, 'recent', dayOf(now, -20), ago(20))
    const kept = await keepInboxDays(url, { days: 30, now })
    expect(kept.dropped).toBe(2)
    const rows = await query<{ event_id: string }>(url, 'select event_id from intake_raw.inbox order by 1')
    expect(rows.map((row) => row.event_id)).toEqual(['recent', 'settled late', 'waits', 'waits not'])
    expect(await partitions(url)).not.toContain(partitionOf(dayOf(now, -40)))
    await query(
      url,
      `update intake_raw.inbox set status = 'dead', settled_at = $1 where status = 'pending'`,
      [ago(31)],
    )
    expect((await keepInboxDays(url, { days: 30, now })).dropped).toBe(1)
    expect((await keepInboxDays(url, { days: 5, now })).dropped).toBe(2)
  })

  it.each(['T00:00:00.000Z', 'T12:00:00.000Z', 'T23:59:59.999Z'])(
    'is one that ended before the time that is kept, at %s',
    async (time) => {
      await using database = await createTestDatabase()
      const { url } = database
      const now = new Date(new Date().toISOString().slice(0, 10) + time)
      for (const days of [29, 30, 31, 32])
        await query(url, 'select intake_raw.add_inbox_day($1, 0)', [dayOf(now, -days)])
      // Settled a moment before the time that is kept, and after it.
      const limit = now.getTime() - 30 * DAY
      await put(url, 'before', dayOf(now, -31), new Date(limit - 1))
      await put(url, 'after', dayOf(now, -32), new Date(limit))
      expect((await keepInboxDays(url, { days: 30, now })).dropped).toBe(1)
      const left = (await partitions(url)).slice(0, 3)
      expect(left).toEqual([-32, -30, -29].map((ahead) => partitionOf(dayOf(now, ahead))))
    },
  )

  it('is left for the next time while a session reads it, and storing continues meanwhile', async () => {
    await using database = await createTestDatabase()
    const { url } = database
    const now = new Date()
    for (const days of [60, 59])
      await query(url, 'select intake_raw.add_inbox_day($1, 0)', [dayOf(now, -days)])
    const [reader, storing] = [0, 0].map(
      () => new pg.Client({ connectionString: url, application_name: 'tests' }),
    )
    await Promise.all([reader!.connect(), storing!.connect()])
    try {
      await reader!.query('begin; select * from intake_raw.inbox')
      // Longer than a drop waits for its lock at a time, and much shorter than the reader holds its own.
      await storing!.query(`set lock_timeout = '20s'`)
      let ended = false
      const keeping = keepInboxDays(url, { days: 30, now }).finally(() => {
        ended = true
      })
      for (let number = 0; number === 0 || !ended; number++) {
        await storing!.query(
          `insert into intake_raw.inbox (team_id, event_id, body_hash, received_on, received_at, body)
           values (1, $1, '\\x00', now(), now(), 'x')`,
          [`e-${number}`],
        )
      }
      expect(await keeping).toMatchObject({ dropped: 0 })
      await reader!.query('rollback')
    } finally {
      await Promise.all([reader!.end(), storing!.end()])
    }
    expect(await keepInboxDays(url, { days: 30, now })).toMatchObject({ dropped: 2 })
  })

  it('is dropped in the same round after a session that read it for a moment', async () => {
    await using database = await createTestDatabase()
    const { url } = database
    const now = new Date()
    await keepInboxDays(url, { days: 30, now })
    await query(url, 'select intake_raw.add_inbox_day($1, 0)', [dayOf(now, -60)])
    const reader = new pg.Client({ connectionString: url, application_name: 'tests' })
    const gone = new Promise((resolve) => reader.on('error', () => {}).once('end', resolve))
    await reader.connect()
    await reader.query(
      `set idle_in_transaction_session_timeout = '500ms'; begin; select * from intake_raw.inbox`,
    )
    expect(await keepInboxDays(url, { days: 30, now })).toMatchObject({ dropped: 1 })
    await gone
  })

  it('is dropped also by a login with only intake_loader', async () => {
    await using database = await createTestDatabase()
    const { url } = database
    const login = `loader_${Math.random().toString(36).slice(2)}`
    await query(url, `create role ${login} login password 'x' in role intake_loader`)
    try {
      const now = new Date()
      await query(url, 'select intake_raw.add_inbox_day($1, 0)', [dayOf(now, -60)])
      const asLoader = new URL(url)
      asLoader.username = login
      asLoader.password = 'x'
      expect(await keepInboxDays(asLoader.href, { days: 30, now })).toMatchObject({ created: 3, dropped: 1 })
    } finally {
      await query(url, `drop role ${login}`)
    }
  })

  it('without a partition of its own is removed from the default one', async () => {
    await using database = await createTestDatabase()
    const { url } = database
    const now = new Date()
    // More than are moved at once. Ten were settled lately, and one is pending again long after it was settled.
    await query(
      url,
      `insert into intake_raw.inbox (team_id, event_id, body_hash, received_on, received_at, body, status, settled_at)
       select 1, 'e-' || n, '\\x00', $1::date, $1::date, 'x', case when n = 0 then 'pending' else 'done' end,
         $1::date + case when n between 1 and 10 then 59 else 0 end
       from generate_series(0, 10010) as n`,
      [dayOf(now, -60)],
    )
    expect(await keepInboxDays(url, { days: 30, now })).toEqual({ created: 3, dropped: 0, moved: 0 })
    expect(await query(url, 'select count(*)::int from intake_raw.inbox')).toEqual([{ count: 11 }])
    expect(await keepInboxDays(url, { days: 30, now })).toEqual({ created: 1, dropped: 0, moved: 11 })
  })
})

/** Statistics that Postgres keeps about values, for its planner. */
async function sampled(url: string): Promise<readonly string[]> {
  await query(url, 'analyze')
  const rows = await query<{ name: string }>(
    url,
    `select distinct attname as name from pg_stats where schemaname = 'intake_raw' and tablename ~ '^inbox' order by 1`,
  )
  return rows.map(({ name }) => name)
}

describe('content of the inbox', () => {
  it('is not sampled by Postgres: no id of a record, no bytes, of any day', async () => {
    await using database = await createTestDatabase()
    const { url } = database
    const now = new Date()
    await put(url, 'early', dayOf(now, 0))
    await put(url, 'stray', dayOf(now, 9))
    await keepInboxDays(url, { days: 30, now })
    await put(url, 'late', dayOf(now, 1))
    await query(url, "update intake_raw.inbox set record_id = 'p' || seq")
    const names = await sampled(url)
    expect(names).toContain('event_id')
    expect(names.filter((name) => ['record_id', 'body'].includes(name))).toEqual([])
  })

  it('that was sampled before is removed by the migration that ends sampling', async () => {
    await using database = await createTestDatabase()
    const { url } = database
    const now = new Date()
    await keepInboxDays(url, { days: 30, now })
    for (const column of ['record_id', 'body'])
      await query(url, `alter table intake_raw.inbox alter column ${column} set statistics -1`)
    await put(url, 'early', dayOf(now, 0))
    await query(url, "update intake_raw.inbox set record_id = 'p' || seq")
    expect(await sampled(url)).toEqual(expect.arrayContaining(['record_id', 'body']))
    await query(
      url,
      readFileSync(new URL('../../../sql/migrations/0054_inbox_not_sampled.sql', import.meta.url), 'utf8'),
    )
    const names = await sampled(url)
    expect(names).toContain('event_id')
    expect(names.filter((name) => ['record_id', 'body'].includes(name))).toEqual([])
  })
})
