/** What `webhooks test`, `update` and `delete` say, on each output; and that a signal before the request prevents a webhook. */
import { randomBytes } from 'node:crypto'
import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from 'vitest'
import { runProgram } from '../../../src/commands/program.ts'
import { json } from '../../api/support/service.ts'
import { openWarehouse, query } from '../../e2e/support/scene.ts'
import type { TestDatabase } from '../../support/database.ts'
import { runCommand } from '../../support/run-command.ts'
import { startWebhooksService, type WebhooksService } from './service.ts'

let warehouse: TestDatabase
let service: WebhooksService

beforeAll(async () => {
  warehouse = await openWarehouse()
})
beforeEach(async () => {
  service = await startWebhooksService()
})
afterEach(() => service[Symbol.asyncDispose]())
afterAll(() => warehouse.drop())

const webhooks = (line: string) =>
  runCommand(['webhooks', ...line.split(' ')], { ...service.env, INTAKE_DATA_DIR: '/nowhere/at/all' })
const answers = (body: unknown, status = 200) => {
  service.interfere = (_, response) => {
    json(response, body, status)
    return true
  }
}

it.each([
  [
    { status: 'failed', response_status_code: 503, error: 'away' },
    1,
    'failed (the receiver answered 503, away)',
    '503',
    'away',
  ],
  [{ status: 'FAILURE', response_status_code: '500' }, 1, 'FAILURE (the receiver answered 500)', '500', null],
  [{ status: 'delivered', error: '' }, 0, 'delivered', null, null],
  [{ status: 'not failed\u001b', error: { code: 7 } }, 0, 'not failed\\x1b ({"code":7})', null, '{"code":7}'],
])('a test answered with %j ends with %i', async (body, code, says, answered, error) => {
  answers(body, 202)
  expect(await webhooks('test c-1')).toMatchObject({ code, stdout: `the test of c-1: ${says}\n`, stderr: '' })
  const document = await webhooks('test c-1 --json')
  const outcome = { status: body.status, response_status_code: answered, error }
  expect([document.code, JSON.parse(document.stdout)]).toEqual([code, { id: 'c-1', status: 202, outcome }])
})

it.each([{}, { status: 7 }, [], null])('a test answered with %j has no outcome', async (body) => {
  answers(body)
  const text = 'the service accepted the test of c-1; to see the outcome: intake-sync webhooks events\n'
  expect(await webhooks('test c-1')).toMatchObject({ code: 0, stdout: text })
  const { code, stdout } = await webhooks('test c-1 --json')
  expect([code, JSON.parse(stdout)]).toEqual([0, { id: 'c-1', status: 200, outcome: null }])
})

it('the reason of a rejected test is a line of text, and not in the way of the document', async () => {
  answers({ detail: 'canary: no such URL' }, 422)
  expect((await webhooks('test c-1')).stdout).toBe('the service says: canary: no such URL\n')
  const { code, stdout, stderr } = await webhooks('test c-1 --json')
  expect([code, Object.keys(JSON.parse(stdout))]).toEqual([1, ['error']])
  expect(stdout + stderr).not.toContain('canary')
})

it('an update shows every field afterwards, in words and as a document', async () => {
  service.configs.push({
    id: 'c-1',
    target_url: 'https://old.invalid/',
    sources: ['form'],
    created_at: '2026-01-01T00:00:00Z',
  })
  const { stdout } = await webhooks('update c-1 --active false --events created,deleted,created')
  expect(stdout.split('\n').map((line) => line.split(/ {2,}/))).toEqual([
    ...[
      ['updated'],
      ['id', 'c-1'],
      ['url', 'https://old.invalid/'],
      ['events', 'created,deleted'],
      ['sources', 'form'],
    ],
    ...[['active', 'no'], ['']],
  ])
  const document = await webhooks(
    'update c-1 --active true --sources packet --url https://new.invalid/ --json',
  )
  expect([document.code, JSON.parse(document.stdout)]).toEqual([
    0,
    {
      ...{
        id: 'c-1',
        target_url: 'https://new.invalid/',
        event_types: ['created', 'deleted'],
        sources: ['packet'],
      },
      ...{ is_active: true, created_at: '2026-01-01T00:00:00Z' },
    },
  ])
  await webhooks('update c-1 --replace --url https://last.invalid/ --active false')
  expect(service.configs).toEqual([{ id: 'c-1', target_url: 'https://last.invalid/', is_active: false }])
  const gone = await webhooks('update c-9 --active true --json')
  expect([gone.code, JSON.parse(gone.stdout).error.code]).toEqual([1, 'not_found'])
})

it.each(['update', 'delete', 'test'])('%s accepts no id that leads elsewhere', async (name) => {
  const more = name === 'update' ? ' --active true' : ''
  for (const id of ['.', '..', '%2e', '%2E%2e', '.%2E'])
    expect([id, (await webhooks(`${name} ${id}${more}`)).code]).toEqual([id, 2])
  expect((await runCommand(['webhooks', name, ' ', ...more.split(' ').slice(1)], service.env)).code).toBe(2)
  expect(service.received).toEqual([])
})

it.each([
  ['SIGINT', 130],
  ['SIGTERM', 143],
])('after %s nothing is created, asked or stored', async (reason, code) => {
  const said: string[] = []
  const write = (text: string | Uint8Array) => said.push(String(text))
  const ended = await runProgram(['webhooks', 'create', '--url', 'https://clinic.invalid/', '--json'], {
    env: {
      ...service.env,
      DATABASE_URL: warehouse.url,
      INTAKE_ENCRYPTION_KEY: randomBytes(32).toString('base64'),
    },
    ...{ stdout: { write }, stderr: { write }, signal: AbortSignal.abort(reason), version: '' },
  })
  expect([ended, said, service.received]).toEqual([code, [], []])
  expect(await query(warehouse.url, 'select from intake_ops.webhook_secrets')).toEqual([])
})
