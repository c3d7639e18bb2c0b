/** `webhooks update`, `delete`, `test`: one configuration by its id; and wrong usage. */
import { randomBytes } from 'node:crypto'
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { startEmulator } from '../../../src/emulator/server.ts'
import { json } from '../../api/support/service.ts'
import { openWarehouse, query, variablesOf } from '../../e2e/support/scene.ts'
import { configOf } from '../../e2e/support/teams.ts'
import { callerOf } from '../../emulator/caller.ts'
import { startReceiver } from '../../emulator/receiver.ts'
import { runCli, type Variables } from '../../support/cli.ts'
import type { TestDatabase } from '../../support/database.ts'
import { runCommand } from '../../support/run-command.ts'
import { askedOf, startWebhooksService, type WebhooksService } from './service.ts'

const folder = mkdtempSync(join(tmpdir(), 'intake-sync-webhooks-'))
const dataDir = join(folder, 'data')

let warehouse: TestDatabase
let service: WebhooksService
/** With a warehouse, and without one. */
let env: Variables
let bare: Variables

beforeAll(async () => {
  warehouse = await openWarehouse()
})
beforeEach(async () => {
  service = await startWebhooksService()
  bare = { ...service.env, INTAKE_DATA_DIR: dataDir, LOG_LEVEL: 'trace' }
  env = {
    ...bare,
    DATABASE_URL: warehouse.url,
    INTAKE_ENCRYPTION_KEY: randomBytes(32).toString('base64'),
  }
})
afterEach(async () => {
  await service[Symbol.asyncDispose]()
  await query(warehouse.url, 'delete from intake_ops.webhook_secrets')
})
afterAll(async () => {
  await warehouse.drop()
  rmSync(folder, { recursive: true, force: true })
})

const webhooks = (words: string, variables = env) => runCommand(['webhooks', ...words.split(' ')], variables)
/** Runs as a process of its own. */
const webhooksApart = (words: string, variables = env) => runCli(['webhooks', ...words.split(' ')], variables)
const created = () =>
  webhooks('create --url https://clinic.invalid/hooks --events created --sources form,packet')
const retired = async () =>
  Object.fromEntries(
    (
      await query<{ config_id: string; retired: boolean }>(
        warehouse.url,
        'select config_id, retired_at is not null as retired from intake_ops.webhook_secrets',
      )
    ).map((row) => [row.config_id, row.retired]),
  )

describe('update', () => {
  it('changes the given fields and nothing else, without a database', async () => {
    service.configs.push({ id: 'c-1', target_url: 'https://old.invalid/', sources: ['form'] })
    const run = await webhooksApart('update c-1 --events created,deleted --active false', bare)
    expect(run.code).toBe(0)
    expect(service.received[0]).toMatchObject({ method: 'PATCH', url: '/v2/webhooks/c-1' })
    expect(JSON.parse(String(service.received[0]!.body))).toEqual({
      event_types: ['created', 'deleted'],
      is_active: false,
    })
    expect(run.stdout).toMatch(/^updated\n.*\nurl +https:\/\/old\.invalid\/\nevents +created,deleted\n/)
    expect(existsSync(dataDir)).toBe(false)
  })

  it('--replace is a full update', async () => {
    service.configs.push({ id: 'c-1', target_url: 'https://old.invalid/', sources: ['form'] })
    const run = await webhooks('update c-1 --replace --url https://new.invalid/ --json', bare)
    expect(run.code).toBe(0)
    expect(JSON.parse(run.stdout)).toMatchObject({ target_url: 'https://new.invalid/', sources: null })
    expect(askedOf(service)).toEqual(['PUT /v2/webhooks/c-1'])
  })

  it('exits with 1 for an unknown webhook', async () => {
    const run = await webhooks('update c-9 --active true', bare)
    expect(run).toMatchObject({ code: 1, stdout: '' })
    expect(run.stderr).toContain('not found (404)')
  })
})

