/** What the page of health says of the server, and the changes that open pages are notified of. */
import { afterAll, beforeAll, expect, it } from 'vitest'
import { readTrace } from '../../src/console/live.ts'
import { openReadings } from '../../src/console/readings.ts'
import { systemClock } from '../../src/core/clock.ts'
import { openBoundedQueries } from '../../src/warehouse/bounded-queries.ts'
import { openSession } from '../../src/warehouse/connect.ts'
import { openWarehouse, query } from '../e2e/support/scene.ts'

let warehouse: Awaited<ReturnType<typeof openWarehouse>>
const rows = (text: string) => query(warehouse.url, text)

beforeAll(async () => {
  warehouse = await openWarehouse()
  await rows(`insert into intake.teams (name) values ('north'), ('south')`)
})
afterAll(() => warehouse?.drop())

it('the server is read with its largest tables, its days, and the oldest of what is kept; its first size stays', async () => {
  await rows(`
    select intake_raw.add_inbox_day(day::date, 100) from unnest(array['2026-01-02', '2026-01-03', '2026-01-04']) day;
    insert into intake_raw.inbox (team_id, event_id, body_hash, received_on, received_at, body)
      select 1, 'e' || day, '', day::date, day::date, '{}' from unnest(array['2026-01-03', '2026-01-04']) day;
    insert into intake_raw.record_history (team_id, stream, id, version, observed_at, deleted, hash, origin, superseded_at)
      select 1, 'patients', 'p', day, day, false, '', 'x', day from unnest(array['2026-02-02', '2026-02-01']::timestamptz[]) day;
    insert into intake_ops.dead_letters (team_id, stream, fingerprint, origin, reason, status, created_at, settled_at)
      values (1, 'patients', 'a', 'x', 'x', 'waiting', '2020-01-01', null), (1, 'patients', 'b', 'x', 'x', 'discarded', '2020-01-01', '2026-03-02'),
        (1, 'patients', 'c', 'x', 'x', 'discarded', '2020-01-01', '2026-03-01');
    insert into intake_ops.runs (kind, started_at) values ('backfill', '2026-04-02'), ('backfill', '2026-04-01');
    insert into intake_ops.audit (at, login, action, object) values ('2026-05-02', 'a', 'b', 'c'), ('2026-05-01', 'a', 'b', 'c')`)
  await rows('analyze intake_raw.inbox, intake_raw.record_history, intake_ops.audit')
  const bounded = openBoundedQueries(warehouse.url)
  let later = 0
  const clock = { ...systemClock, now: () => systemClock.now() + later }
  const readings = openReadings({
    url: warehouse.url,
    inboxDays: 30,
    maxAgeHours: 26,
    checks: async () => [],
    bounded,
    clock,
  })
  try {
    const first = await readings.server.get()
    const inSeconds = (time: string | null) =>
      time === null ? null : new Date(time).toISOString().slice(0, 10)
    expect(
      Object.fromEntries(Object.entries(first.oldest).map(([name, time]) => [name, inSeconds(time)])),
    ).toEqual({
      ...{
        events: '2026-01-03',
        history: '2026-02-01',
        runs: '2026-04-01',
        deadLetters: '2026-03-01',
        audit: '2026-05-01',
      },
    })
    const [days] = await rows(`select count(*)::int as days from pg_class where relname ~ '^inbox_\\d{8}$'`)
    expect(first.inbox_days).toBe((days as { days: number }).days)
    expect(first.tables).toHaveLength(10)
    const bytes = first.tables.map((each) => each.bytes)
    expect(bytes).toEqual(bytes.toSorted((a, b) => b - a))
    const names = first.tables.map(({ name }) => name)
    expect(names.filter((name) => /inbox_\d|inbox_rest/.test(name))).toEqual([])
    expect(first.bytes).toBeGreaterThan(bytes[0]!)
    await rows(
      `create table intake_raw.large (text text);
       create index on intake_raw.large (text);
       insert into intake_raw.large select repeat('x', 1000) from generate_series(1, 5000)`,
    )
    const [whole] = await rows(
      `select pg_table_size('intake_raw.large') + pg_indexes_size('intake_raw.large') as bytes`,
    )
    later += 31_000_000
    const second = await readings.server.get()
    expect(second.bytes).toBeGreaterThan(first.bytes)
    expect(second.first).toEqual(first.first)
    // Includes its index. It may be larger: Postgres may have added a free space map meanwhile.
    expect(second.tables[0]!.bytes).toBeGreaterThanOrEqual(Number((whole as { bytes: string }).bytes))
    // Postgres has not counted it yet.
    expect(second.tables[0]).toMatchObject({ name: 'intake_raw.large', rows: 0 })
    expect(first.first).toEqual({ bytes: first.bytes, at: first.at })
  } finally {
    await bounded.close()
  }
})

