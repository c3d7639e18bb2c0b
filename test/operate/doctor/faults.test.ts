/**
 * Real faults, one at a time: `doctor` names this one and no other, gives a hint, and exits with 1 if a check failed.
 */
import { randomBytes } from 'node:crypto'
import { createServer } from 'node:net'
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'
import { type Emulator, startEmulator } from '../../../src/emulator/server.ts'
import type { Check } from '../../../src/operate/doctor/check.ts'
import { openSession } from '../../../src/warehouse/connect.ts'
import { placeOf, seal, storeSecret } from '../../../src/warehouse/webhook-secrets.ts'
import { withoutPauses } from '../../e2e/support/impatient.ts'
import { query, variablesOf } from '../../e2e/support/scene.ts'
import type { Variables } from '../../support/cli.ts'
import { createTestDatabase, type TestDatabase } from '../../support/database.ts'
import { runCommand } from '../../support/run-command.ts'

withoutPauses()

const SMALL = { port: 0, patients: 2, responses: 2, forms: 2, packets: 1, documents: 1 }
const KEY = randomBytes(32).toString('base64')
const SECRETS = [KEY, 'whsec_of-the-test', 'not-the-secret', 'not-the-password']

let emulator: Emulator
let warehouse: TestDatabase
let env: Variables

beforeAll(async () => {
  emulator = await startEmulator(SMALL)
  warehouse = await createTestDatabase()
  env = {
    ...{ ...variablesOf(emulator), DATABASE_URL: warehouse.url, INTAKE_ENCRYPTION_KEY: KEY },
    ...{ INTAKE_WEBHOOK_SECRETS: 'whsec_of-the-test', INTAKE_WEBHOOK_PORT: '0', INTAKE_ADMIN_PORT: '0' },
  }
  await query(warehouse.url, "insert into intake.teams (name, environment) values ('default', 'production')")
})

afterAll(async () => {
  await emulator.close()
  await warehouse.drop()
})

/** Applies the fault, and undoes it; the warehouse belongs to the test. */
interface Planted {
  readonly env?: Variables
  readonly undo?: () => Promise<unknown>
}

interface Fault {
  readonly fault: string
  readonly plant: (url: string) => Promise<Planted>
  /** The checks that are not ok, with the detail of the first. */
  readonly wrong: readonly string[]
  readonly says: RegExp
  readonly hint: RegExp
  /** A warning is no failure. */
  readonly code?: 0
}

/** No program listens there; a port that the system assigned is given to the next who asks for one. */
const NOBODYS_PORT = '1'

const onServer = (text: string) => query(inject('testServer').url, text)
const nameOf = (url: string) => new URL(url).pathname.slice(1)

function elsewhere(url: string, change: (url: URL) => void): Planted {
  const other = new URL(url)
  change(other)
  return { env: { DATABASE_URL: other.href } }
}

async function service(faults: string): Promise<Planted> {
  const other = await startEmulator({ ...SMALL, faults })
  return { env: variablesOf(other), undo: () => other.close() }
}

async function listening(): Promise<{ port: number; close: () => Promise<void> }> {
  const server = createServer()
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as { port: number }
  return { port, close: () => new Promise<void>((resolve) => server.close(() => resolve())) }
}

async function sealed(url: string, key: string): Promise<void> {
  await using session = await openSession({ url, purpose: 'test' })
  const place = { teamId: 1, configId: 'c-1' }
  await storeSecret(session.db, place, seal('whsec_sealed', Buffer.from(key, 'base64'), placeOf(place)))
}

const LOGIN = () => `${inject('testServer').prefix}login`

