/** The check of deliveries reads what it has to look for, however many deliveries are listed. */
import { afterAll, beforeAll, expect, it } from 'vitest'
import { readSigns, settleDeliveries } from '../../../src/operate/health/silence-signs.ts'
import { openSession } from '../../../src/warehouse/connect.ts'
import { createTestDatabase, type TestDatabase } from '../../support/database.ts'
import { explainedUrl, watchPlans } from '../../support/plans.ts'

let database: TestDatabase
beforeAll(async () => {
  database = await createTestDatabase()
})
afterAll(() => database?.drop())

it('deliveries count as missing by team, also where no configuration was read; and configurations without deliveries', async () => {
  await using own = await createTestDatabase()
  await using session = await openSession({ url: own.url, purpose: 'signs' })
  await session.client.query(`
    insert into intake.teams (name) values ('a deliveries'), ('b both'), ('c configurations'), ('d others'), ('e nothing');
    insert into intake_ops.webhook_secrets (team_id, config_id, secret, created_at)
      select team_id, 'own', 'secret', now() - interval '5 hours' from generate_series(1, 3) team_id;
    insert into intake.webhook_configs (team_id, id, is_active, _version, _origin, _deleted_at)
      select team_id, id, is_active, now(), 'test', deleted_at
      from (values (2, 'own', null::boolean, null::timestamptz), (3, 'own', false, null), (3, 'other', true, null), (4, 'other', true, null)) given (team_id, id, is_active, deleted_at);
    insert into intake.webhook_deliveries
      (team_id, id, event_id, webhook_config_id, status, response_status_code, next_retry_at, created_at, _version, _origin)
    select team_id, id, split_part(id, ' ', 1), config_id, 'x', code, retry_at, now() - age, now(), 'test'
    from (values
      -- Of several attempts: the next one, whether any was delivered, and when the first was made.
      (1, 'd7 again', 'own', 500, now() + interval '1 hour', interval '1 hour'), (1, 'd7 first', 'own', 500, now() - interval '1 hour', '2 hours'),
      (1, 'd8 again', 'own', 200, null, '1 hour'), (1, 'd8 first', 'own', 500, now() - interval '1 hour', '2 hours'),
      (1, 'd9 again', 'own', 200, null, '1 hour'), (1, 'd9 first', 'own', 500, null, '6 hours'),
      (1, 'd1', 'own', 200, null, '1 hour'), (1, 'd2', 'own', 200, null, '2 hours'),
      (1, 'd3', 'own', 500, null, '1 hour'), (1, 'd4', 'own', 500, now() + interval '1 hour', '1 hour'),
      (1, 'd5', 'own', 200, null, '6 hours'), (1, 'd6', 'other', 200, null, '1 hour'),
      (2, 'd1', 'own', 200, null, '1 hour'), (4, 'd1', 'other', 200, null, '1 hour')
    ) given (team_id, id, config_id, code, retry_at, age)`)
  const none = { active: 0, inactive: 0, gone: 0 }
  const signs = await readSigns(session.db, { inboxDays: 30 })
  expect(
    signs.map((each) => [each.team, each.deliveredMissing, each.failedMissing, each.configurations]),
  ).toEqual([
    ['a deliveries', 3, 1, none],
    ['b both', 1, 0, { ...none, active: 1 }],
    ['c configurations', 0, 0, { ...none, inactive: 1 }],
    ['d others', 0, 0, none],
    ['e nothing', 0, 0, none],
  ])
  await session.client.query(`update intake.webhook_configs set _deleted_at = now() where team_id = 3`)
  const [gone] = await readSigns(session.db, { inboxDays: 30, team: 'c configurations' })
  expect(gone?.configurations).toEqual({ ...none, gone: 1 })
})

