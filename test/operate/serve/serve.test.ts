/** Several `serve` processes on one warehouse, with the same schedule, share scheduled times and the budget of their team. */

import { setTimeout as sleep } from 'node:timers/promises'
import pino from 'pino'
import { expect, it } from 'vitest'
import { scheduledBackfill } from '../../../src/commands/run/backfill.ts'
import { systemClock } from '../../../src/core/clock.ts'
import { SIGNATURE_HEADER, sign } from '../../../src/core/signature.ts'
import type { TeamSource } from '../../../src/extract/backfill-options.ts'
import type { ServeOptions } from '../../../src/operate/serve/parts.ts'
import { openServe } from '../../../src/operate/serve/serve.ts'
import { planReplay } from '../../../src/reconcile/slices.ts'
import { forms } from '../../../src/streams/forms.ts'
import { openScene, query, type Scene } from '../../e2e/support/scene.ts'
import { openReceiver, shortOf } from '../alerts/receiver.ts'

const ANYWHERE = { host: '127.0.0.1', port: 0 }

function sourceOf({ emulator }: Scene): TeamSource {
  const { base_url, teams } = emulator.environments[0]!
  const { api_key, api_secret } = teams[0]!
  return {
    ...{ name: 'north', baseUrl: base_url, apiKey: api_key, apiSecret: api_secret },
    ...{ apiVersion: 'v2.1', concurrency: 4 },
  }
}

function optionsOf(scene: Scene, more: Partial<ServeOptions>): ServeOptions {
  return {
    ...{
      url: scene.url,
      teams: [sourceOf(scene)],
      ingest: ANYWHERE,
      admin: ANYWHERE,
      drain: true,
      cron: null,
    },
    ingestTeams: [
      { name: 'north', webhookSecrets: [] },
      { name: 'south', webhookSecrets: ['a secret'] },
    ],
    ...{ inboxDays: 30, encryptionKey: null, backfill: async () => {} },
    ...{ clock: systemClock, random: Math.random, logger: pino({ level: 'silent' }) },
    ...more,
  }
}

it('two of them backfill once per scheduled time together, only teams with credentials, under one budget each', async () => {
  await using scene = await openScene({ patients: 0 })
  // Another process takes the scheduled times of a third team.
  await query(scene.url, `insert into intake.teams (name) values ('west')`)
  await query(
    scene.url,
    `insert into intake_ops.schedule_ticks (team_id, job, due_at, taken_by)
     select team_id, 'backfill', date_trunc('second', now()) + n * interval '1 second', gen_random_uuid()
     from intake.teams, generate_series(0, 600) n where name = 'west'`,
  )
  const taken: { names: string[]; budgets: unknown[] }[] = []
  const backfill: ServeOptions['backfill'] = async (teams) => {
    taken.push({
      names: teams.map(({ name }) => name),
      budgets: teams.map(({ limiter }) => limiter),
    })
    if (taken.length > 1) return
    await query(
      scene.url,
      `insert into intake_ops.runs (kind, status, options, finished_at)
       values ('replay', 'failed', '{"teams": ["north"]}', now())`,
    )
  }
  await using receiver = await openReceiver()
  const alerts = { url: receiver.url, secret: null, inboxSeconds: 300, maxAgeHours: null }
  const sources = [sourceOf(scene), { ...sourceOf(scene), name: 'west' }]
  const options = optionsOf(scene, {
    ...{ cron: '* * * * * *', backfill, alerts, alertsEveryMs: 3_600_000, teams: sources },
    ingestTeams: ['north', 'south', 'west'].map((name) => ({ name, webhookSecrets: [] })),
  })
  const both = await Promise.all([openServe(options), openServe(options)])
  expect(both.every(({ next }) => next !== null)).toBe(true)
  await expect.poll(() => taken.length).toBeGreaterThanOrEqual(3)
  // The end of a run is the time to look for what it left.
  await expect.poll(() => receiver.posts.flatMap(shortOf)).toEqual(['raised replay_failed north'])
  await Promise.all(both.map((serving) => serving.close()))
  // Each row is a scheduled time of a team.
  const ticks = `select from intake_ops.schedule_ticks join intake.teams using (team_id) where name = 'north'`
  expect(await query(scene.url, ticks)).toHaveLength(taken.length)
  for (const { names, budgets } of taken) {
    expect(names).toEqual(['north'])
    expect(budgets).toEqual([expect.objectContaining({ acquire: expect.any(Function) })])
  }
  expect(new Set(taken.flatMap(({ budgets }) => budgets)).size).toBeLessThanOrEqual(2)
})

it('closed twice, and closed during a backfill, it ends once and leaves nothing open', async () => {
  await using scene = await openScene({ patients: 0 })
  const steps: string[] = []
  const backfill: ServeOptions['backfill'] = async (_, signal) => {
    steps.push('begun')
    await sleep(30_000, undefined, { signal }).catch(() => undefined)
    steps.push('stopped')
  }
  const serving = await openServe(optionsOf(scene, { cron: '* * * * * *', backfill }))
  await expect.poll(() => steps).toEqual(['begun'])
  const [first, second] = [serving.close(), serving.close()]
  expect(second).toBe(first)
  await first
  expect(steps).toEqual(['begun', 'stopped'])
  await expect(fetch(serving.admin)).rejects.toThrow()
  await expect(fetch(serving.ingest!)).rejects.toThrow()
})

