/** The newest times that analysts see as `freshness` are kept in the transactions that write records, and are exact. */
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { sumUpCounts } from '../../../src/operate/health/counts.ts'
import { readStatus } from '../../../src/operate/health/status.ts'
import { prune } from '../../../src/operate/serve/retention.ts'
import { ALL_STREAMS } from '../../../src/streams/catalogue.ts'
import { ownTimeOf } from '../../../src/streams/stream.ts'
import { openSession, type Session } from '../../../src/warehouse/connect.ts'
import { tryLock, unlock } from '../../../src/warehouse/locks.ts'
import { openScene } from '../../e2e/support/scene.ts'
import { openChoice } from '../../simulate/choice.ts'
import { createTestDatabase, type TestDatabase } from '../../support/database.ts'
import { runCommand } from '../../support/run-command.ts'

let database: TestDatabase
let session: Session
beforeAll(async () => {
  database = await createTestDatabase()
  session = await openSession({ url: database.url, purpose: 'newest times' })
  await session.client.query(`insert into intake.teams (name) values ('north'), ('south')`)
})
afterAll(async () => {
  await session?.close()
  await database?.drop()
})

const SHOWN = ALL_STREAMS.filter(({ analysts }) => analysts !== 'nothing')

const READ = SHOWN.map((stream) => {
  const own = ownTimeOf(stream)
  return `select team.name as team, '${stream.name}' as stream,
    max(${own}) filter (where ${own} <= now() + interval '5 minutes') as newest_record_at,
    max(_loaded_at) filter (where _origin like 'event:%') as last_event_at
    from intake.teams team left join intake.${stream.table} using (team_id) group by 1`
}).join(' union all ')

async function expectExact(what: string, { client }: Session = session): Promise<void> {
  const order = 'order by team, stream'
  // Of one moment: a time that is ahead comes near.
  await client.query('begin isolation level repeatable read')
  const { rows: found } = await client.query(`${READ} ${order}`)
  const { rows: shown } = await client.query(
    `select team, stream, newest_record_at, last_event_at from intake_analytics.freshness ${order}`,
  )
  await client.query('commit')
  expect(shown, what).toEqual(found)
}

/** $1 team, $2 first number, $3 rows, $4 seed; whose times are the last year, some of them ahead. */
const given = (writer: number) => `
  select $1::int::smallint as team_id, 'w${writer} ' || ($2::int + n) % 12 as id,
    case when (n * 31 + $4::int) % 17 = 0 then timestamptz '2099-01-01' when (n * 31 + $4::int) % 19 = 0 then null
      else timestamptz '2026-01-01' + make_interval(secs => (n * $4::int) % 977) end as at,
    case when (n + $4::int) % 3 = 0 then 'event:e' else 'run:1 page:1' end as origin,
    timestamptz '2026-01-02' + make_interval(secs => (n * $4::int) % 991) as loaded_at,
    case when (n + $4::int) % 7 = 0 then timestamptz '2026-01-01' + make_interval(secs => $4::int % 977) end as deleted_at
  from generate_series(0, $3::int - 1) n`

/** Of a table with such a column for the service's time. */
const statementsOf = (table: string, column: string, writer: number) => {
  const insert = `
    insert into intake.${table} (team_id, id, ${column}, _version, _origin, _loaded_at, _deleted_at)
    select team_id, id, at, '2026-01-01', origin, loaded_at, deleted_at from (${given(writer)}) given`
  const own = `from (${given(writer)}) given where (t.team_id, t.id) = (given.team_id, given.id)`
  return [
    `${insert} on conflict do nothing`,
    `${insert} on conflict (team_id, id) do update set ${column} = excluded.${column}, _origin = excluded._origin,
       _loaded_at = excluded._loaded_at, _deleted_at = excluded._deleted_at`,
    `update intake.${table} t set ${column} = given.at, _origin = given.origin, _loaded_at = given.loaded_at ${own}`,
    `delete from intake.${table} t using ${own.slice('from '.length)}`,
  ]
}

test.each([
  ['patients', 'updated_at'],
  ['exports', 'created_at'],
])(
  'of %s, after any writes of open transactions in any order, rolled back or not, and any summing up',
  async (table, column) => {
    const random = openChoice(11)
    const writers = await Promise.all(
      [0, 1, 2].map(async (number) => ({
        number,
        own: await openSession({ url: database.url, purpose: 'writer' }),
        isOpen: false,
      })),
    )
    try {
      for (let round = 0; round < 400; round++) {
        const writer = random.one(writers)
        const { client } = writer.own
        const what = `round ${round}`
        if (random.chance(0.15)) await sumUpCounts(session.db)
        else if (writer.isOpen && random.chance(0.4)) {
          await client.query(random.chance(0.2) ? 'rollback' : 'commit')
          writer.isOpen = false
        } else {
          if (!writer.isOpen) await client.query('begin')
          writer.isOpen = true
          await client.query(random.one(statementsOf(table, column, writer.number)), [
            ...[1 + random.below(2), random.below(12), 1 + random.below(4), 1 + random.below(900)],
          ])
        }
        await expectExact(what)
      }
    } finally {
      for (const { own } of writers) await own.close()
    }
    await sumUpCounts(session.db)
    await expectExact('at the end')
  },
)