it('what is expected follows from whole days before the last one, and from the same day and hours a week ago, once counted for so long', async () => {
  await using own = await createTestDatabase()
  await using session = await openSession({ url: own.url, purpose: 'signs' })
  // All of one moment: an hour may end meanwhile.
  await session.client.query('begin')
  // Team, age of the counted hour, events.
  const counted = [
    ...['eight days 23h 1', 'eight days 25h 10', 'eight days 167h 100', 'eight days 169h 1000'],
    ...[
      'eight days 191h 10000',
      'eight days 193h 100000',
      'nearly eight days 191h 7',
      'nearly eight days 25h 7',
    ],
    ...['two days 49h 5', 'nearly two days 47h 5'],
  ].map((line) => line.match(/^(.*) (\d+)h (\d+)$/)!.slice(1))
  const [teams, ages, events] = [0, 1, 2].map((at) => counted.map((each) => each[at]))
  await session.client.query(
    `with team as (
       insert into intake.teams (name) select distinct team from unnest($1::text[]) team returning team_id, name
     )
     insert into intake_ops.events_received (team_id, hour, events, last_at)
     select team_id, now() - make_interval(hours => age), events, now() - make_interval(hours => age)
     from unnest($1::text[], $2::int[], $3::int[]) as given (name, age, events) join team using (name)`,
    [teams, ages, events],
  )
  await session.client.query(
    `with team as (insert into intake.teams (name) values ('quiet for hours'), ('and counted for less') returning team_id, name)
     insert into intake_ops.events_received (team_id, hour, events, last_at)
     select team_id, hour, 10 ^ n, hour
     from team, generate_series(-1, 4) n, lateral (
       select date_trunc('hour', now()) - case n when -1 then interval '3 hours' else make_interval(days => 7, hours => n) end as hour
     ) at where name = 'quiet for hours' or n < 3`,
  )
  const signs = await readSigns(session.db, { inboxDays: 30 })
  await session.client.query('rollback')
  const rounded = (value: number | null) => (value === null ? null : Math.round(value))
  expect(
    Object.fromEntries(
      signs.map((each) => [
        each.team,
        [each.lastDay, rounded(each.dailyMean), each.sameDayLastWeek, each.sameHoursLastWeek],
      ]),
    ),
  ).toEqual({
    'eight days': [1, 1587, 11_000, expect.any(Number)],
    'nearly eight days': [0, 2, null, null],
    'two days': [0, 5, null, null],
    'nearly two days': [0, null, null, null],
    'quiet for hours': [0, expect.any(Number), null, 110],
    'and counted for less': [0, expect.any(Number), null, null],
  })
})

