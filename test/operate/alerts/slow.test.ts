/** Checks for alerts that take too long do not delay the alerts of other causes. */
import pino from 'pino'
import { expect, it, onTestFinished } from 'vitest'
import { systemClock } from '../../../src/core/clock.ts'
import { runRound } from '../../../src/operate/alerts/round.ts'
import { openWebhookChecks, type WebhookChecks } from '../../../src/operate/health/webhook-checks.ts'
import { openSession } from '../../../src/warehouse/connect.ts'
import { connect, openWarehouse, query } from '../../e2e/support/scene.ts'
import { until } from '../../e2e/support/serving.ts'
import { openReceiver, SECRET, shortOf } from './receiver.ts'

const TEAMS = ['north', 'south', 'west']

/** Longer than any check takes that waits for nothing. */
const AMPLE = { inboxDays: 30, eachMs: 20_000, allMs: 20_000 }

async function openScene(webhookChecks: WebhookChecks = openWebhookChecks(AMPLE)) {
  const warehouse = await openWarehouse()
  const receiver = await openReceiver()
  onTestFinished(async () => {
    await receiver[Symbol.asyncDispose]()
    await warehouse.drop()
  })
  const { url } = warehouse
  const run = (text: string) => query(url, text)
  await run("insert into intake.teams (name) values ('north'), ('south'), ('west')")
  const late: string[][] = []
  const logger = pino(
    { base: null },
    { write: (line: string) => void late.push((JSON.parse(line) as { late?: string[] }).late ?? []) },
  )
  const options = {
    ...{ url, logger, clock: systemClock, signal: new AbortController().signal, version: '1.2.3' },
    teams: TEAMS,
    settings: { url: receiver.url, secret: SECRET, inboxSeconds: 300, maxAgeHours: null },
  }
  /** The alerts that one round posts, in short form. */
  const posted = async (checks = webhookChecks) => {
    await runRound({ ...options, webhookChecks: checks }, { thorough: true, insist: false })
    return receiver.taken().flatMap(shortOf)
  }
  return {
    ...{ url, run, posted },
    late: () => late.flat(),
    /** The alerts of as many rounds as it takes to post so many: on a slow machine some come with a later one. */
    async allPosted(number: number, checks = webhookChecks) {
      const all: string[] = []
      await until(`${number} alerts are posted`, async () => {
        all.push(...(await posted(checks)))
        return all.length >= number
      })
      return all.toSorted()
    },
    /** Events arrived for this team until a day ago, and none since. */
    silence: (team: string) =>
      run(
        `insert into intake_ops.events_received (team_id, hour, events, last_at)
         select team_id, date_trunc('hour', now()) - make_interval(hours => ago), 30, now() - make_interval(hours => ago)
         from intake.teams, generate_series(30, 300) as ago where name = '${team}'`,
      ),
    deadLetter: (team: string) =>
      run(
        `insert into intake_ops.dead_letters (team_id, stream, record_id, fingerprint, origin, reason)
         select team_id, 'forms', 'f', 'x', 'page', 'r' from intake.teams where name = '${team}'`,
      ),
    oldEvent: (team: string) =>
      run(
        `insert into intake_raw.inbox (team_id, event_id, body_hash, received_on, received_at, body)
         select team_id, 'e', '\\x00', current_date, now() - interval '1 hour', '{}' from intake.teams where name = '${team}'`,
      ),
    /** Reading the table takes longer than any limit, until the returned function is called. */
    async slow(table: string) {
      const [schema, name] = table.split('.')
      await run(`alter table ${table} rename to of_${name}`)
      await run(
        `create or replace function public.cancel() returns boolean language plpgsql as
         $$ begin raise exception 'canceled' using errcode = '57014'; end $$`,
      )
      await run(`create view ${table} as select * from ${schema}.of_${name} where (select public.cancel())`)
      return async () => {
        await run(`drop view ${table}`)
        await run(`alter table ${schema}.of_${name} rename to ${name}`)
      }
    },
    /** Locks the table until the returned function is called. */
    async lock(table: string) {
      const session = await connect(url)
      await session.query('begin')
      await session.query(`lock table ${table} in access exclusive mode`)
      return () => session.end()
    },
  }
}

