/** What `serve` and `work` say once they are ready: where they listen, what is off, and why. */

import type { AddressInfo } from 'node:net'
import { createServer } from 'node:net'
import { afterAll, beforeAll, expect, it, onTestFinished } from 'vitest'
import { runProgram } from '../../../src/commands/program.ts'
import { adminOf } from '../../../src/commands/run/console.ts'
import {
  type Options,
  offOf,
  scheduleOf,
  servingDocument,
  servingText,
} from '../../../src/commands/run/serve.ts'
import { readConfig } from '../../../src/config/config.ts'
import { sign } from '../../../src/core/signature.ts'
import { LIMITS } from '../../../src/ingest/http/in-flight.ts'
import { openSession } from '../../../src/warehouse/connect.ts'
import { placeOf, seal, storeSecret } from '../../../src/warehouse/webhook-secrets.ts'
import { openWarehouse, query } from '../../e2e/support/scene.ts'
import { ANYWHERE } from '../../e2e/support/serving.ts'
import { configOf } from '../../e2e/support/teams.ts'
import { openRaw } from '../../ingest/support/raw.ts'
import { openReceiver, SECRET, shortOf } from '../../operate/alerts/receiver.ts'

const ALL: Options = { ingest: true, drain: true, schedule: true, work: true }
const access = (name: string) => ({ name, baseUrl: 'http://127.0.0.1:1', apiKey: 'k', apiSecret: 's' })
const only = { name: 'south', webhookSecrets: ['x'] }
const config = (env: object = {}, ...teams: object[]) =>
  readConfig({ ...configOf(teams.length === 0 ? [access('north')] : (teams as never)), ...env })

let warehouse: Awaited<ReturnType<typeof openWarehouse>>

beforeAll(async () => {
  warehouse = await openWarehouse()
})
afterAll(() => warehouse?.drop())

it('the schedule is that of the option, else of the settings; off and --no-schedule turn it off', () => {
  const own = config({ INTAKE_CRON: '1 2 * * *' })
  expect([
    scheduleOf(own, ALL),
    scheduleOf(own, { ...ALL, cron: '5 5 * * *' }),
    scheduleOf(own, { ...ALL, cron: 'off' }),
    scheduleOf(own, { ...ALL, cron: '5 5 * * *', schedule: false }),
    scheduleOf(config({ INTAKE_CRON: 'off' }), ALL),
    scheduleOf(config({ INTAKE_CRON: 'off' }), { ...ALL, cron: '5 5 * * *' }),
  ]).toEqual(['1 2 * * *', '5 5 * * *', null, null, null, '5 5 * * *'])
})

it.each([
  ['nothing', [], ALL, {}, []],
  [
    'everything',
    [],
    { ingest: false, drain: false, schedule: false, work: false },
    {},
    ['ingest: --no-ingest', 'drain: --no-drain', 'schedule: --no-schedule', 'work: --no-work'],
  ],
  ['the schedule by its option', [], { ...ALL, cron: 'off' }, {}, ['schedule: --cron off']],
  ['the schedule by the setting', [], ALL, { INTAKE_CRON: 'off' }, ['schedule: INTAKE_CRON is off']],
  [
    'what needs access, for teams without credentials',
    [access('north'), only],
    ALL,
    {},
    ['refetches', 'schedule', 'work'].map((part) => `${part}: no API credentials for south`),
  ],
  [
    'what needs access, naming every team without credentials',
    [access('north'), only, access('east'), { ...only, name: 'west' }],
    ALL,
    {},
    ['refetches', 'schedule', 'work'].map((part) => `${part}: no API credentials for south, west`),
  ],
  [
    'what was turned off, before what lacks credentials',
    [access('north'), only],
    { ...ALL, drain: false, work: false },
    { INTAKE_CRON: 'off' },
    ['drain: --no-drain', 'schedule: INTAKE_CRON is off', 'work: --no-work'],
  ],
] as const)('it lists as off: %s', (_, teams, options, env, off) => {
  expect(offOf(config(env, ...teams), options).map(({ part, why }) => `${part}: ${why}`)).toEqual(off)
})

const READY = { ingest: 'http://h:1', admin: 'http://h:2', next: null, teams: ['only'] }