const FAULTS: readonly Fault[] = [
  {
    fault: 'a wrong secret',
    plant: async () => ({ env: { INTAKE_API_SECRET: 'not-the-secret' } }),
    ...{
      wrong: ['credentials'],
      says: /refuses the pair of key and secret \(403\)/,
      hint: /copy both again/,
    },
  },
  {
    fault: 'a sandbox key on production',
    plant: async () => {
      const { api_key, api_secret } = emulator.environments[1]!.teams[0]!
      return { env: { INTAKE_API_KEY: api_key, INTAKE_API_SECRET: api_secret } }
    },
    ...{
      wrong: ['credentials'],
      says: /production environment/,
      hint: /a sandbox key is not valid in production/,
    },
  },
  {
    fault: 'a warehouse that holds the other environment',
    plant: async (url) => {
      await query(url, "update intake.teams set environment = 'sandbox'")
      return {}
    },
    ...{ wrong: ['environment'], says: /loaded from sandbox, and this is production/ },
    hint: /^use another INTAKE_TEAM for production, or the base URL and credentials of sandbox$/,
  },
  {
    fault: 'a service that is not there',
    plant: async () => ({ env: { INTAKE_BASE_URL: `http://127.0.0.1:${NOBODYS_PORT}` } }),
    ...{ wrong: ['credentials'], says: /127\.0\.0\.1:1\b/, hint: /./ },
  },
  {
    fault: 'a proxy that answers in the service’s place',
    plant: () => service('html-502=1'),
    ...{ wrong: ['credentials'], says: /502/, hint: /./ },
  },
  {
    fault: 'clocks that differ by seven minutes',
    // At least by so many: the time of the request, and a part of a second, may be among the difference.
    plant: () => service('clock-skew=420'),
    ...{ wrong: ['clock'], says: /differ by 4(?:0\d|1\d|20) s: the service's is ahead/, hint: /NTP/ },
  },
  {
    fault: 'a database server that is down',
    plant: async (url) =>
      elsewhere(url, (other) => {
        other.port = NOBODYS_PORT
      }),
    ...{ wrong: ['database'], says: /cannot reach the warehouse/, hint: /DATABASE_URL/ },
  },
  {
    fault: 'a database that does not exist',
    plant: async (url) =>
      elsewhere(url, (other) => {
        other.pathname = '/no_such_database'
      }),
    ...{ wrong: ['database'], says: /^the warehouse database does not exist$/, hint: /./ },
  },
  {
    fault: 'a database that is behind',
    plant: async (url) => {
      await query(
        url,
        'delete from intake_ops.migrations where name = (select max(name) from intake_ops.migrations)',
      )
      return {}
    },
    ...{ wrong: ['schema'], says: /behind by 1 migration/, hint: /intake-sync migrate/ },
  },
  {
    fault: 'a database that a newer version has migrated',
    plant: async (url) => {
      await query(
        url,
        "insert into intake_ops.migrations (name, timestamp) values ('9999_of_the_future', '2099-01-01')",
      )
      return {}
    },
    ...{ wrong: ['schema'], says: /newer/, hint: /./ },
  },
  {
    fault: 'a database that is read-only',
    plant: async (url) => {
      await onServer(`alter database ${nameOf(url)} set default_transaction_read_only = on`)
      return {}
    },
    ...{ wrong: ['database writes'], says: /^the warehouse is read-only$/, hint: /./ },
  },
  {
    fault: 'a role that lost its grants',
    plant: async (url) => {
      await query(url, 'revoke usage on schema intake_raw from intake_loader')
      return {}
    },
    ...{ wrong: ['roles'], says: /without their grants: intake_loader/, hint: /intake-sync migrate as/ },
  },
  {
    fault: 'a login that may not write',
    plant: (url) =>
      loginWith(
        url,
        'grant usage on schema intake, intake_raw, intake_ops',
        'grant select on all tables in schema intake, intake_raw, intake_ops',
      ),
    ...{
      wrong: ['database privileges'],
      says: /may not write \d+ of the tables/,
      hint: /grant intake_loader/,
    },
  },
  {
    fault: 'webhook secrets that were encrypted with another key',
    plant: async (url) => {
      await sealed(url, randomBytes(32).toString('base64'))
      return {}
    },
    ...{ wrong: ['encryption key'], says: /encrypted with another key/, hint: /INTAKE_ENCRYPTION_KEY/ },
  },
  {
    fault: 'no webhook secret at all',
    plant: async () => ({ env: { INTAKE_WEBHOOK_SECRETS: '' } }),
    ...{
      wrong: ['webhook secret'],
      says: /the response to every webhook is 503/,
      hint: /webhooks create/,
      code: 0,
    },
  },
  {
    fault: 'events that nobody drains',
    plant: async (url) => {
      await query(
        url,
        `insert into intake_raw.inbox (team_id, event_id, body_hash, received_on, received_at, body)
         values (1, 'e', '\\x00', current_date, now() - interval '2 hours', '{}')`,
      )
      return {}
    },
    ...{ wrong: ['inbox'], says: /the oldest for 120 minutes/, hint: /intake-sync serve/ },
  },
  {
    fault: 'a port that another program holds',
    plant: async () => {
      const { port, close } = await listening()
      return { env: { INTAKE_WEBHOOK_PORT: String(port) }, undo: close }
    },
    ...{ wrong: ['webhook port'], says: /another program uses/, hint: /INTAKE_WEBHOOK_PORT/ },
  },
  {
    fault: 'a schedule that never comes',
    plant: async () => ({ env: { INTAKE_CRON: '0 0 31 2 *' } }),
    ...{ wrong: ['configuration'], says: /INTAKE_CRON/, hint: /./ },
  },
]

/** A login that the test creates, and its connection string. */
async function loginWith(url: string, ...grants: readonly string[]): Promise<Planted> {
  await onServer(`create role ${LOGIN()} login password 'x'`)
  for (const grant of grants) await query(url, `${grant} to ${LOGIN()}`)
  const undo = async () => {
    await query(url, `drop owned by ${LOGIN()}`)
    await onServer(`drop role ${LOGIN()}`)
  }
  const change = (other: URL) => {
    other.username = LOGIN()
    other.password = 'x'
  }
  return { ...elsewhere(url, change), undo }
}

describe('doctor names', () => {
  it.each(FAULTS)('$fault', async ({ plant, wrong, says, hint, code = 1 }) => {
    await using own = await createTestDatabase()
    await query(own.url, "insert into intake.teams (name, environment) values ('default', 'production')")
    const planted = await plant(own.url)
    try {
      const variables = { ...env, DATABASE_URL: own.url, ...planted.env }
      const ended = await runCommand(['doctor', '--json'], variables)
      const { checks } = JSON.parse(ended.stdout) as { checks: readonly Check[] }
      // This machine's Node may be past its end of life, and its disk nearly full.
      const found = checks.filter(({ status, name }) => status !== 'ok' && !['node', 'disk'].includes(name))
      expect([ended.code, found.map(({ name }) => name)]).toEqual([code, wrong])
      expect(found[0]!.detail).toMatch(says)
      expect(found[0]!.hint).toMatch(hint)
      const shown = await runCommand(['doctor'], variables, { columns: 80 })
      expect(shown.stdout).toMatch(new RegExp(`${code === 1 ? 'failed' : 'warning'}.*  ${wrong[0]!}`))
      for (const secret of SECRETS) expect(ended.output + shown.output).not.toContain(secret)
    } finally {
      await planted.undo?.()
    }
  })

  it('nothing, for a login with only intake_loader, on a day whose partition the owner created', async () => {
    await using own = await createTestDatabase()
    await query(own.url, "insert into intake.teams (name, environment) values ('default', 'production')")
    await query(own.url, 'select intake_raw.add_inbox_day(current_date, 0)')
    const { env: changes, undo } = await loginWith(own.url, 'grant intake_loader')
    try {
      const { code, stdout } = await runCommand(['doctor', '--json'], { ...env, ...changes })
      const { checks } = JSON.parse(stdout) as { checks: readonly Check[] }
      expect([code, checks.filter(({ status }) => status === 'failed')]).toEqual([0, []])
      await query(own.url, 'revoke usage on schema intake_raw from intake_loader')
      const without = await runCommand(['doctor', '--json'], { ...env, ...changes })
      const denied = (JSON.parse(without.stdout) as { checks: readonly Check[] }).checks
      expect(denied.find(({ name }) => name === 'database privileges')).toMatchObject({
        ...{ status: 'failed', detail: 'this login may not write 1 of the tables or schemas of intake-sync' },
      })
    } finally {
      await undo?.()
    }
  })
})