it.each(['before Postgres has counted its day', 'in a day that Postgres counted while it was empty'])(
  'the oldest event is found %s, and a day that was emptied has none',
  async (when) => {
    await rows(`
    select intake_raw.add_inbox_day(day::date, 100) from unnest(array['2025-12-30', '2025-12-31']) day`)
    if (!when.startsWith('before')) await rows('analyze intake_raw.inbox_20251230, intake_raw.inbox_20251231')
    await rows(`
    insert into intake_raw.inbox (team_id, event_id, body_hash, received_on, received_at, body)
      select 1, 'e' || day, '', day::date, day::date, '{}' from unnest(array['2025-12-30', '2025-12-31']) day`)
    const bounded = openBoundedQueries(warehouse.url)
    const options = { url: warehouse.url, inboxDays: 30, maxAgeHours: 26, checks: async () => [], bounded }
    const oldest = async () => {
      const { server } = openReadings({ ...options, clock: systemClock })
      return (await server.get()).oldest.events
    }
    try {
      expect(await oldest()).toBe('2025-12-30')
      await rows(`delete from intake_raw.inbox where received_on = '2025-12-30'`)
      await rows('analyze intake_raw.inbox_20251230')
      expect(await oldest()).toBe('2025-12-31')
    } finally {
      await rows('drop table intake_raw.inbox_20251230, intake_raw.inbox_20251231')
      await bounded.close()
    }
  },
)

it('open pages are notified of runs, dead letters, events and actions, whatever team they are of', async () => {
  await using session = await openSession({ url: warehouse.url, purpose: 'test' })
  const trace = () => readTrace(session.db)
  const seen: string[] = [await trace()]
  for (const change of [
    `insert into intake_ops.runs (kind, status) values ('backfill', 'running')`,
    `update intake_ops.runs set status = 'succeeded' where run_id = (select max(run_id) from intake_ops.runs)`,
    `insert into intake_ops.run_streams (run_id, team_id, stream, status) select max(run_id), 2, 'forms', 'succeeded' from intake_ops.runs`,
    `insert into intake_ops.dead_letters (team_id, stream, fingerprint, origin, reason) values (2, 'forms', 'd', 'x', 'x')`,
    `update intake_ops.dead_letters set status = 'discarded' where fingerprint = 'd'`,
    `insert into intake_raw.inbox (team_id, event_id, body_hash, received_on, received_at, body)
       select 2, 'f' || n, '', current_date, now(), '{}' from generate_series(1, 2) n`,
    `update intake_raw.inbox set status = 'done', settled_at = now() where status = 'pending' and team_id = 1`,
    `update intake_raw.inbox set status = 'done', settled_at = now() where event_id = 'f1'`,
    `insert into intake_ops.audit (login, action, object) values ('a', 'b', 'c')`,
    `update intake_ops.runs set status = 'succeeded' where status = 'running'`,
  ]) {
    await rows(change)
    seen.push(await trace())
    expect([change, seen.at(-1) === seen.at(-2)]).toEqual([change, false])
  }
  expect(await trace()).toBe(seen.at(-1))
})
