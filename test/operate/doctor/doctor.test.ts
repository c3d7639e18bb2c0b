/** `doctor` reports the cause of each planted fault, and no other. */

import { randomBytes } from 'node:crypto'
import { stripVTControlCharacters } from 'node:util'
import pino from 'pino'
import { afterAll, afterEach, beforeAll, describe, expect, inject, test } from 'vitest'
import { systemClock } from '../../../src/core/clock.ts'
import { type Emulator, startEmulator } from '../../../src/emulator/server.ts'
import type { Check } from '../../../src/operate/doctor/check.ts'
import { runChecks } from '../../../src/operate/doctor/doctor.ts'
import { pooledCheck } from '../../../src/operate/doctor/warehouse.ts'
import { openSession } from '../../../src/warehouse/connect.ts'
import { placeOf, seal, storeSecret } from '../../../src/warehouse/webhook-secrets.ts'
import { query, variablesOf } from '../../e2e/support/scene.ts'
import type { Variables } from '../../support/cli.ts'
import { createTestDatabase, type TestDatabase } from '../../support/database.ts'
import { runCommand } from '../../support/run-command.ts'

const KEY = randomBytes(32).toString('base64')

let emulator: Emulator
let warehouse: TestDatabase
let env: Variables

beforeAll(async () => {
  emulator = await startEmulator({ port: 0, patients: 3, responses: 3, forms: 2, packets: 1, documents: 1 })
  warehouse = await createTestDatabase()
  env = {
    ...variablesOf(emulator),
    DATABASE_URL: warehouse.url,
    INTAKE_ENCRYPTION_KEY: KEY,
    INTAKE_WEBHOOK_SECRETS: 'one',
    INTAKE_WEBHOOK_PORT: '0',
    INTAKE_ADMIN_PORT: '0',
  }
  await query(warehouse.url, "insert into intake.teams (name) values ('default')")
})
afterEach(async () => {
  await query(
    warehouse.url,
    `update intake.teams set environment = null; delete from intake_ops.webhook_secrets; delete from intake_raw.inbox`,
  )
})
afterAll(async () => {
  await emulator.close()
  await warehouse.drop()
})

interface Doctored {
  readonly code: number | null
  readonly output: string
  readonly checks: readonly Check[]
  /** Checks that are not ok, by name. */
  readonly wrong: Readonly<Record<string, Check>>
}

async function doctor(changes: Variables = {}): Promise<Doctored> {
  const { code, stdout, output } = await runCommand(['doctor', '--json'], { ...env, ...changes })
  const { checks } = JSON.parse(stdout) as { checks: readonly Check[] }
  // This machine's Node may be past its end of life.
  const wrong = checks.filter(({ status, name }) => status !== 'ok' && name !== 'node')
  return { code, output, checks, wrong: Object.fromEntries(wrong.map((check) => [check.name, check])) }
}

test('without a fault, nothing is reported and the exit code is 0', async () => {
  const { code, checks, wrong, output } = await doctor()
  expect(wrong).toEqual({})
  expect(code).toBe(0)
  expect(checks.map(({ name }) => name)).toEqual([
    ...[
      'node',
      'configuration',
      'database',
      'database transport',
      'database sessions',
      'database encoding',
      'database writes',
      'schema',
    ],
    ...[
      'database privileges',
      'roles',
      'questions',
      'slices',
      'disk',
      'time zones',
      'credentials',
      'environment',
      'clock',
    ],
    'rate limit',
    ...['webhook secret', 'encryption key', 'inbox', 'schedule', 'alerts', 'webhook port', 'admin port'],
  ])
  for (const secret of [KEY, env.INTAKE_API_SECRET!, env.INTAKE_API_KEY!, warehouse.url])
    expect(output).not.toContain(secret)
})

test('without --json each check is a line of at most 80 columns, with its hint below', async () => {
  const { INTAKE_API_KEY: _, ...rest } = env
  const ended = await runCommand(
    ['doctor'],
    { ...rest, INTAKE_API_SECRET: '', INTAKE_BASE_URL: '' },
    { columns: 80 },
  )
  expect(ended.code).toBe(1)
  const shown = stripVTControlCharacters(ended.stdout)
  expect(shown).not.toBe(ended.stdout)
  for (const line of shown.split('\n')) expect([...line].length).toBeLessThanOrEqual(80)
  expect(shown).toMatch(/^failed {3}credentials [^:]*hint: /m)
  expect(shown).toMatch(/\d+ ok, \d+ warnings?, 1 failed\n$/)
})

