/** Figures of each team, next to a team that was removed. */
import { expect, test } from 'vitest'
import { readSigns } from '../../../src/operate/health/silence-signs.ts'
import { readStatus } from '../../../src/operate/health/status.ts'
import { readInbox, readTeams, readTrouble, readWebhooks } from '../../../src/operate/health/team-status.ts'
import { openSession } from '../../../src/warehouse/connect.ts'
import { openWarehouse } from '../../e2e/support/scene.ts'
import { awayFromTheHour } from '../../support/hour.ts'

test('what waits in each team is shown, and nothing of a team that was removed', async () => {
  await using warehouse = await openWarehouse()
  await using session = await openSession({ url: warehouse.url, purpose: 'test' })
  const waiting = async () =>
    (await readTrouble(session.db)).map(({ team, stream, dead_letters }) => [team, stream, dead_letters])
  await session.client.query(`
    insert into intake.teams (name) values ('north'), ('south'), ('west');
    insert into intake_ops.dead_letters (team_id, stream, record_id, fingerprint, origin, reason, status)
    values (1, 'forms', 'a', sha256('1'), 'run:1', 'no key', 'waiting'), (1, 'forms', 'b', sha256('2'), 'run:1', 'no key', 'waiting'),
      (2, 'forms', 'a', sha256('1'), 'run:1', 'no key', 'waiting'), (3, 'forms', 'a', sha256('1'), 'run:1', 'no key', 'waiting')`)
  const [north, west] = [
    ['north', 'forms', 2],
    ['west', 'forms', 1],
  ]
  expect(await waiting()).toEqual([north, ['south', 'forms', 1], west])
  await session.client.query(
    `insert into intake_ops.removed_teams (team_id, name, data) values (2, 'south', 'kept')`,
  )
  expect(await waiting()).toEqual([north, west])
  const { streams, teams } = await readStatus(warehouse.url, 30)
  const signs = await readSigns(session.db, { inboxDays: 30 })
  for (const shown of [streams, teams, signs, await readTeams(session.db, 30), await readInbox(session.db)])
    expect([...new Set(shown.map(({ team }) => team))]).toEqual(['north', 'west'])
  // In the order of names, whichever team was first.
  await session.client.query(`update intake.teams set name = 'east' where team_id = 3`)
  expect(await waiting()).toEqual([['east', 'forms', 1], north])
  expect((await readInbox(session.db)).map(({ team }) => team)).toEqual(['east', 'north'])
})

test('the inbox of a team has the age of its oldest pending event, of whatever stream, and counts by stream', async () => {
  await using warehouse = await openWarehouse()
  await using session = await openSession({ url: warehouse.url, purpose: 'test' })
  await session.client.query(`
    insert into intake.teams (name) values ('north'), ('south');
    insert into intake_raw.inbox (team_id, event_id, body_hash, received_on, received_at, source, body, status)
    select team, minutes::text, '', current_date, now() - make_interval(mins => minutes), source, '', status
    from (values (1, 5, 'patient', 'pending'), (1, 30, 'patient', 'pending'), (1, 20, 'form', 'pending'),
      (1, 60, 'patient', 'done'), (1, 7, 'unheard of', 'pending'), (1, 8, null, 'pending'), (2, 90, 'patient', 'dead')
    ) as event (team, minutes, source, status);
    insert into intake_ops.refetches (team_id, stream, id, reason, origin)
    values (1, 'patients', 'a', 'partial', 'x'), (1, 'forms', 'a', 'partial', 'x')`)
  const [north, south] = await readInbox(session.db)
  expect(north).toMatchObject({
    ...{ team: 'north', pending: 5, refetches: 2, pending_by_stream: { patients: 2, forms: 1, other: 2 } },
    oldest_pending_at: expect.any(String),
  })
  const age = (Date.now() - Date.parse(north!.oldest_pending_at!)) / 60_000
  for (const minutes of [age, north!.oldest_pending_seconds! / 60]) {
    expect(minutes).toBeGreaterThan(29)
    expect(minutes).toBeLessThan(40)
  }
  expect(south).toEqual({
    ...{ team: 'south', pending: 0, refetches: 0, pending_by_stream: {} },
    ...{ oldest_pending_at: null, oldest_pending_seconds: null },
  })
})

test('dead letters that wait and drift of events without a stream, and questions that wait, are those of each team', async () => {
  await using warehouse = await openWarehouse()
  await using session = await openSession({ url: warehouse.url, purpose: 'test' })
  await session.client.query(`
    insert into intake.teams (name) values ('north'), ('south');
    insert into intake_ops.dead_letters (team_id, stream, fingerprint, origin, reason, status)
    select team, stream, gen_random_uuid()::text, 'event:e', 'no', status
    from (values (1, 'inbox', 'waiting'), (1, 'inbox', 'waiting'), (1, 'inbox', 'discarded'), (1, 'forms', 'waiting'),
      (2, 'inbox', 'retried')) as dead (team, stream, status);
    insert into intake_ops.drift (team_id, stream, path, type)
    values (1, 'inbox', 'source.a', 'string'), (1, 'forms', 'b', 'string'), (2, 'inbox', 'source.a', 'string'),
      (2, 'inbox', 'source.b', 'string')`)
  await session.client.query(`
    insert into intake_raw.question_terms (team_id, form_id, question_id, position, kind, shows, waits)
    values (2, 'f', 'q', 1, 'text', 'nothing', true), (2, 'f', 'decided', 2, 'text', 'nothing', false)`)
  const teams = await readTeams(session.db, 30)
  expect(teams.map(({ team, questions_waiting }) => [team, questions_waiting.length])).toEqual([
    ['north', 0],
    ['south', 1],
  ])
  expect(teams.map(({ team, inbox }) => [team, inbox.dead_letters, inbox.drift])).toEqual([
    ['north', 2, 1],
    ['south', 0, 2],
  ])
})

