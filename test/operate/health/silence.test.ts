/** Webhooks that stop are detected: expected events are compared with received ones. */
import { describe, expect, it } from 'vitest'
import { judgeSilence, type Signs } from '../../../src/operate/health/silence.ts'
import { settleDeliveries } from '../../../src/operate/health/silence-signs.ts'
import { readWebhooks } from '../../../src/operate/health/team-status.ts'
import { ALL_STREAMS } from '../../../src/streams/catalogue.ts'
import { openSession } from '../../../src/warehouse/connect.ts'
import { openWarehouse, query } from '../../e2e/support/scene.ts'
import { awayFromTheHour } from '../../support/hour.ts'

/** A team that receives as many events as usual. */
const STEADY: Signs = {
  lastEventAt: new Date('2026-03-02T09:00:00Z'),
  lastDay: 100,
  dailyMean: 100,
  sameDayLastWeek: 90,
  sameHoursLastWeek: 0,
  deliveredMissing: 0,
  failedMissing: 0,
  configurations: { active: 1, inactive: 0, gone: 0 },
  unreported: 0,
}

describe('the verdict', () => {
  const cases: readonly (readonly [string, Partial<Signs>, string, RegExp])[] = [
    ['as many as ever', {}, 'ok', /100 events in the last day/],
    ['a little fewer', { lastDay: 30 }, 'ok', /./],
    ['a quarter', { lastDay: 20 }, 'quiet', /20 events in the last day, 90 were expected/],
    ['hardly more than a quarter', { lastDay: 23 }, 'ok', /./],
    ['hardly fewer than a quarter', { lastDay: 22 }, 'quiet', /22 events in the last day, 90 were expected/],
    [
      'fewer than the mean, but as many as a week ago',
      { lastDay: 20, sameDayLastWeek: 30 },
      'ok',
      /20 events in the last day, 100 a day before/,
    ],
    [
      'few of the twenty that come',
      { lastDay: 4, dailyMean: 20.04, sameDayLastWeek: null },
      'quiet',
      /4 events in the last day, 20 were/,
    ],
    ['a quarter, exactly', { lastDay: 25, sameDayLastWeek: 100 }, 'ok', /./],
    [
      'few of exactly twenty',
      { lastDay: 4, dailyMean: 20, sameDayLastWeek: null },
      'quiet',
      /20 were expected/,
    ],
    ['few of fewer than twenty', { lastDay: 1, dailyMean: 19.9, sameDayLastWeek: null }, 'ok', /./],
    [
      'none of the ten that come',
      { lastDay: 0, sameDayLastWeek: 10 },
      'silent',
      /no event in the last day, 10 were/,
    ],
    [
      'none of fewer than ten',
      { lastDay: 0, dailyMean: 9.96, sameDayLastWeek: null },
      'ok',
      /0 events in the last day, 10 a day before/,
    ],
    [
      'one of few',
      { lastDay: 1, dailyMean: 3.14, sameDayLastWeek: 3 },
      'ok',
      /^1 event in the last day, 3.1 a day before$/,
    ],
    ['none where many were', { lastDay: 0 }, 'silent', /no event in the last day, 90 were expected/],
    ['none on a weekend, as on the one before', { lastDay: 0, sameDayLastWeek: 0 }, 'ok', /./],
    ['none where few come', { lastDay: 0, dailyMean: 3, sameDayLastWeek: 3 }, 'ok', /./],
    ['none yet in a busy stretch', { sameHoursLastWeek: 20 }, 'silent', /20 arrived a week ago/],
    ['none in hours that are empty every week', { sameHoursLastWeek: 2 }, 'ok', /./],
    ['none in hours with nearly twenty', { sameHoursLastWeek: 19 }, 'ok', /./],
    [
      'delivered elsewhere',
      { deliveredMissing: 1 },
      'quiet',
      /1 event that the service lists as delivered did not/,
    ],
    ['given up by the service', { failedMissing: 3 }, 'quiet', /could not deliver 3 events/],
    [
      'switched off',
      { configurations: { active: 0, inactive: 1, gone: 0 } },
      'silent',
      /disabled at the service/,
    ],
    [
      'gone',
      { configurations: { active: 0, inactive: 0, gone: 1 } },
      'silent',
      /no longer exists at the service/,
    ],
    ['replaced by another', { configurations: { active: 1, inactive: 0, gone: 1 } }, 'ok', /./],
    ['switched off, and another not', { configurations: { active: 1, inactive: 1, gone: 0 } }, 'ok', /./],
    [
      'switched off, and another gone',
      { configurations: { active: 0, inactive: 1, gone: 1 } },
      'silent',
      /^the webhook is disabled at the service$/,
    ],
    ['of no known webhook', { configurations: { active: 0, inactive: 0, gone: 0 } }, 'ok', /./],
    [
      'of no known webhook, without any event',
      {
        ...{ lastEventAt: null, lastDay: 0, dailyMean: null, sameDayLastWeek: null },
        configurations: { active: 0, inactive: 0, gone: 0 },
      },
      'unknown',
      /^no webhook is known, and no event has arrived yet$/,
    ],
    ['changes without events', { unreported: 7 }, 'silent', /found 7 changes that no event reported/],
    [
      'too young, with events',
      { lastDay: 3, dailyMean: null, sameDayLastWeek: null, sameHoursLastWeek: null },
      'ok',
      /3 events so far.*whole day/,
    ],
    [
      'too young, with none in the last day',
      { lastDay: 0, dailyMean: null, sameDayLastWeek: null, sameHoursLastWeek: null },
      'unknown',
      /whole day/,
    ],
    [
      'without any event',
      { lastEventAt: null, lastDay: 0, dailyMean: null, sameDayLastWeek: null, sameHoursLastWeek: null },
      'unknown',
      /a webhook is configured, and no event has arrived yet/,
    ],
  ]
  it.each(cases)('%s', (_, signs, verdict, reason) => {
    expect(judgeSilence({ ...STEADY, ...signs })).toEqual({ verdict, reason: expect.stringMatching(reason) })
  })
})