it('one team has the short address, several one each; without ingest there is none', () => {
  const next = new Date('2026-01-05T03:00:00Z')
  expect(servingText({ ...READY, next }, [{ part: 'work', why: '--no-work' }])).toBe(
    [
      'ready: webhooks of only at http://h:1/webhooks\nhealth and metrics at http://h:2',
      'next backfill at 2026-01-05T03:00:00.000Z\noff: work (--no-work)\n',
    ].join('\n'),
  )
  const several = { ...READY, teams: ['a b', 'c'] }
  expect(servingText(several, [])).toBe(
    [
      'webhooks of a b at http://h:1/webhooks/a%20b\nwebhooks of c at http://h:1/webhooks/c',
      'ready: health and metrics at http://h:2\n',
    ].join('\n'),
  )
  expect(servingText({ ...several, ingest: null }, [])).toBe('ready: health and metrics at http://h:2\n')
  expect(servingDocument(several, [{ part: 'work', why: 'x' }], null)).toEqual({
    ...{ webhooks: 'http://h:1/webhooks', admin: 'http://h:2', next_backfill: null, off: { work: 'x' } },
    teams: { 'a b': 'http://h:1/webhooks/a%20b', c: 'http://h:1/webhooks/c' },
  })
  expect(servingDocument(READY, [], null)).toEqual({
    ...{ webhooks: 'http://h:1/webhooks', teams: { only: 'http://h:1/webhooks/only' } },
    ...{ admin: 'http://h:2', next_backfill: null, off: {} },
  })
  const opened = { url: 'u', link: 'l', [Symbol.asyncDispose]: async () => {} }
  expect(servingDocument({ ...READY, ingest: null, next }, [], opened)).toMatchObject({
    ...{
      webhooks: null,
      teams: {},
      next_backfill: '2026-01-05T03:00:00.000Z',
      console: 'u',
      console_link: 'l',
    },
  })
})

it.each([
  ['0.0.0.0', 'http://127.0.0.1:9'],
  ['::', 'http://[::1]:9'],
  ['::2', 'http://[::2]:9'],
  ['127.0.0.1', 'http://127.0.0.1:9'],
  ['admin.internal', 'http://admin.internal:9'],
])('an admin server on %s is reached at %s', (adminHost, url) => {
  expect(adminOf({ ...config(), adminHost, adminPort: 9 })).toBe(url)
})

it('a worker of some teams takes another port where its own is in use, and ends with 0', async () => {
  const taken = createServer()
  await new Promise<void>((resolve) => taken.listen(0, '127.0.0.1', resolve))
  const { port } = taken.address() as AddressInfo
  const stop = new AbortController()
  const said = { out: '', err: '' }
  const stdout = {
    write: (text: string | Uint8Array) => {
      said.out += String(text)
      stop.abort('SIGTERM')
    },
  }
  const code = await runProgram(['work', '--teams', ' south, north', '--concurrency', '3', '--json'], {
    env: {
      ...configOf(['north', 'south', 'west'].map(access)),
      ...{ DATABASE_URL: warehouse.url, INTAKE_ADMIN_PORT: String(port) },
    },
    ...{ stdout, stderr: { write: (text) => (said.err += String(text)) }, signal: stop.signal, version: '' },
  })
  await new Promise((resolve) => taken.close(resolve))
  expect([code, JSON.parse(said.out)]).toMatchObject([0, { teams: ['south', 'north'], concurrency: 3 }])
  expect(JSON.parse(said.out).admin).not.toContain(`:${port}`)
  expect(said.err).toContain('health and metrics are on another port')
  expect(said.err).toContain('stopping: current batches will finish')
})

it('parts that are turned off do not run, and the others do', async () => {
  const answers: Record<string, number> = {}
  const serve = async (...words: string[]) => {
    const stop = new AbortController()
    const asked: Promise<void>[] = []
    const stdout = {
      write: (text: string | Uint8Array) => {
        const { admin, webhooks } = JSON.parse(String(text)) as { admin: string; webhooks: string | null }
        const ask = async () => {
          for (const part of ['drain', 'schedule', 'work'])
            answers[part] = (await fetch(`${admin}/readyz?part=${part}`)).status
          answers.ingest =
            webhooks === null ? 0 : (await fetch(webhooks, { method: 'POST', body: '{}' })).status
          stop.abort('SIGTERM')
        }
        asked.push(ask())
      },
    }
    const code = await runProgram(['serve', '--json', ...words], {
      env: { ...configOf([access('north')]), ...ANYWHERE, DATABASE_URL: warehouse.url },
      ...{ stdout, stderr: { write: () => true }, signal: stop.signal, version: '' },
    })
    await Promise.all(asked)
    return code
  }
  expect(await serve('--no-ingest', '--no-drain', '--no-work', '--no-schedule')).toBe(0)
  expect(answers).toEqual({ drain: 503, schedule: 503, work: 503, ingest: 0 })
  expect(await serve('--no-work')).toBe(0)
  expect(answers).toEqual({ drain: 200, schedule: 200, work: 503, ingest: 400 })
})

