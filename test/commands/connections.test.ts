/** A command that has ended has no connection to the service left, whatever the service answered. */
import { writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import pino from 'pino'
import { afterAll, afterEach, beforeAll, expect, it, vi } from 'vitest'
import { openLive } from '../../src/commands/demo/live.ts'
import { firstFailure, probed } from '../../src/commands/init/probe.ts'
import { createWebhook, ensureWebhook } from '../../src/commands/webhooks/create.ts'
import { readConfig } from '../../src/config/config.ts'
import { makeFolder, removeFolder } from '../support/folders.ts'
import { runCommand } from '../support/run-command.ts'
import { contextOf } from './output-context.ts'

vi.mock('../../src/analytics/migrate.ts', async (original) => ({
  ...(await original()),
  requireMigrated: async () => {},
}))
const close = vi.fn(async () => {})
vi.mock('../../src/operate/serve/serve.ts', async (original) => ({
  ...(await original()),
  openServe: async () => ({ ingest: 'http://h', close }),
}))
vi.mock('../../src/commands/webhooks/store.ts', async (original) => ({
  ...(await original()),
  withStore: async () => new Map([['w', 'stored']]),
}))

const folder = makeFolder('connections-')
const file = join(folder, 'people.csv')
const sockets = new Set<unknown>()
let opened = 0
let status = 200
/** A method that is always answered with 403. */
let refused = ''
let env: Record<string, string>

const server = createServer((request, response) => {
  request.resume().on('end', () => {
    const one = { id: 'w', status: 'done', target_url: 'http://h/x', signature_secret: 's' }
    const body = request.method === 'GET' ? { count: 1, next: null, results: [one] } : one
    response
      .writeHead(request.method === refused ? 403 : status, { 'content-type': 'application/json' })
      .end(JSON.stringify(body))
  })
})
// Neither side ends an idle connection on its own.
server.keepAliveTimeout = 3_600_000
server.on('connection', (socket) => {
  opened += 1
  sockets.add(socket)
  socket.on('close', () => sockets.delete(socket)).on('error', () => {})
})

beforeAll(async () => {
  writeFileSync(file, 'first_name,last_name\nA,B\n')
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  const access = { INTAKE_BASE_URL: `http://127.0.0.1:${port}`, INTAKE_API_KEY: 'k', INTAKE_API_SECRET: 's' }
  env = { ...access, INTAKE_DATA_DIR: join(folder, 'none'), LOG_LEVEL: 'silent' }
})
afterEach(async () => {
  try {
    expect(opened).toBeGreaterThan(0)
    await expect.poll(() => sockets.size, { timeout: 30_000 }).toBe(0)
  } finally {
    server.closeAllConnections()
    opened = 0
    refused = ''
  }
})
afterAll(async () => {
  server.closeAllConnections()
  await new Promise((resolve) => server.close(resolve))
  removeFolder(folder)
})

const COMMANDS = [
  ['api', 'GET', '/v2/patients'],
  ['api', 'POST', '/v2/patients', '-d', '{}'],
  ['patients', 'upload', file],
  ['webhooks', 'list'],
  ['webhooks', 'events'],
  ['webhooks', 'update', 'w', '--active', 'true'],
  ['webhooks', 'update', 'w', '--url', 'http://h/x', '--replace'],
  ['webhooks', 'delete', 'w'],
  ['webhooks', 'test', 'w'],
]

it.each(COMMANDS.flatMap((words) => [200, 403].map((answer) => [words.join(' '), answer, words] as const)))(
  '%s, answered with %i',
  async (_, answer, words) => {
    status = answer
    const { code, stderr } = await runCommand(words, env)
    expect([code, answer === 200 ? stderr : ''], stderr).toEqual([answer === 200 ? 0 : 1, ''])
  },
)

const context = () =>
  contextOf(undefined, { ...env, DATABASE_URL: 'postgres://u@127.0.0.1:1/d', INTAKE_ENCRYPTION_KEY: KEY })
const KEY = Buffer.alloc(32, 1).toString('base64')

it.each([200, 403])('the creation of a webhook, answered with %i', async (answer) => {
  status = answer
  const created = createWebhook(context(), { url: 'http://h/x' })
  if (answer === 200) await created
  else await expect(created).rejects.toMatchObject({ code: 'bad_credentials' })
})

it.each([200, 403])("init's search for its webhook, answered with %i", async (answer) => {
  status = answer
  const ensured = ensureWebhook(context(), readConfig(context().env), 'http://h/x')
  if (answer === 200) expect(await ensured).toEqual({ id: 'w', created: false })
  else await expect(ensured).rejects.toMatchObject({ code: 'bad_credentials' })
})

it('the live part of the demo, which closes its receiver only where its webhook cannot be changed', async () => {
  const teams = [{ api_key: 'k', api_secret: 's' }]
  const service = { environments: [{ base_url: env.INTAKE_BASE_URL, teams }] } as never
  const open = () =>
    openLive({ url: 'postgres://u@127.0.0.1:1/d', service, logger: pino({ level: 'silent' }) })
  status = 200
  expect(await open()).toMatchObject({ ingest: 'http://h' })
  expect(close).not.toHaveBeenCalled()
  refused = 'PATCH'
  await expect(open()).rejects.toMatchObject({ code: 'bad_credentials' })
  expect(close).toHaveBeenCalledOnce()
})

it('the attempts of init, all refused', async () => {
  status = 403
  expect(await firstFailure(context(), readConfig(context().env))).toMatchObject({ status: 'failed' })
  const [probe] = await probed(context(), readConfig(context().env))
  expect(new Set(probe!.streams.map(({ count }) => count))).toEqual(new Set([null]))
})