/** A warehouse with a team `default` whose configuration `c-1` is ours. */
async function openTeam() {
  await awayFromTheHour()
  const warehouse = await openWarehouse()
  const run = (text: string, values: unknown[] = []) =>
    query<Record<string, unknown>>(warehouse.url, text, values)
  await run("insert into intake.teams (name) values ('default')")
  await run(
    `insert into intake_ops.webhook_secrets (team_id, config_id, secret, created_at)
     select team_id, 'c-1', '\\x00', now() - interval '20 days' from intake.teams`,
  )
  await run(
    `insert into intake.webhook_configs (team_id, id, sources, event_types, is_active, created_at, _version, _origin)
     select team_id, 'c-1', $1, '{created,updated,deleted}',
       true, now() - interval '20 days', now(), 'test' from intake.teams`,
    [ALL_STREAMS.flatMap(({ source }) => source ?? [])],
  )
  return {
    run,
    url: warehouse.url,
    /** This many events per hour, over these hours before now. */
    heard: (from: number, to: number, events: number) =>
      run(
        `insert into intake_ops.events_received (team_id, hour, events, last_at)
         select team_id, date_trunc('hour', now()) - make_interval(hours => ago), $3,
           date_trunc('hour', now()) - make_interval(hours => ago)
         from intake.teams, generate_series($2::int, $1::int) as ago`,
        [from, to, events],
      ),
    listed: (
      event: string | null,
      config: string,
      code: number | null,
      ago: string,
      retryIn: string | null = null,
      status = 'x',
    ) =>
      run(
        `insert into intake.webhook_deliveries
           (team_id, id, event_id, webhook_config_id, status, response_status_code, created_at, next_retry_at, _version, _origin)
         select team_id, gen_random_uuid(), $1, $2, $6, $3, now() - $4::interval, now() + $5::interval, now(), 'test'
         from intake.teams`,
        [event, config, code, ago, retryIn, status],
      ),
    received: (event: string) =>
      run(
        `insert into intake_raw.inbox (team_id, event_id, body_hash, received_on, received_at, body, status)
         select team_id, $1, '\\x00', current_date, now(), '{}', 'done' from intake.teams`,
        [event],
      ),
    async verdict() {
      await using session = await openSession({ url: warehouse.url, purpose: 'test' })
      const statuses = await readWebhooks(session.db, { inboxDays: 30 })
      // Settling the check changes no result.
      await settleDeliveries(session.db, 30)
      expect(await readWebhooks(session.db, { inboxDays: 30 })).toEqual(statuses)
      return statuses.find((status) => status.team === 'default')!
    },
    [Symbol.asyncDispose]: () => warehouse.drop(),
  }
}