describe('delete', () => {
  it('deletes at the service and retires the stored secret', async () => {
    await created()
    const run = await webhooks('delete c-1')
    expect(run).toMatchObject({ code: 0, stdout: 'deleted c-1; its stored secret is retired\n' })
    expect(service.configs).toEqual([])
    expect(await retired()).toEqual({ 'c-1': true })
    await created()
    await query(warehouse.url, `update intake_ops.webhook_secrets set retired_at = null`)
    expect(JSON.parse((await webhooks('delete c-1 --json')).stdout)).toMatchObject({ secret_retired: true })
  })

  it('succeeds also without a stored secret, and without a warehouse', async () => {
    service.configs.push({ id: 'c-1' }, { id: 'c-2' })
    const { code, stdout } = await webhooks('delete c-1 --json')
    expect([code, JSON.parse(stdout)]).toEqual([0, { id: 'c-1', deleted: true, secret_retired: false }])
    expect(await webhooks('delete c-2', bare)).toMatchObject({ code: 0, stdout: 'deleted c-2\n' })
    expect(existsSync(dataDir)).toBe(false)
  })

  it('retires the secret of a webhook that the service does not know, and exits with 1', async () => {
    await created()
    service.configs.length = 0
    expect((await webhooks('delete c-1')).code).toBe(1)
    expect(await retired()).toEqual({ 'c-1': true })
  })

  it('leaves the secret in use when the service refuses', async () => {
    await created()
    service.interfere = (_, response) => {
      response.writeHead(500).end()
      return true
    }
    expect((await webhooks('delete c-1')).code).toBe(1)
    expect(await retired()).toEqual({ 'c-1': false })
  })

  it('retires only the secret of its own team', async () => {
    await created()
    service.configs.push({ id: 'c-1' })
    expect((await webhooks('delete c-1', { ...env, INTAKE_TEAM: 'other' })).code).toBe(0)
    expect(await retired()).toEqual({ 'c-1': false })
  })

  it('says that the secret stays in use, and why, when the warehouse cannot be written', async () => {
    await created()
    const { pathname } = new URL(warehouse.url)
    const write = (value: string) =>
      query(
        warehouse.url,
        `alter database "${pathname.slice(1)}" set default_transaction_read_only = ${value}`,
      )
    await write('on')
    const run = await webhooks('delete c-1 --json')
    await query(warehouse.url, 'set transaction_read_only = off')
    await write('off')
    expect(run.code).toBe(1)
    expect(run.stderr).toContain('the webhook c-1 is deleted, but its stored secret could not be retired: ')
    expect(JSON.parse(run.stdout)).toMatchObject({ error: { code: 'read_only' } })
  })

  it('sends no request when the warehouse is unreachable', async () => {
    const run = await webhooks('delete c-1', { ...env, DATABASE_URL: 'postgres://u@127.0.0.1:1/none' })
    expect(run).toMatchObject({ code: 1, stdout: '' })
    expect(service.received).toEqual([])
  })
})