it('connections of a trusted proxy do not count as those of one peer, and others do', async () => {
  const { connectionsOfPeer } = LIMITS
  onTestFinished(() => void Object.assign(LIMITS, { connectionsOfPeer }))
  Object.assign(LIMITS, { connectionsOfPeer: 1 })
  const stop = new AbortController()
  const statuses: (number | null)[] = []
  const ask = async (webhooks: string) => {
    for (const from of ['127.0.0.8', '127.0.0.9']) {
      await using first = await openRaw(webhooks, from)
      await using second = await openRaw(webhooks, from)
      for (const each of [second, first]) {
        each.write('POST /webhooks HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}')
        const answers = await each.answers(1).catch(() => [])
        statuses.push(answers[0]?.status ?? null)
      }
    }
  }
  let asked = Promise.resolve()
  const stdout = {
    write(text: string | Uint8Array) {
      asked = ask((JSON.parse(String(text)) as { webhooks: string }).webhooks).finally(() =>
        stop.abort('SIGTERM'),
      )
    },
  }
  const code = await runProgram(['serve', '--json', '--no-drain', '--no-schedule', '--no-work'], {
    env: {
      ...{ ...configOf([access('north')]), ...ANYWHERE, DATABASE_URL: warehouse.url },
      INTAKE_TRUSTED_PROXIES: '127.0.0.8',
    },
    ...{ stdout, stderr: { write: () => true }, signal: stop.signal, version: '' },
  })
  await asked
  expect([code, statuses]).toEqual([0, [400, 400, 400, null]])
})

/** Rows past their retention and rows that are not; a dead letter that waits; a time of the schedule that was missed. */
const PLANTED = `
  delete from intake_ops.runs; delete from intake_ops.dead_letters; delete from intake_ops.alerts;
  insert into intake.teams (name) values ('north') on conflict do nothing;
  insert into intake_ops.runs (kind, status, started_at, finished_at)
    select 'verify', 'succeeded', now() - n * interval '1 day', now() - n * interval '1 day' from unnest(array[19, 21]) n;
  insert into intake_ops.dead_letters (team_id, stream, fingerprint, origin, reason, status, settled_at)
    select team_id, 'patients', n::text, 'x', 'x', 'discarded', now() - n * interval '1 day' from unnest(array[9, 11]) n, intake.teams where name = 'north';
  insert into intake_raw.set_aside (dead_letter_id, body) select id, '{}' from intake_ops.dead_letters;
  insert into intake_ops.dead_letters (team_id, stream, fingerprint, origin, reason)
    select team_id, 'forms', 'w', 'x', 'x' from intake.teams where name = 'north';
  insert into intake_ops.schedule_ticks (team_id, job, due_at, taken_by)
    select team_id, 'backfill', now() - interval '3 days', gen_random_uuid() from intake.teams where name = 'north'
    on conflict do nothing`

it.each(['work', 'serve --no-work'])(
  'the settings of %s reach its parts: retention and alerts, stored secrets, a schedule that was missed',
  async (words) => {
    await using receiver = await openReceiver()
    const key = Buffer.alloc(32, 5).toString('base64')
    await query(warehouse.url, PLANTED)
    const [team] = await query<{ id: number }>(
      warehouse.url,
      `select team_id as id from intake.teams where name = 'north'`,
    )
    await using session = await openSession({ url: warehouse.url, purpose: 'test' })
    const place = { teamId: team!.id, configId: 'c' }
    await storeSecret(session.db, place, seal('whsec_stored', Buffer.from(key, 'base64'), placeOf(place)))
    const stop = new AbortController()
    const answers: unknown[] = []
    const said: string[] = []
    const ask = async (webhooks: string | undefined) => {
      await expect.poll(() => receiver.taken().flatMap(shortOf).join()).toContain('dead_letters north forms')
      if (webhooks === undefined) return
      const body = JSON.stringify({ id: 'e', event_type: 'updated', source: 'patient', data: { id: 'p' } })
      const headers = { 'x-service-signature': sign(Buffer.from(body), 'whsec_stored') }
      answers.push((await fetch(webhooks, { method: 'POST', body, headers })).status)
      await expect.poll(() => said.join('')).toContain('scheduled backfill started')
    }
    const stdout = {
      write: (text: string | Uint8Array) =>
        void ask((JSON.parse(String(text)) as { webhooks?: string }).webhooks)
          .catch((error: unknown) => answers.push(error))
          .finally(() => stop.abort('SIGTERM')),
    }
    const code = await runProgram([...words.split(' '), '--json'], {
      env: {
        ...{ ...configOf([access('north')]), ...ANYWHERE, DATABASE_URL: warehouse.url },
        ...{ INTAKE_ENCRYPTION_KEY: key, INTAKE_INBOX_DAYS: '10', INTAKE_RUN_DAYS: '20' },
        ...{ INTAKE_ALERT_URL: receiver.url, INTAKE_ALERT_SECRET: SECRET, INTAKE_CRON_MISSED: 'run' },
      },
      ...{ stdout, stderr: { write: (text) => said.push(String(text)) }, signal: stop.signal, version: '' },
    })
    expect([code, answers]).toEqual([0, words === 'work' ? [] : [200]])
    const [left] = await query(
      warehouse.url,
      `select (select count(*)::int from intake_raw.set_aside) as bodies,
       (select count(*)::int from intake_ops.runs where kind = 'verify') as verifications`,
    )
    expect(left).toEqual({ bodies: 1, verifications: 1 })
  },
)