describe('faults of the service:', () => {
  test('missing credentials', async () => {
    const { wrong, code } = await doctor({ INTAKE_BASE_URL: '', INTAKE_API_KEY: '', INTAKE_API_SECRET: '' })
    expect([code, Object.keys(wrong)]).toEqual([1, ['credentials']])
    expect(wrong.credentials).toMatchObject({ status: 'failed', detail: expect.stringContaining('not set') })
  })

  test('a sandbox key on production', async () => {
    const sandbox = emulator.environments[1]!.teams[0]!
    const keys = { INTAKE_API_KEY: sandbox.api_key, INTAKE_API_SECRET: sandbox.api_secret }
    const unknown = await doctor(keys)
    expect(unknown.wrong.credentials).toMatchObject({
      detail: expect.stringContaining('production environment'),
      hint: expect.stringContaining('a sandbox key is not valid in production'),
    })
    await query(warehouse.url, "update intake.teams set environment = 'sandbox'")
    expect((await doctor(keys)).wrong.credentials!.detail).toContain('they are credentials of sandbox')
  })

  test.each([
    [90, 'warning', 0],
    [-90, 'warning', 0],
  ])('a clock that is off by %i seconds', async (seconds, status, exitCode) => {
    const skewed = await startEmulator({
      port: 0,
      patients: 0,
      responses: 0,
      faults: `clock-skew=${seconds}`,
    })
    try {
      const { wrong, code } = await doctor(variablesOf(skewed))
      expect([code, Object.keys(wrong)]).toEqual([exitCode, ['clock']])
      expect(wrong.clock).toMatchObject({
        status,
        detail: expect.stringContaining(seconds > 0 ? 'ahead' : 'behind'),
      })
    } finally {
      await skewed.close()
    }
  })
})

