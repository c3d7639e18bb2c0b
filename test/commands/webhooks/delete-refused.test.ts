/** `webhooks delete` without a warehouse: when the stored secret is retired, and the whole error where either fails. */
import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { retireSecret } from '../../../src/warehouse/webhook-secrets.ts'
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
vi.mock('../../../src/warehouse/webhook-secrets.ts', async (original) => ({
  ...(await original()),
  retireSecret: vi.fn(),
}))

let service: WebhooksService
beforeEach(async () => {
  vi.resetAllMocks()
  service = await startWebhooksService()
  service.configs.push({ id: 'c-1' })
})
afterEach(() => service[Symbol.asyncDispose]())

async function remove(id: string, ...words: string[]) {
  const { code, stdout, stderr } = await runCommand(['webhooks', 'delete', id, ...words], {
    ...{ ...service.env, DATABASE_URL: 'postgres://u@127.0.0.1:1/d', INTAKE_TEAM: 'north' },
    LOG_LEVEL: 'silent',
  })
  return { code, stdout, stderr }
}
const ASKED = ['DELETE /v2/webhooks/c-1']

it.each([
  [true, 'deleted c-1; its stored secret is retired\n'],
  [false, 'deleted c-1\n'],
])('where a secret was stored: %s', async (retired, stdout) => {
  vi.mocked(retireSecret).mockImplementation(async () => {
    // Only once the service has confirmed.
    expect(service.configs).toEqual([])
    return retired
  })
  expect(await remove('c-1')).toEqual({ code: 0, stdout, stderr: '' })
  expect(vi.mocked(retireSecret).mock.calls).toEqual([['db', 'north', 'c-1']])
  service.configs.push({ id: 'c-1' })
  const document = await remove('c-1', '--json')
  expect([document.code, JSON.parse(document.stdout)]).toEqual([
    ...[0, { id: 'c-1', deleted: true, secret_retired: retired }],
  ])
})

it.each([
  [403, 0, 'bad_credentials'],
  [404, 1, 'not_found'],
  [410, 1, 'not_found'],
])('a deletion that is answered %i retires %i secrets, and fails', async (status, retired, code) => {
  service.interfere = (_, response) => {
    json(response, {}, status)
    return true
  }
  const document = await remove('c-1', '--json')
  expect([document.code, JSON.parse(document.stdout).error.code]).toEqual([1, code])
  expect([vi.mocked(retireSecret).mock.calls.length, askedOf(service)]).toEqual([retired, ASKED])
})

it('a webhook that is deleted, and whose secret stays, is named with what is left to do', async () => {
  const refused = Object.assign(new Error('x'), { code: '25006' })
  vi.mocked(retireSecret).mockRejectedValue(refused)
  const document = await remove('c-1', '--json')
  expect([document.code, JSON.parse(document.stdout).error]).toMatchObject([
    1,
    {
      code: 'read_only',
      message: expect.stringMatching(
        /^the webhook c-1 is deleted, but its stored secret could not be retired: \S/,
      ),
      hint: 'delete it again once the warehouse is writable; the service will answer that it does not exist',
    },
  ])
  expect(askedOf(service)).toEqual(ASKED)
  // The second time, the failure of the warehouse is what is left to say.
  service.received.length = 0
  const again = await remove('c-1', '--json')
  expect([again.code, JSON.parse(again.stdout).error.code, askedOf(service)]).toEqual([1, 'read_only', ASKED])
})