test('a time too far ahead of the clock counts as soon as it no longer is', async () => {
  const { client } = session
  await client.query('truncate intake.patients')
  await client.query(
    `insert into intake.patients (team_id, id, updated_at, _version, _origin)
     values (1, 'now', now(), now(), 'test'), (1, 'ahead', now() + interval '5 minutes 2 seconds', now(), 'test'),
       (1, 'far ahead', now() + interval '1 year', now(), 'test')`,
  )
  const newest = async () => {
    await expectExact('a time ahead')
    const { rows } = await client.query<{ is_ahead: boolean }>(
      `select newest_record_at > now() as is_ahead from intake_analytics.freshness where team_id = 1 and stream = 'patients'`,
    )
    return rows[0]!.is_ahead
  }
  await vi.waitFor(async () => expect(await newest()).toBe(true), { timeout: 10_000, interval: 200 })
  await sumUpCounts(session.db)
  expect(await newest()).toBe(true)
  await client.query(`update intake.patients set updated_at = '2026-01-01'`)
  expect(await newest()).toBe(false)
})

test.each(SHOWN.map(({ name, table }) => ({ name, table })))('$name keeps them', async ({ name, table }) => {
  const { client } = session
  await client.query(`truncate intake.${table}`)
  const kept = `select newest, newest_event from intake_ops.newest_times where stream = $1`
  expect((await client.query(kept, [name])).rows).toEqual([])
  await client.query(
    `insert into intake.${table} (team_id, id, _version, _origin) values (2, 'x', '2026-01-01', 'event:e')`,
  )
  const { rows } = await client.query(kept, [name])
  expect(rows).toMatchObject([{ newest_event: expect.any(Date) }])
  await expectExact('inserted')
  await client.query(`delete from intake.${table}`)
  await expectExact('deleted')
})

test('they are exact after a backfill, an erasure, a repair, a replay and the removal of expired rows', async () => {
  await using scene = await openScene({ patients: 25, responses: 20 })
  await using own = await openSession({ url: scene.url, purpose: 'scene' })
  const steps: Readonly<Record<string, () => Promise<unknown>>> = {
    backfill: () => scene.backfill(),
    'an event of the newest': () =>
      scene.query(
        `update intake.patients set _origin = 'event:e', _loaded_at = now() where updated_at = (select max(updated_at) from intake.patients)`,
      ),
    erase: async () => {
      const [{ id }] = (await scene.query<{ id: string }>(
        `select id from intake.patients where _origin like 'event:%' limit 1`,
      )) as [{ id: string }]
      return await runCommand(['erase', 'patient', id, '--yes'], scene.env)
    },
    damage: () =>
      scene.query(
        `update intake.responses set updated_at = '2020-01-01', created_at = '2020-01-01', _origin = 'event:wrong'`,
      ),
    replay: () => runCommand(['replay'], scene.env),
    'a run after it': () => scene.backfill('--full'),
    prune: () =>
      prune({
        db: own.db,
        historyDays: 0,
        runDays: 0,
        now: new Date(Date.now() + 86_400_000),
        forMs: 60_000,
      }),
  }
  for (const [what, step] of Object.entries(steps)) {
    expect(((await step()) as { code?: number }).code ?? 0, what).toBe(0)
    await expectExact(what, own)
    await sumUpCounts(own.db)
    await expectExact(`${what}, summed up`, own)
  }
})

const RAW = '(team_id, stream, id, version, observed_at, deleted, hash, origin)'

test('the newest version is exact if its record is removed, and counts are summed up, while the next newest is being removed', async () => {
  const { client } = session
  await client.query('truncate intake_raw.records')
  for (const day of [1, 2, 3])
    await client.query(
      `insert into intake_raw.records ${RAW} values (1, 'patients', '${day}', '2026-01-0${day}', now(), false, '', 'test')`,
    )
  await using writer = await openSession({ url: database.url, purpose: 'writer' })
  await writer.client.query('begin')
  await writer.client.query(`delete from intake_raw.records where id = '2'`)
  await client.query(`delete from intake_raw.records where id = '3'`)
  await sumUpCounts(session.db)
  await writer.client.query('commit')
  const { streams } = await readStatus(database.url, 30)
  expect(streams.find(({ stream }) => stream === 'patients')?.newest_record_at).toMatch(/^2026-01-01/)
})

test('while one process sums up, another leaves the rows to it; those of a stream that only a later version knows stay', async () => {
  await session.client.query('delete from intake.patients')
  await using other = await openSession({ url: database.url, purpose: 'other' })
  expect(await tryLock(other, 'counts', 'counts')).toBe(true)
  const gone = `select from intake_ops.newest_times where stream <> 'of_a_later_version' and gone is not null`
  await session.client.query(
    `insert into intake.patients (team_id, id, _version, updated_at, _origin) values (1, 'gone', now(), now(), 'test')`,
  )
  await session.client.query(`delete from intake.patients where id = 'gone'`)
  // Of several streams: all of them are summed up when the process goes on.
  await session.client.query(
    `insert into intake_ops.newest_times (team_id, stream, gone)
     select 1, stream, now() from unnest('{forms,packets,responses,of_a_later_version}'::text[]) as stream`,
  )
  await sumUpCounts(session.db)
  expect((await session.client.query(gone)).rowCount).toBeGreaterThan(0)
  await unlock(other, 'counts', 'counts')
  await sumUpCounts(session.db)
  expect((await session.client.query(gone)).rowCount).toBe(0)
  const later = `delete from intake_ops.newest_times where stream = 'of_a_later_version'`
  expect((await session.client.query(later)).rowCount).toBe(1)
})