describe('test', () => {
  it('makes the service send an event to the configuration', async () => {
    service.configs.push({ id: 'c-1' })
    const run = await webhooks('test c-1', bare)
    expect(run.code).toBe(0)
    expect(askedOf(service)).toEqual(['POST /v2/webhooks/events/test'])
    expect(JSON.parse(String(service.received[0]!.body))).toEqual({ id: 'c-1' })
    const { stdout } = await webhooks('test c-1 --json', bare)
    expect(JSON.parse(stdout)).toEqual({ id: 'c-1', status: 200, outcome: null })
  })

  it('exits with 1 and shows the answer when the service reports a failed delivery', async () => {
    await using emulator = await startEmulator({ port: 0, patients: 1, responses: 0 })
    await using target = await startReceiver()
    target.answer = (reply) => void reply.writeHead(503).end()
    const { body } = await callerOf(emulator).send('POST', '/v2/webhooks', { target_url: target.url })
    const own = { ...bare, ...variablesOf(emulator) }
    const run = await webhooks(`test ${body.id}`, own)
    expect(run.code).toBe(1)
    expect(run.stdout).toContain('failed (the receiver answered 503')
    const test = await webhooks(`test ${body.id} --json`, own)
    expect(JSON.parse(test.stdout)).toMatchObject({
      outcome: { status: 'failed', response_status_code: '503' },
    })
  })

  it.each([
    ['Failure', 1],
    ['FAIL', 1],
    ['delivered', 0],
  ])('ends by the outcome that the service names: %s is exit code %i', async (status, code) => {
    service.interfere = (_, response) => {
      json(response, { status, error: 'away' })
      return true
    }
    expect(await webhooks('test c-1', bare)).toMatchObject({
      ...{ code, stdout: `the test of c-1: ${status} (away)\n` },
    })
  })

  it('shows the reason of a rejection, and logs it nowhere', async () => {
    service.interfere = (_, response) => {
      json(response, { detail: 'canary: the URL answered 500' }, 400)
      return true
    }
    const run = await webhooks('test c-1', bare)
    expect(run).toMatchObject({ code: 1, stdout: 'the service says: canary: the URL answered 500\n' })
    expect(run.stderr).toContain('(400)')
    expect(run.stderr).not.toContain('canary')
  })
})

describe('of several teams', () => {
  it.each([
    'list',
    'events',
    'update c-1 --active true',
    'test c-1',
    'delete c-1',
    'create --url https://clinic.invalid/hooks',
  ])('%s asks the one that is named, and none where none is', async (words) => {
    service.configs.push({ id: 'c-1' })
    const { INTAKE_BASE_URL: baseUrl } = service.env
    const teams = ['north', 'south'].map((name) => ({
      ...{ name, baseUrl: baseUrl!, apiKey: `key of ${name}`, apiSecret: 's' },
    }))
    const { DATABASE_URL, INTAKE_ENCRYPTION_KEY } = env
    const several = { ...configOf(teams), DATABASE_URL, INTAKE_ENCRYPTION_KEY }
    const unnamed = await webhooks(words, several)
    expect([unnamed.code, unnamed.stderr, service.received]).toEqual([
      ...[2, expect.stringContaining('north, south'), []],
    ])
    const ended = await webhooks(`${words} --team south`, several)
    expect(ended.code, ended.output).toBe(0)
    expect(new Set(service.received.map(({ headers }) => headers['x-api-key']))).toEqual(
      new Set(['key of south']),
    )
    const stored = await query(
      warehouse.url,
      'select team.name from intake_ops.webhook_secrets join intake.teams team using (team_id)',
    )
    expect(stored).toEqual(words.startsWith('create') ? [{ name: 'south' }] : [])
  })
})

it.each([
  ['', 'Usage: intake-sync webhooks'],
  ['bogus', 'bogus'],
  ['create', '--url'],
  ['create --url clinic.invalid', '--url'],
  ['create --url ftp://clinic.invalid/', '--url'],
  ['create --url https://clinic.invalid/ --events created,,', '--events'],
  ['update', 'id'],
  ['update c-1', 'no field to change'],
  ['update c-1 --replace --active true', '--url'],
  ['update c-1 --active maybe', '--active'],
  ['update .. --active true', "'id'"],
  ['update %2e%2E --active true', "'id'"],
  ['test %2e', "'id'"],
  ['delete', 'id'],
  ['delete c-1 c-2', 'too many arguments'],
  ['events --limit 0', '--limit'],
  ['list --team nobody', 'has no team "nobody"'],
])('webhooks %s sends no request and names the mistake', async (words, named) => {
  const run = await runCommand(['webhooks', ...words.split(' ').filter((word) => word !== '')], bare)
  expect(run).toMatchObject({ code: 2, stdout: '' })
  expect(run.stderr).toContain(named)
  expect(service.received).toEqual([])
})