describe('faults of the warehouse:', () => {
  const onServer = async (text: string) => await query(inject('testServer').url, text)
  const nameOf = (url: string) => new URL(url).pathname.slice(1)
  const withUrl = (change: (url: URL) => void) => {
    const url = new URL(warehouse.url)
    change(url)
    return { DATABASE_URL: url.href }
  }

  test('an unreachable server; checks that do not need it run all the same', async () => {
    const { wrong, code, checks } = await doctor(
      withUrl((url) => {
        url.port = '9'
      }),
    )
    expect([code, Object.keys(wrong)]).toEqual([1, ['database']])
    expect(wrong.database!.detail).toContain('cannot reach the warehouse')
    expect(checks.map(({ name }) => name)).toContain('credentials')
  })

  test('a database with pending migrations', async () => {
    await using empty = await createTestDatabase({ empty: true })
    const { wrong, code } = await doctor({ DATABASE_URL: empty.url })
    expect([code, Object.keys(wrong)]).toEqual([1, ['schema']])
    expect(wrong.schema).toMatchObject({
      ...{ detail: 'the database has no schema of intake-sync yet', hint: 'run intake-sync migrate' },
    })
  })

  test('a database of another encoding', async () => {
    const name = `${inject('testServer').prefix}ascii`
    await onServer(`create database ${name} encoding 'SQL_ASCII' locale 'C' template template0`)
    try {
      const { wrong } = await doctor(
        withUrl((url) => {
          url.pathname = `/${name}`
        }),
      )
      expect(wrong['database encoding']).toMatchObject({
        ...{ status: 'failed', detail: expect.stringContaining('SQL_ASCII') },
      })
    } finally {
      await onServer(`drop database ${name} with (force)`)
    }
  })

  test('a login without write privileges, and roles without their grants', async () => {
    await using own = await createTestDatabase()
    const login = `${inject('testServer').prefix}reader`
    await onServer(`create role ${login} login password 'x'`)
    try {
      await query(own.url, `grant usage on schema intake_ops to ${login}`)
      await query(own.url, `grant select on intake_ops.migrations to ${login}`)
      await query(own.url, `grant usage on schema intake to ${login}`)
      await query(own.url, `grant select on intake.teams to ${login}`)
      await query(own.url, `revoke temporary on database ${nameOf(own.url)} from public`)
      const url = new URL(own.url)
      url.username = login
      url.password = 'x'
      const { wrong } = await doctor({ DATABASE_URL: url.href })
      expect(wrong['database privileges']).toMatchObject({
        status: 'failed',
        hint: expect.stringContaining('intake_loader'),
      })
      expect(wrong['database writes']).toMatchObject({
        ...{ status: 'failed', detail: 'this login may not create temporary tables' },
        hint: 'grant temporary on database … to it',
      })
      await query(own.url, 'revoke usage on schema intake_analytics from intake_analyst')
      await query(own.url, 'revoke usage on schema intake_safe_harbor from intake_researcher')
      const without = await doctor({ DATABASE_URL: own.url })
      expect([without.code, Object.keys(without.wrong)]).toEqual([1, ['roles']])
      expect(without.wrong.roles!.detail).toBe('without their grants: intake_analyst, intake_researcher')
    } finally {
      await query(own.url, `drop owned by ${login}`)
      await onServer(`drop role ${login}`)
    }
  })

  test('a pooler that lends connections per transaction', async () => {
    await using first = await openSession({ url: warehouse.url, purpose: 'test' })
    await using second = await openSession({ url: warehouse.url, purpose: 'test' })
    expect(await pooledCheck(first, second)).toMatchObject({ status: 'ok' })
    expect(await pooledCheck(first, null)).toMatchObject({
      ...{ status: 'warning', detail: 'a second connection was refused' },
    })
    // As with such a pooler, the second session uses the connection that the first returned.
    expect(await pooledCheck(first, first)).toMatchObject({
      status: 'failed',
      hint: expect.stringContaining('session mode'),
    })
  })

  test('a pooler that ignores the settings of a connection', async () => {
    await using first = await openSession({ url: warehouse.url, purpose: 'test' })
    await using second = await openSession({ url: warehouse.url, purpose: 'test' })
    // No startup packet has set it.
    await first.client.query('set lock_timeout = 0')
    expect(await pooledCheck(first, second)).toMatchObject({
      status: 'failed',
      detail: expect.stringContaining('ignores the settings'),
    })
  })

  test('each of several teams is compared with what the warehouse knows of that team', async () => {
    await using own = await createTestDatabase()
    await query(
      own.url,
      `insert into intake.teams (name, environment)
       values ('another', 'production'), ('north', 'sandbox'), ('south', 'production')`,
    )
    const [south] = await query<{ id: number }>(
      own.url,
      `select team_id as id from intake.teams where name = 'south'`,
    )
    const place = { teamId: south!.id, configId: 'c' }
    {
      await using session = await openSession({ url: own.url, purpose: 'test' })
      const key = Buffer.from(KEY, 'base64')
      await storeSecret(session.db, place, seal('whsec_canary', key, placeOf(place)))
    }
    const { base_url: baseUrl, teams: members } = emulator.environments[0]!
    const { api_key: apiKey, api_secret: apiSecret } = members[0]!
    const access = { baseUrl, apiKey, apiSecret, apiVersion: 'v2.1', concurrency: 1, timezone: 'UTC' }
    const names = ['north', 'south']
    const checks = await runChecks({
      ...{ url: own.url, dataDir: null, encryptionKey: KEY, cron: null, clock: systemClock },
      ingestTeams: names.map((name) => ({ name, webhookSecrets: [] })),
      teams: names.map((name) => ({ name, ...access })),
      webhook: { name: 'webhook port', variable: 'W', host: '127.0.0.1', port: 0 },
      admin: { name: 'admin port', variable: 'A', host: '127.0.0.1', port: 0 },
      ...{ logger: pino({ level: 'silent' }), signal: new AbortController().signal },
    })
    const of = checks.filter(({ name }) => /^(?:environment|webhook secret) of /.test(name))
    expect(of.map(({ name, detail }) => [name, detail])).toEqual([
      ['environment of north', 'the warehouse was loaded from sandbox, and this is production'],
      ['environment of south', 'production'],
      ['webhook secret of north', 'none: the response to every webhook is 503'],
      ['webhook secret of south', '0 configured, 1 stored'],
    ])
  })

  test('a disk that is full, of the embedded warehouse or of a server on this machine; a zone that it does not know', async () => {
    const looked: string[] = []
    const [server] = await query<{ directory: string }>(
      warehouse.url,
      `select setting as directory from pg_settings where name = 'data_directory'`,
    )
    const zones = ['UTC', 'europe/BERLIN', 'Mars/Olympus', 'UTC']
    const options = {
      url: warehouse.url,
      ingestTeams: [],
      teams: zones.map((timezone) => ({
        ...{ name: 'any', baseUrl: '', apiKey: '', apiSecret: '', apiVersion: '', concurrency: 1, timezone },
      })),
      encryptionKey: null,
      cron: null,
      webhook: { name: 'webhook port', variable: 'INTAKE_WEBHOOK_PORT', host: '127.0.0.1', port: 0 },
      admin: { name: 'admin port', variable: 'INTAKE_ADMIN_PORT', host: '127.0.0.1', port: 0 },
      clock: systemClock,
      logger: pino({ level: 'silent' }),
      signal: new AbortController().signal,
      freeBytes: async (path: string) => {
        looked.push(path)
        return 1_000_000
      },
    }
    const wrong = async (dataDir: string | null) =>
      (await runChecks({ ...options, dataDir })).filter(({ status }) => status === 'failed')
    const disk = { name: 'disk', detail: expect.stringContaining('0.0 GB') }
    const zone = { name: 'time zones', detail: 'the warehouse does not know Mars/Olympus' }
    expect(await wrong(null)).toMatchObject([disk, zone])
    expect(await wrong('/of/the/embedded')).toMatchObject([disk, zone])
    expect(looked).toEqual([server!.directory, '/of/the/embedded'])
  })
})