describe('a warehouse', () => {
  it('reports unknown before the first event, and ok while events arrive', async () => {
    await using team = await openTeam()
    expect(await team.verdict()).toMatchObject({ verdict: 'unknown', last_event_at: null })
    // The mean of a day and a half, until there are seven days.
    await team.heard(60, 0, 5)
    expect((await team.verdict()).events_expected_a_day).toBeGreaterThan(110)
    await team.heard(24 * 10, 61, 5)
    expect(await team.verdict()).toMatchObject({
      ...{ team: 'default', verdict: 'ok', events_last_day: 120, events_expected_a_day: 120 },
      last_event_at: expect.stringMatching(/^\d{4}-.*Z$/),
    })
  })

  it('detects within hours that they stopped, compared with the same hours a week ago', async () => {
    await using team = await openTeam()
    await team.heard(24 * 10, 7, 5)
    expect(await team.verdict()).toMatchObject({
      verdict: 'silent',
      reason: expect.stringMatching(/no event for hours in which 30 arrived a week ago/),
    })
  })

  it('accepts a night or weekend that is empty every week', async () => {
    await using team = await openTeam()
    await team.heard(24 * 14, 24 * 7 + 47, 5)
    await team.heard(24 * 7 - 1, 47, 5)
    // Nothing for 47 hours; a week ago nothing arrived in the same hours.
    expect(await team.verdict()).toMatchObject({ verdict: 'ok', events_last_day: 0 })
  })

  it('counts events that the service lists as sent to us and the inbox does not contain, and nothing else', async () => {
    await using team = await openTeam()
    await team.heard(24 * 10, 0, 5)
    await team.received('came')
    await team.listed('came', 'c-1', 500, '2 hours')
    await team.listed('came', 'c-1', 200, '1 hour')
    await team.listed('to another receiver', 'c-9', 200, '1 hour')
    await team.listed('before our time', 'c-1', 200, '25 days')
    // The retry that its first attempt announced is past; the second attempt announced another.
    await team.listed('tried again soon', 'c-1', 500, '2 hours', '-1 hour')
    await team.listed('tried again soon', 'c-1', 500, '1 hour', '10 minutes')
    await team.listed(null, 'c-1', 200, '1 hour')
    expect(await team.verdict()).toMatchObject({ verdict: 'ok', deliveries_missing: 0, deliveries_failed: 0 })
    await team.listed('acknowledged by whom?', 'c-1', 500, '2 hours')
    await team.listed('acknowledged by whom?', 'c-1', 200, '1 hour')
    // The service names a status, but no code of a response.
    await team.listed('named as delivered', 'c-1', null, '3 hours', null, 'Delivered')
    await team.listed('given up', 'c-1', null, '3 hours')
    await team.listed('given up', 'c-1', 503, '1 hour', '-10 minutes')
    const { verdict, reason, ...status } = await team.verdict()
    expect(status).toMatchObject({ deliveries_missing: 2, deliveries_failed: 1 })
    expect(verdict).toBe('quiet')
    expect(reason).toBe(
      '2 events that the service lists as delivered did not reach the inbox; the service could not deliver 1 event',
    )
  })

  it('expects no event that is older than the inbox keeps', async () => {
    await using team = await openTeam()
    await team.run("update intake_ops.webhook_secrets set created_at = now() - interval '60 days'")
    await team.listed('removed by its age', 'c-1', 200, '30 days 1 hour')
    expect(await team.verdict()).toMatchObject({ deliveries_missing: 0 })
    await team.listed('lost', 'c-1', 200, '29 days')
    expect(await team.verdict()).toMatchObject({ deliveries_missing: 1 })
  })

  it('judges a team by its own events, deliveries, configurations and runs, though another has the same ids', async () => {
    await using team = await openTeam()
    await team.listed('lost', 'c-1', 200, '1 hour')
    await team.listed('given up', 'c-1', 503, '1 hour')
    await team.listed('to another receiver', 'c-9', 200, '1 hour')
    for (const ago of ['2 days', '1 hour'])
      await team.run(
        `with run as (
           insert into intake_ops.runs (kind, status, started_at, finished_at)
           values ('backfill', 'succeeded', now() - $1::interval, now() - $1::interval) returning run_id
         )
         insert into intake_ops.run_streams (run_id, team_id, stream, status, changed)
         select run_id, team_id, 'patients', 'succeeded', 6 from run, intake.teams`,
        [ago],
      )
    const alone = await team.verdict()
    expect(alone).toMatchObject({ verdict: 'silent', deliveries_missing: 1, deliveries_failed: 1 })
    expect(alone.reason).toMatch(/found 6 changes/)
    const other = `(select team_id from intake.teams where name = 'other')`
    for (const statement of [
      `insert into intake.teams (name) values ('other')`,
      // It received these events, or removed them.
      `insert into intake_raw.inbox (team_id, event_id, body_hash, received_on, received_at, body, status)
       select ${other}, id, '\\x00', current_date, now(), '{}', 'done' from unnest('{lost,to another receiver}'::text[]) id`,
      `insert into intake_ops.removed_events (team_id, event_hash)
       values (${other}, sha256(convert_to('given up', 'UTF8')))`,
      `insert into intake_ops.events_received (team_id, hour, events, last_at)
       select ${other}, date_trunc('hour', now()) - make_interval(hours => ago), 50, now() from generate_series(0, 300) ago`,
      // Its configurations: one of the same id that is gone, one to which events of the first were sent.
      `insert into intake_ops.webhook_secrets (team_id, config_id, secret, created_at)
       select ${other}, id, '\\x00', now() - interval '20 days' from unnest('{c-1,c-9}'::text[]) id`,
      `insert into intake.webhook_configs (team_id, id, is_active, created_at, _deleted_at, _version, _origin)
       values (${other}, 'c-1', null, null, now(), now(), 'test')`,
      `with run as (insert into intake_ops.runs (kind, status) values ('backfill', 'succeeded') returning run_id)
       insert into intake_ops.run_streams (run_id, team_id, stream, status, changed)
       select run_id, ${other}, 'patients', 'succeeded', 900 from run`,
    ])
      await team.run(statement)
    expect(await team.verdict()).toEqual(alone)
  })

  it('counts an event that was removed with a patient as received, for ever', async () => {
    await using team = await openTeam()
    await team.heard(24 * 10, 0, 5)
    await team.received('of a patient')
    await team.listed('of a patient', 'c-1', 200, '1 hour')
    await team.run(`delete from intake_raw.inbox where event_id = 'of a patient'`)
    expect(await team.verdict()).toMatchObject({ verdict: 'ok', deliveries_missing: 0 })
  })

  it('recognizes a configuration whose secret came from the environment by its events in the inbox', async () => {
    await using team = await openTeam()
    await team.run('delete from intake_ops.webhook_secrets')
    await team.heard(24 * 10, 0, 5)
    await team.listed('missing', 'c-1', 200, '1 hour')
    expect(await team.verdict()).toMatchObject({ deliveries_missing: 0 })
    // One whose events reached the inbox before all that it keeps may send elsewhere now.
    await team.run(
      `insert into intake_ops.delivery_configs (team_id, config_id, first_at, last_at)
       select team_id, 'c-1', now() - interval '90 days', now() - interval '31 days' from intake.teams`,
    )
    expect(await team.verdict()).toMatchObject({ deliveries_missing: 0 })
    await team.listed('came', 'c-1', 200, '2 hours')
    await team.received('came')
    expect(await team.verdict()).toMatchObject({ deliveries_missing: 1 })
  })

  it('looks again for what is missing only, however many deliveries arrived, are old, or go to others', async () => {
    await using team = await openTeam()
    await team.heard(24 * 10, 0, 5)
    const many = (names: string, config: string, ago: string) =>
      team.run(
        `insert into intake.webhook_deliveries
           (team_id, id, event_id, webhook_config_id, status, response_status_code, created_at, _version, _origin)
         select team_id, gen_random_uuid(), $1 || number, $2, 'x', 200, now() - $3::interval, now(), 'test'
         from intake.teams, generate_series(1, 300) as number`,
        [names, config, ago],
      )
    await many('came ', 'c-1', '2 hours')
    await team.run(
      `insert into intake_raw.inbox (team_id, event_id, body_hash, received_on, received_at, body, status)
       select team_id, event_id, '\\x00', current_date, now(), '{}', 'done' from intake.webhook_deliveries`,
    )
    await many('old ', 'c-1', '45 days')
    await many('to others ', 'c-9', '2 days')
    await team.listed('missing', 'c-1', 200, '1 hour')
    // For a day, a configuration may still turn out to be ours.
    await team.listed('perhaps ours', 'c-9', 200, '23 hours')
    expect(await team.verdict()).toMatchObject({ deliveries_missing: 1 })
    const checks = 'select event_id from intake_ops.delivery_checks order by 1'
    expect(await query(team.url, checks)).toEqual([{ event_id: 'missing' }, { event_id: 'perhaps ours' }])
    // An attempt that is listed later is looked for.
    await team.received('missing')
    await team.listed('missing', 'c-1', 200, '1 minute')
    await team.listed('new', 'c-1', 200, '1 minute')
    expect(await team.verdict()).toMatchObject({ deliveries_missing: 1 })
    expect(await query(team.url, checks)).toEqual([{ event_id: 'new' }, { event_id: 'perhaps ours' }])
  })

  it('detects a configuration that was disabled or deleted', async () => {
    await using team = await openTeam()
    await team.heard(24 * 10, 0, 5)
    await team.run('update intake.webhook_configs set is_active = false')
    expect(await team.verdict()).toMatchObject({
      verdict: 'silent',
      reason: expect.stringMatching(/disabled/),
    })
    // Another configuration of the team sends elsewhere, though another team's of that id sends to us.
    await team.run(
      `insert into intake.webhook_configs (team_id, id, is_active, _version, _origin)
       select team_id, 'c-9', true, now(), 'test' from intake.teams`,
    )
    await team.run(
      `with other as (insert into intake.teams (name) values ('other') returning team_id)
       insert into intake_ops.webhook_secrets (team_id, config_id, secret) select team_id, 'c-9', '\\x00' from other`,
    )
    expect(await team.verdict()).toMatchObject({
      verdict: 'silent',
      reason: expect.stringMatching(/disabled/),
    })
    await team.run(`update intake.webhook_configs set _deleted_at = now(), is_active = null where id = 'c-1'`)
    expect(await team.verdict()).toMatchObject({
      verdict: 'silent',
      reason: expect.stringMatching(/no longer exists/),
    })
    // This warehouse retired its secret before: nothing is expected from it.
    await team.run(`update intake_ops.webhook_secrets set retired_at = now() where config_id = 'c-1'`)
    await team.listed('not for us', 'c-1', 200, '1 hour')
    expect(await team.verdict()).toMatchObject({ verdict: 'ok', deliveries_missing: 0 })
  })

  it('detects that a backfill finds changes without events although the configuration is active', async () => {
    await using team = await openTeam()
    await team.heard(24 * 3, 24 * 3, 5)
    const run = (
      ...[ago, changed, deleted = 0, kind = 'backfill', status = 'succeeded', stream = 'patients']: readonly [
        ...[ago: string, changed: number],
        ...[deleted?: number, kind?: string, status?: string, stream?: string],
      ]
    ) =>
      team.run(
        `with run as (
           insert into intake_ops.runs (kind, status, started_at, finished_at)
           values ($4, $5, now() - $1::interval, now() - $1::interval) returning run_id
         )
         insert into intake_ops.run_streams (run_id, team_id, stream, status, changed, deleted)
         select run_id, team_id, $6, $5, $2, $3 from run, intake.teams`,
        [ago, changed, deleted, kind, status, stream],
      )
    await run('4 days', 900)
    await run('1 day', 6)
    // An event arrived between the two: they were not silent then.
    expect(await team.verdict()).toMatchObject({ verdict: 'ok' })
    await run('1 hour', 4, 2, 'backfill', 'needs_attention')
    // A run that failed did not read everything, and a replay reads nothing of the service.
    await run('30 minutes', 0, 0, 'backfill', 'failed')
    await run('20 minutes', 50, 0, 'replay')
    expect(await team.verdict()).toMatchObject({
      verdict: 'silent',
      reason: expect.stringMatching(/found 6 changes that no event reported/),
    })
    // One whose secret was retired sends elsewhere.
    await team.run('update intake_ops.webhook_secrets set retired_at = now()')
    expect(await team.verdict()).toMatchObject({ verdict: 'ok' })
    await team.run('update intake_ops.webhook_secrets set retired_at = null')
    // A configuration that was created since then could not have reported all of them.
    await team.run("update intake.webhook_configs set created_at = now() - interval '2 hours'")
    expect(await team.verdict()).toMatchObject({ verdict: 'ok' })
    await team.run("update intake.webhook_configs set created_at = now() - interval '20 days'")
    expect(await team.verdict()).toMatchObject({ verdict: 'silent' })
    // A configuration that sends only some kinds of events proves nothing about the others.
    await team.run("update intake.webhook_configs set event_types = '{created,updated}'")
    expect(await team.verdict()).toMatchObject({ verdict: 'ok' })
    await team.run(
      "update intake.webhook_configs set event_types = '{created,updated,deleted}', sources = '{response}'",
    )
    expect(await team.verdict()).toMatchObject({ verdict: 'ok' })
    // It is not certain that the service reports messages: what a backfill finds of them proves nothing.
    const certain = ALL_STREAMS.flatMap(({ source, sourceIsGuess }) => (sourceIsGuess ? [] : (source ?? [])))
    await team.run('update intake.webhook_configs set sources = $1', [certain])
    for (const ago of ['10 minutes', '5 minutes']) await run(ago, 70, 0, 'backfill', 'succeeded', 'messages')
    const found = async () => /found (\d+) changes/.exec((await team.verdict()).reason)?.[1]
    expect(await found()).toBe('6')
    // Each stream has a newest run of its own.
    for (const ago of ['4 minutes', '3 minutes']) await run(ago, 30, 1, 'backfill', 'succeeded', 'forms')
    expect(await found()).toBe('37')
    for (const away of ['is_active = false', '_deleted_at = now(), is_active = null']) {
      await team.run(`update intake.webhook_configs set ${away}`)
      expect(await found()).toBeUndefined()
    }
  })
})
