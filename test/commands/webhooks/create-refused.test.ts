/**
 * `webhooks create` that fails after the service was asked, without a warehouse: the whole error, what is left at the
 * service, and that no secret is shown.
 */
import { getEventListeners } from 'node:events'
import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { systemClock } from '../../../src/core/clock.ts'
import { storeSecret, tryStore } from '../../../src/warehouse/webhook-secrets.ts'
import { json } from '../../api/support/service.ts'
import { runCommand } from '../../support/run-command.ts'
import { askedOf, startWebhooksService, type WebhooksService } from './service.ts'

vi.mock('../../../src/warehouse/connect.ts', async (original) => ({
  ...(await original()),
  openSession: async () => ({ db: 'db', [Symbol.asyncDispose]: async () => {} }),
}))
vi.mock('../../../src/analytics/migrate.ts', async (original) => ({
  ...(await original()),
  requireMigrated: async () => {},
}))
vi.mock('../../../src/load/teams.ts', async (original) => ({
  ...(await original()),
  teamIdOf: async () => 7,
}))
vi.mock('../../../src/warehouse/webhook-secrets.ts', async (original) => ({
  ...(await original()),
  ...{ storeSecret: vi.fn(), tryStore: vi.fn() },
}))

let service: WebhooksService
/** Milliseconds. */
const pauses: number[] = []

beforeEach(async () => {
  vi.resetAllMocks()
  pauses.length = 0
  vi.spyOn(systemClock, 'sleep').mockImplementation(async (milliseconds) => void pauses.push(milliseconds))
  service = await startWebhooksService()
})
afterEach(() => service[Symbol.asyncDispose]())

async function create(words = '--json', stop = new AbortController()) {
  const { code, stdout, stderr } = await runCommand(
    ['webhooks', 'create', '--url', 'https://clinic.invalid/', ...words.split(' ')],
    {
      ...{ ...service.env, DATABASE_URL: 'postgres://u@127.0.0.1:1/d', LOG_LEVEL: 'silent' },
      INTAKE_ENCRYPTION_KEY: Buffer.alloc(32, 1).toString('base64'),
    },
    { signal: stop.signal },
  )
  return { code, stdout, stderr }
}

/** The error of the document; `stderr` has the same words, and neither a secret. */
async function refusal() {
  const { code, stdout, stderr } = await create()
  const { code: name, message, hint } = JSON.parse(stdout).error
  expect(stderr).toBe(
    `error: ${message}\n${hint === null ? '' : `  hint: ${hint}\n`}code: ${name}, see docs/errors.md#${name}\n`,
  )
  expect(stdout + stderr).not.toContain('canary')
  return { exit: code, code: name, message, hint, asked: askedOf(service), left: service.configs.length }
}

/** Postgres refuses with this SQLSTATE. */
const pgError = (code: string) => Object.assign(new Error('refused'), { code })
const BOTH = ['POST /v2/webhooks', 'DELETE /v2/webhooks/c-1']

it('a warehouse in which nothing can be stored is found before the service is asked', async () => {
  vi.mocked(tryStore).mockRejectedValue(pgError('25006'))
  expect(await refusal()).toMatchObject({ exit: 1, code: 'read_only', asked: [], left: 0 })
})

it('a secret that cannot be stored: its webhook is deleted, and the reason is that of the warehouse', async () => {
  vi.mocked(storeSecret).mockRejectedValue(pgError('53100'))
  const { hint, ...rest } = await refusal()
  expect(rest).toEqual({
    ...{ exit: 1, code: 'disk_full', asked: BOTH, left: 0 },
    message: expect.stringMatching(
      /^the webhook was created and deleted again: its secret could not be stored: \S/,
    ),
  })
  expect(hint).toMatch(/\S/)
  expect([vi.mocked(storeSecret).mock.calls.length, pauses]).toEqual([1, []])
})