test('of a stream, dead letters that wait, unknown fields and pending events are counted, each of its team', async () => {
  await using warehouse = await openWarehouse()
  await using session = await openSession({ url: warehouse.url, purpose: 'test' })
  await session.client.query(`
    insert into intake.teams (name) values ('north'), ('south');
    insert into intake_ops.dead_letters (team_id, stream, fingerprint, origin, reason, status)
    select team, stream, gen_random_uuid()::text, 'page', 'no', status
    from (values (1, 'forms', 'waiting'), (1, 'forms', 'waiting'), (1, 'forms', 'resolved'), (1, 'packets', 'waiting'),
      (2, 'forms', 'waiting')) as dead (team, stream, status);
    insert into intake_ops.drift (team_id, stream, path, type)
    values (1, 'forms', 'a', 'string'), (2, 'forms', 'a', 'string'), (2, 'forms', 'b', 'string'), (1, 'packets', 'a', 'string');
    insert into intake_raw.inbox (team_id, event_id, body_hash, received_on, received_at, source, body, status)
    select team, gen_random_uuid()::text, '', current_date, now(), source, '', status
    from (values (1, 'form', 'pending'), (1, 'form', 'pending'), (1, 'form', 'pending'), (1, 'form', 'done'),
      (2, 'packet', 'pending')) as event (team, source, status)`)
  const { streams } = await readStatus(warehouse.url, 30)
  const of = (team: string, stream: string) => {
    const { dead_letters, drift, inbox } = streams.find(
      (each) => each.team === team && each.stream === stream,
    )!
    return [dead_letters, drift, inbox]
  }
  expect(of('north', 'forms')).toEqual([2, 1, 3])
  expect(of('south', 'forms')).toEqual([1, 2, 0])
  expect(of('south', 'packets')).toEqual([0, 0, 1])
})

test('the last success of a stream is that of the newest run that has ended and succeeded there', async () => {
  await using warehouse = await openWarehouse()
  await using session = await openSession({ url: warehouse.url, purpose: 'test' })
  await session.client.query(`
    insert into intake.teams (name) values ('north'), ('south');
    insert into intake_ops.runs (kind, status, started_at, finished_at) values
      ('backfill', 'succeeded', now() - interval '50 minutes', now() - interval '40 minutes'),
      ('backfill', 'failed', now() - interval '30 minutes', now() - interval '20 minutes'),
      ('backfill', 'running', now() - interval '10 minutes', null);
    insert into intake_ops.run_streams (run_id, team_id, stream, status) values
      (1, 1, 'forms', 'succeeded'), (2, 1, 'forms', 'failed'), (3, 1, 'forms', 'succeeded'),
      (1, 2, 'forms', 'succeeded'), (2, 2, 'forms', 'succeeded'), (2, 2, 'patients', 'failed')`)
  const { streams } = await readStatus(warehouse.url, 30)
  const of = (team: string, stream: string) => {
    const own = streams.find((each) => each.team === team && each.stream === stream)!
    const lag = own.lag_seconds === null ? null : Math.round(own.lag_seconds / 600) * 10
    return [own.last_run_status, lag, own.last_success_at === null]
  }
  expect(of('north', 'forms')).toEqual(['succeeded', 40, false])
  expect(of('south', 'forms')).toEqual(['succeeded', 20, false])
  expect(of('south', 'patients')).toEqual(['failed', null, true])
  expect(of('south', 'packets')).toEqual([null, null, true])
  const minutes = (at: Date | null) => at && Math.round((Date.now() - at.getTime()) / 600_000) * 10
  const shown = (await readTrouble(session.db)).map((each) => [
    ...[each.team, each.stream, minutes(each.last_run_at), each.last_run_ok, minutes(each.last_success_at)],
  ])
  expect(shown).toEqual([
    ['north', 'forms', 10, true, 40],
    ['south', 'forms', 30, true, 20],
    ['south', 'patients', 30, false, null],
  ])
})

test('what is known of the webhooks of a team, and what is to be expected, to a tenth of an event', async () => {
  await awayFromTheHour()
  await using warehouse = await openWarehouse()
  await using session = await openSession({ url: warehouse.url, purpose: 'test' })
  await session.client.query(`
    insert into intake.teams (name) values ('north'), ('south');
    insert into intake_ops.events_received (team_id, hour, events, last_at)
    select 1, date_trunc('hour', now()) - days * interval '24 hours', events, now() - interval '1 minute'
    from (values (0, 4), (1, 11), (2, 12), (9, 1)) as day (days, events)`)
  const [north, south] = await readWebhooks(session.db, { inboxDays: 30 })
  expect(north).toEqual({
    ...{ team: 'north', verdict: 'ok', reason: '4 events in the last day, 3.3 a day before' },
    ...{
      last_event_at: expect.stringMatching(/^\d{4}-.*Z$/),
      events_last_day: 4,
      events_expected_a_day: 3.3,
    },
    ...{ deliveries_missing: 0, deliveries_failed: 0 },
  })
  expect(south).toEqual({
    ...{ team: 'south', verdict: 'unknown', reason: 'no webhook is known, and no event has arrived yet' },
    ...{ last_event_at: null, events_last_day: 0, events_expected_a_day: null },
    ...{ deliveries_missing: 0, deliveries_failed: 0 },
  })
})
