/** What `init` asks of a warehouse before it prepares it, in which order, and what it notes. */
import { beforeEach, expect, it, vi } from 'vitest'
import { prepareWarehouse } from '../../../src/commands/init/probe.ts'
import type { Config } from '../../../src/config/config.ts'

const world = vi.hoisted(() => ({
  happened: [] as unknown[],
  checks: [] as object[],
  privilege: { may: true, database: 'forms' },
  connections: [] as object[],
  report: { notes: [] as string[], rolesNote: null as string | null },
}))
vi.mock('../../../src/operate/doctor/warehouse.ts', () => ({
  checkWarehouse: async (url: string) => {
    world.happened.push(`checks of ${url}`)
    const query = async (text: string) => ({
      rows: text.includes('has_database_privilege') ? [world.privilege] : world.connections,
    })
    const close = async () => void world.happened.push('closed')
    return { checks: world.checks, session: { client: { query }, close } }
  },
}))
vi.mock('../../../src/analytics/migrate.ts', () => ({
  migrate: async (url: string, { analyticsKey }: Config) => {
    world.happened.push(`migration of ${url}`, analyticsKey)
    return world.report
  },
}))

const context = {
  ...{ env: {}, stdout: { write: () => true }, stderr: { write: () => true } },
  ...{ signal: new AbortController().signal, version: '1' },
}
const prepare = () => prepareWarehouse(context, { databaseUrl: 'the URL', analyticsKey: 'the key' } as Config)
const check = (name: string, status: string) => ({
  name,
  status,
  detail: `${name} is wrong`,
  hint: `see ${name}`,
})

beforeEach(() => {
  Object.assign(world, { happened: [], checks: [check('database', 'ok')], connections: [] })
  Object.assign(world, {
    ...{ privilege: { may: true, database: 'forms' }, report: { notes: [], rolesNote: null } },
  })
})

it('it is closed after the checks, then migrated with the key; every note is returned, that on the connection first', async () => {
  // Its schema is made now.
  world.checks.push(check('disk', 'warning'), check('schema', 'failed'))
  expect(await prepare()).toEqual([])
  const all = ['checks of the URL', 'closed', 'migration of the URL', 'the key']
  expect(world.happened).toEqual(all)
  world.report = { notes: ['one', 'two'], rolesNote: 'no roles' }
  world.connections = [{ ssl: false, address: '10.0.0.5' }]
  const open = 'the connection to the warehouse has no TLS: add sslmode=verify-full to DATABASE_URL'
  expect(await prepare()).toEqual([open, 'one', 'two', 'no roles'])
  for (const connection of [
    { ssl: true, address: '10.0.0.5' },
    { ssl: false, address: '127.0.0.1' },
  ]) {
    world.connections = [connection]
    expect(await prepare()).toEqual(['one', 'two', 'no roles'])
  }
})

it('the first check that fails ends it, and so does a login that may not create the schemas: nothing is migrated', async () => {
  world.checks.push(check('schema', 'failed'), check('version', 'failed'), check('disk', 'failed'))
  world.privilege.may = false
  await expect(prepare()).rejects.toMatchObject({
    ...{ code: 'init_refused', verdict: 'stop', hint: 'see version' },
    message: 'version: version is wrong; nothing was written',
  })
  world.checks = []
  await expect(prepare()).rejects.toMatchObject({
    ...{ code: 'init_refused', verdict: 'stop' },
    message:
      'database privileges: this login may not create the schemas of the warehouse; nothing was written',
    hint: 'as the owner of the database: grant create on database "forms" to the login; or connect as the owner',
  })
  expect(world.happened).toEqual(['checks of the URL', 'closed', 'checks of the URL', 'closed'])
})