test('the disk is checked wherever the server can be reached: also before migrations, and while some are pending', async () => {
  const diskOf = async (url: string | null) => {
    const checks = await runChecks({
      ...{ url, dataDir: '/of/the/embedded', ingestTeams: [], teams: [], encryptionKey: null, cron: null },
      webhook: { name: 'webhook port', variable: 'W', host: '127.0.0.1', port: 0 },
      admin: { name: 'admin port', variable: 'A', host: '127.0.0.1', port: 0 },
      ...{ clock: systemClock, logger: pino({ level: 'silent' }), signal: new AbortController().signal },
      freeBytes: async () => 1_000_000_000,
    })
    const of = (name: string) => checks.find((each) => each.name === name)?.status ?? null
    return { schema: of('schema'), disk: of('disk'), zones: of('time zones'), inbox: of('inbox') }
  }
  const absent = { schema: null, disk: null, zones: null, inbox: null }
  await using own = await createTestDatabase()
  await using empty = await createTestDatabase({ empty: true })
  expect(await diskOf(own.url)).toEqual({ schema: 'ok', disk: 'warning', zones: 'ok', inbox: 'ok' })
  await query(own.url, "delete from intake_ops.migrations where name like '0014%'")
  const behind = { ...absent, schema: 'failed', disk: 'warning' }
  expect(await diskOf(own.url)).toEqual(behind)
  expect(await diskOf(empty.url)).toEqual(behind)
  expect(await diskOf('postgres://nobody@127.0.0.1:9/never')).toEqual(absent)
  expect(await diskOf(null)).toEqual(absent)
})

describe('faults of webhooks:', () => {
  async function store(key: string): Promise<void> {
    await using session = await openSession({ url: warehouse.url, purpose: 'test' })
    const place = { teamId: 1, configId: 'c-1' }
    await storeSecret(session.db, place, seal('whsec_canary', Buffer.from(key, 'base64'), placeOf(place)))
  }

  test('neither a signature secret nor a key', async () => {
    const { wrong, code } = await doctor({ INTAKE_WEBHOOK_SECRETS: '', INTAKE_ENCRYPTION_KEY: '' })
    expect([code, Object.keys(wrong)]).toEqual([0, ['webhook secret', 'encryption key']])
  })

  test('secrets that were encrypted with another key, or whose key is missing', async () => {
    await store(randomBytes(32).toString('base64'))
    const other = await doctor({ INTAKE_WEBHOOK_SECRETS: '' })
    expect([other.code, Object.keys(other.wrong)]).toEqual([1, ['webhook secret', 'encryption key']])
    expect(other.wrong['encryption key']!.detail).toContain('encrypted with another key')
    const missing = await doctor({ INTAKE_ENCRYPTION_KEY: '' })
    expect(missing.wrong['encryption key']!.detail).toContain('INTAKE_ENCRYPTION_KEY is not set')
    await store(KEY)
    const right = await doctor({ INTAKE_WEBHOOK_SECRETS: '' })
    expect([right.code, right.wrong]).toEqual([0, {}])
  })
})

describe('settings:', () => {
  test('a schedule without a time, and an invalid schedule', async () => {
    for (const INTAKE_CRON of ['0 0 31 2 *', 'every night']) {
      const { code, wrong } = await doctor({ INTAKE_CRON })
      expect([code, Object.keys(wrong)]).toEqual([1, ['configuration']])
      expect(wrong.configuration!.detail).toContain('INTAKE_CRON')
    }
    const { checks } = await doctor({ INTAKE_CRON: '30 3 * * *' })
    expect(checks.find(({ name }) => name === 'schedule')!.detail).toMatch(/^30 3 \* \* \*: next at \d{4}-/)
  })

  test('without any warehouse none is created, and the report says so', async () => {
    const { DATABASE_URL: _, ...rest } = env
    const ended = await runCommand(['doctor', '--json'], rest)
    const { checks } = JSON.parse(ended.stdout) as { checks: readonly Check[] }
    expect(ended.code).toBe(0)
    expect(checks.find(({ name }) => name === 'database')).toMatchObject({
      status: 'warning',
      detail: expect.stringContaining('no warehouse yet'),
    })
  })
})