it('settling the check keeps what may still be missing, and since when and until when a configuration has sent to us', async () => {
  await using own = await createTestDatabase()
  await using session = await openSession({ url: own.url, purpose: 'signs' })
  const { client, db } = session
  await client.query(`
    insert into intake.teams (name) values ('north'), ('south');
    insert into intake_ops.webhook_secrets (team_id, config_id, secret, created_at, retired_at) values
      (1, 'own', 's', now() - interval '10 days', null), (1, 'retired', 's', now() - interval '10 days', now());
    insert into intake_ops.removed_events (team_id, event_hash) values (1, sha256('erased')), (2, sha256('lost'))`)
  const deliver = async (
    ...given: readonly (readonly [team: number, config: string, event: string, days: number])[]
  ) => {
    for (const [team, config, event, days] of given)
      await client.query(
        `insert into intake.webhook_deliveries (team_id, id, event_id, webhook_config_id, created_at, _version, _origin, status)
         values ($1, gen_random_uuid()::text, $3, $2, now() - $4 * interval '24 hours', now(), 'test', 'x')`,
        [team, config, event, days],
      )
  }
  const receive = (team: number, event: string) =>
    client.query(
      `insert into intake_raw.inbox (team_id, event_id, body_hash, received_on, received_at, body)
       values ($1, $2, '\\x00', current_date, now(), '{}')`,
      [team, event],
    )
  const left = async () => {
    const checks = await client.query(
      `select concat_ws(' ', team_id, config_id, event_id) as line from intake_ops.delivery_checks order by 1`,
    )
    const configs = await client.query(
      `select concat_ws(' ', team_id, config_id, round(extract(epoch from now() - first_at) / 86400),
         round(extract(epoch from now() - last_at) / 86400)) as line from intake_ops.delivery_configs order by 1`,
    )
    return [checks, configs].map(({ rows }) => rows.map(({ line }) => line))
  }
  await deliver(
    ...([
      [1, 'seen', 'came', 5],
      [1, 'seen', 'since', 4],
      [1, 'seen', 'before', 6],
      [2, 'seen', 'came', 5],
    ] as const),
    ...([
      [1, 'own', 'lost', 3],
      [1, 'own', 'expired', 31],
      [1, 'own', 'erased', 3],
      [1, 'own', 'early', 11],
    ] as const),
    ...([
      [1, 'retired', 'elsewhere', 3],
      [1, 'other', 'old', 3],
      [1, 'other', 'new', 0],
    ] as const),
  )
  await receive(1, 'came')
  // Another team's event is none of ours.
  await receive(2, 'lost')
  await settleDeliveries(db, 30, ['north'])
  const kept = ['1 other new', '1 own lost', '1 seen since']
  expect(await left()).toEqual([
    [...kept, '2 seen came'],
    ['1 own 3 3', '1 seen 5 5'],
  ])
  // Events from before and after are found later: what was sent between them was sent to us.
  await deliver(
    [1, 'seen', 'first', 8],
    [1, 'seen', 'last', 2],
    [1, 'seen', 'between', 7],
    [1, 'seen', 'earlier', 9],
  )
  await receive(1, 'last')
  await receive(1, 'first')
  await settleDeliveries(db, 30)
  expect(await left()).toEqual([[...kept, '1 seen between'].sort(), ['1 own 3 3', '1 seen 8 2']])
  // One that came between the two moves neither time; an event of the very time of the first counts; one that the service
  // no longer lists does not.
  await deliver(
    [1, 'seen', 'middle', 4],
    [1, 'seen', 'twin', 8],
    [1, 'own', 'withdrawn', 3],
    [1, 'own', 'of unknown fate', 3],
  )
  await client.query(
    `update intake.webhook_deliveries twin set created_at = first.created_at
     from intake.webhook_deliveries first where twin.event_id = 'twin' and first.event_id = 'first'`,
  )
  await client.query(
    `update intake.webhook_deliveries set _deleted_at = now(), status = null where event_id = 'withdrawn'`,
  )
  await client.query(`update intake.webhook_deliveries set status = null where event_id = 'of unknown fate'`)
  await receive(1, 'middle')
  await settleDeliveries(db, 30)
  expect(await left()).toEqual([
    [...kept, '1 own of unknown fate', '1 seen between', '1 seen twin'].sort(),
    ['1 own 3 3', '1 seen 8 2'],
  ])
  const [north] = await readSigns(db, { inboxDays: 30 })
  expect([north!.deliveredMissing, north!.failedMissing]).toEqual([0, 5])
})

/** Pages that a round of the check reads when so many deliveries arrived long ago, and five are to be looked for. */
async function pagesWith(stored: number): Promise<number> {
  await using session = await openSession({ url: database.url, purpose: 'plans' })
  const own = session.client
  await own.query('truncate intake.webhook_deliveries, intake_ops.delivery_checks')
  await own.query(`insert into intake.teams (name) values ('default') on conflict do nothing`)
  const put = `insert into intake.webhook_deliveries
      (team_id, id, event_id, webhook_config_id, status, response_status_code, created_at, _version, _origin)
    select 1, 'd' || number, 'e' || number, 'c-1', 'x', 200, now() - interval '2 hours', now(), 'test'
    from generate_series($1::int, $2::int) as number`
  await own.query(put, [1, stored])
  // They were looked for, and found.
  await own.query('truncate intake_ops.delivery_checks')
  await own.query(put, [stored + 1, stored + 5])
  await own.query('analyze intake.webhook_deliveries')
  using watching = watchPlans()
  const url = explainedUrl(database.url)
  {
    await using explained = await openSession({ url, purpose: 'plans' })
    expect(await readSigns(explained.db, { inboxDays: 30 })).toHaveLength(1)
  }
  await using settling = await openSession({ url, purpose: 'plans' })
  await settleDeliveries(settling.db, 30)
  const plans = watching.take()
  const scans = plans
    .flatMap((plan) => plan.scans)
    .filter(({ table }) => table === 'intake.webhook_deliveries')
  expect(scans.length).toBeGreaterThan(0)
  expect(scans.filter(({ rows }) => rows > 5)).toEqual([])
  return plans.reduce((sum, { pages }) => sum + pages, 0)
}

it('costs with a hundred thousand deliveries what it costs with a thousand', async () => {
  const few = await pagesWith(1_000)
  // A larger index may be one level deeper.
  expect(await pagesWith(100_000)).toBeLessThanOrEqual(few + 100)
})