it('a webhook that cannot be deleted either is named, with the command that deletes it', async () => {
  vi.mocked(storeSecret).mockRejectedValue(pgError('53100'))
  service.interfere = ({ method }, response) => {
    if (method === 'DELETE') json(response, {}, 403)
    return method === 'DELETE'
  }
  expect(await refusal()).toEqual({
    ...{ exit: 1, code: 'disk_full', asked: BOTH, left: 1 },
    message: expect.stringMatching(
      /^the webhook c-1 was created and could not be deleted again: its secret could not be stored: \S/,
    ),
    hint: 'delete it, since its secret is lost: intake-sync webhooks delete c-1',
  })
})

it('a store that fails for a moment is tried three times, a second apart', async () => {
  vi.mocked(storeSecret).mockRejectedValueOnce(pgError('40001')).mockRejectedValueOnce(pgError('40001'))
  const { code, stdout } = await create()
  expect([code, pauses, askedOf(service)]).toEqual([0, [1_000, 1_000], ['POST /v2/webhooks']])
  expect(JSON.parse(stdout)).toMatchObject({ id: 'c-1', secret_stored: true })
  vi.mocked(storeSecret).mockReset().mockRejectedValue(pgError('40001'))
  pauses.length = 0
  service.received.length = 0
  expect(await refusal()).toMatchObject({
    code: 'serialization',
    asked: [BOTH[0], 'DELETE /v2/webhooks/c-2'],
  })
  expect([vi.mocked(storeSecret).mock.calls.length, pauses]).toEqual([3, [1_000, 1_000]])
})

it.each([
  [204, 'the webhook was created and deleted again: the answer has no signature secret', null],
  [404, 'the webhook was created and deleted again: the answer has no signature secret', null],
  [
    ...[
      403,
      'the webhook c-1 was created and could not be deleted again: the answer has no signature secret',
    ],
    'delete it, since its secret is lost: intake-sync webhooks delete c-1',
  ],
] as const)('an answer without a secret, and %i for the deletion', async (status, message, hint) => {
  service.interfere = ({ method }, response) => {
    if (method === 'POST') json(response, { id: 'c-1' }, 201)
    else response.writeHead(status).end()
    return true
  }
  expect(await refusal()).toEqual({ exit: 1, code: 'secret_missing', message, hint, asked: BOTH, left: 0 })
  expect(storeSecret).not.toHaveBeenCalled()
})

it.each([
  [{ signature_secret: 'canary' }, 'secret_missing'],
  [{}, 'secret_missing'],
  [{ id: 1e300, signature_secret: 'canary' }, 'secret_missing'],
])('an answer %j whose webhook cannot be named', async (body, code) => {
  service.interfere = (_, response) => {
    json(response, body, 201)
    return true
  }
  expect(await refusal()).toEqual({
    ...{ exit: 1, code, asked: ['POST /v2/webhooks'], left: 0 },
    message: 'the webhook was created, but the answer cannot be read: its secret is lost',
    hint: 'find it with `intake-sync webhooks list`, delete it, and ask the service’s operators',
  })
})

it('a request whose outcome is not known is sent once, and may have left a webhook', async () => {
  service.interfere = (_, response) => {
    response.destroy()
    return true
  }
  expect(await refusal()).toEqual({
    ...{ exit: 1, code: 'connection_lost', asked: ['POST /v2/webhooks'], left: 0 },
    message: expect.stringMatching(/; whether it took effect is not known$/),
    hint: 'check `intake-sync webhooks list`, and delete the configuration if it exists: its secret is lost',
  })
})

it('a signal after the request does not interrupt the work, and is answered once', async () => {
  const stop = new AbortController()
  service.interfere = () => {
    stop.abort('SIGTERM')
    return false
  }
  const ended = await create('--events created', stop)
  expect(ended).toMatchObject({
    ...{ code: 0, stderr: 'finishing started work; interrupt again to stop at once\n' },
    stdout: expect.stringMatching(/^created\nid +c-1\n/),
  })
  expect(storeSecret).toHaveBeenCalledOnce()
})

it('a command that has ended no longer listens for the signal', async () => {
  const stop = new AbortController()
  const { code } = await create('--json', stop)
  expect([code, getEventListeners(stop.signal, 'abort')]).toEqual([0, []])
})