it('deliveries that cannot be compared block no other alert, and clear none', async () => {
  const scene = await openScene()
  await scene.silence('north')
  expect(await scene.posted()).toEqual(['raised webhooks_silent north'])
  const unlock = await scene.lock('intake.webhook_deliveries')
  await scene.deadLetter('south')
  await scene.oldEvent('west')
  expect(await scene.allPosted(2, openWebhookChecks({ ...AMPLE, eachMs: 200 }))).toEqual([
    'raised dead_letters south forms',
    'raised inbox_old west',
  ])
  expect(scene.late()).toEqual(expect.arrayContaining(TEAMS.map((team) => `webhooks of ${team}`)))
  await unlock()
  await scene.run("update intake_ops.events_received set last_at = now(), hour = hour + interval '30 hours'")
  expect(await scene.posted()).toEqual(['cleared webhooks_silent north'])
})

it('when the deliveries of one team take long to compare, the others are checked and the team is named in the log', async () => {
  const scene = await openScene(openWebhookChecks({ ...AMPLE, eachMs: 1_500 }))
  for (const team of TEAMS) await scene.silence(team)
  // A single row of the team is as slow as millions.
  await scene.run('alter table intake.webhook_deliveries rename to all_deliveries')
  // So expensive that a plan looks at the team first.
  await scene.run(
    `create function public.pause() returns boolean language plpgsql cost 1000000 as
     $$ begin perform pg_sleep(20); return true; end $$`,
  )
  await scene.run(
    `create view intake.webhook_deliveries as
     select * from intake.all_deliveries where case when event_id = 'slow' then public.pause() else true end`,
  )
  await scene.run(
    `insert into intake.all_deliveries (team_id, id, event_id, webhook_config_id, created_at, _version, _origin)
     select team_id, 'd', 'slow', 'c', now(), now(), 'test' from intake.teams where name = 'north'`,
  )
  expect(await scene.allPosted(2)).toEqual(['raised webhooks_silent south', 'raised webhooks_silent west'])
  expect(scene.late()).toContain('webhooks of north')
})

it('teams that were skipped for lack of time come first in the next round', async () => {
  const limits = { ...AMPLE, eachMs: 300, allMs: 300 }
  const checks = openWebhookChecks(limits)
  const scene = await openScene(checks)
  const unlock = await scene.lock('intake.webhook_deliveries')
  await using session = await openSession({ url: scene.url, purpose: 'looks' })
  expect(await checks.check(session.db, null)).toEqual([])
  await unlock()
  Object.assign(limits, AMPLE)
  const judged = await checks.check(session.db, null)
  expect(judged.map(({ team }) => team)).toEqual(['south', 'west', 'north'])
})

it('dead letters that cannot be counted block no other alert, and clear none', async () => {
  const scene = await openScene()
  await scene.deadLetter('north')
  expect(await scene.posted()).toEqual(['raised dead_letters north forms'])
  await scene.slow('intake_ops.dead_letters')
  await scene.oldEvent('west')
  await scene.silence('south')
  expect(await scene.allPosted(2)).toEqual(['raised inbox_old west', 'raised webhooks_silent south'])
  expect(scene.late()).toContain('dead_letters')
})

it('while runs cannot be read, nothing is raised or cleared that one in progress may still change', async () => {
  const scene = await openScene()
  await scene.deadLetter('north')
  expect(await scene.posted()).toEqual(['raised dead_letters north forms'])
  const restore = await scene.slow('intake_ops.runs')
  await scene.run(`update intake_ops.dead_letters set status = 'resolved', settled_at = now()`)
  await scene.deadLetter('south')
  await scene.oldEvent('west')
  expect(await scene.allPosted(1)).toEqual(['raised inbox_old west'])
  expect(scene.late()).toContain('runs')
  await restore()
  expect(await scene.allPosted(2)).toEqual([
    'cleared dead_letters north forms',
    'raised dead_letters south forms',
  ])
})

it('the timeout of the checks does not apply to later statements', async () => {
  const scene = await openScene()
  await using session = await openSession({
    url: scene.url,
    purpose: 'looks',
    planner: ['statement_timeout=7000'],
  })
  await openWebhookChecks({ inboxDays: 30 }).check(session.db, null)
  const { rows } = await session.client.query(
    `select name, setting from pg_settings where name in ('statement_timeout', 'lock_timeout') order by name`,
  )
  expect(rows).toEqual([
    { name: 'lock_timeout', setting: '10000' },
    { name: 'statement_timeout', setting: '7000' },
  ])
})