it('sessions that the warehouse ends are replaced automatically', async () => {
  await using scene = await openScene({ patients: 0 })
  const serving = await openServe(optionsOf(scene, {}))
  const sessions = `from pg_stat_activity
    where datname = current_database() and application_name like 'intake-sync %'`
  await expect.poll(async () => (await query(scene.url, `select ${sessions}`)).length).toBeGreaterThan(2)
  await query(scene.url, `select pg_terminate_backend(pid) ${sessions}`)
  const readyz = async () => (await fetch(`${serving.admin}/readyz`)).status
  await expect.poll(readyz).toBe(200)
  await serving.close()
})

it('is ready to work while it can claim slices, and says why it cannot', async () => {
  await using scene = await openScene({ patients: 0 })
  await using serving = await openServe(optionsOf(scene, { work: {} }))
  // It has no team with credentials.
  await using other = await openServe(optionsOf(scene, { work: {}, cron: '0 3 * * *', teams: [] }))
  expect(other.next).toBeNull()
  const ask = async ({ admin }: typeof serving) => {
    const response = await fetch(`${admin}/readyz?part=work`)
    return { status: response.status, ...((await response.json()) as { reasons: string[] }) }
  }
  await expect.poll(() => ask(serving)).toMatchObject({ status: 200, reasons: [] })
  expect(await ask(other)).toMatchObject({ status: 503, reasons: ['work: off in this process'] })
  await query(scene.url, 'alter table intake_ops.slices rename to away')
  await expect
    .poll(() => ask(serving))
    .toMatchObject({ status: 503, reasons: [expect.stringMatching(/^work: (?!has not begun)./)] })
  // Events are stored whatever the worker does.
  expect((await fetch(`${serving.admin}/readyz`)).status).toBe(200)
  await query(scene.url, 'alter table intake_ops.away rename to slices')
  await expect.poll(() => ask(serving)).toMatchObject({ status: 200, reasons: [] })
})

it('is ready to receive and to drain while it can store and load events, and says why it cannot', async () => {
  await using scene = await openScene({ patients: 0 })
  await using serving = await openServe(optionsOf(scene, {}))
  const ask = async (part: string) => {
    const response = await fetch(`${serving.admin}/readyz?part=${part}`)
    return { status: response.status, ...((await response.json()) as { reasons: string[] }) }
  }
  const send = async () => {
    const headers = { [SIGNATURE_HEADER]: sign(Buffer.from('{}'), 'a secret') }
    return (await fetch(`${serving.ingest}/webhooks/south`, { method: 'POST', body: '{}', headers })).status
  }
  const ready = { status: 200, reasons: [] }
  for (const part of ['ingest', 'drain']) await expect.poll(() => ask(part)).toMatchObject(ready)
  expect(await ask('schedule')).toMatchObject({ status: 503, reasons: ['schedule: off in this process'] })
  await query(scene.url, 'alter table intake_raw.inbox rename to away')
  await expect
    .poll(() => ask('drain'))
    .toMatchObject({ status: 503, reasons: [expect.stringMatching(/^drain: ./)] })
  await expect
    .poll(async () => [await send(), await ask('ingest')])
    .toMatchObject([503, { status: 503, reasons: [expect.stringMatching(/^ingest: ./)] }])
  await query(scene.url, 'alter table intake_raw.away rename to inbox')
  await expect.poll(() => ask('drain')).toMatchObject(ready)
  expect(await send()).toBe(200)
  await expect.poll(() => ask('ingest')).toMatchObject(ready)
  // An event that comes again counts once.
  expect(await send()).toBe(200)
  await serving.close()
  expect(await query(scene.url, 'select events::int from intake_ops.events_received')).toEqual([
    { events: 1 },
  ])
})

it('looks for what a run of workers left as soon as the run has ended', async () => {
  await using scene = await openScene({ patients: 0 })
  await using receiver = await openReceiver()
  const alerts = { url: receiver.url, secret: null, inboxSeconds: 300, maxAgeHours: null }
  await using _serving = await openServe(optionsOf(scene, { work: {}, alerts, alertsEveryMs: 3_600_000 }))
  await query(
    scene.url,
    `insert into intake_ops.dead_letters (team_id, stream, fingerprint, origin, reason)
     select team_id, 'patients', 'x', 'page', 'why' from intake.teams where name = 'north'`,
  )
  await planReplay(scene.url, [forms], 'north')
  await expect.poll(() => receiver.posts.flatMap(shortOf)).toEqual(['raised dead_letters north patients'])
})

it('the scheduled backfill is an ordinary run, and its figures are logged', async () => {
  await using scene = await openScene({ patients: 12, responses: 12 })
  const said: string[] = []
  const logger = pino({ base: null }, { write: (line: string) => void said.push(line) })
  const place = { url: scene.url, config: { lookbackDays: 2, sweepDays: 7 }, logger, version: '0.0.0' }
  await scheduledBackfill(place, [sourceOf(scene)], new AbortController().signal)
  const runs = await query(scene.url, 'select kind, status from intake_ops.runs')
  expect(runs).toEqual([{ kind: 'backfill', status: 'succeeded' }])
  const [{ patients }] = (await query<{ patients: number }>(
    scene.url,
    'select count(*)::int as patients from intake.patients',
  )) as [{ patients: number }]
  expect(patients).toBe(12)
  const last = JSON.parse(said.at(-1)!) as object
  expect(last).toMatchObject({ msg: 'scheduled backfill: succeeded', run: '1', deleted: 0, dead_letters: 0 })
  const stop = new AbortController()
  stop.abort(new Error('stopped'))
  await scheduledBackfill(place, [sourceOf(scene)], stop.signal)
  expect(JSON.parse(said.at(-1)!)).toMatchObject({ msg: 'scheduled backfill: interrupted' })
})
