/** `webhooks create`: the secret is stored before success is reported, or nothing is left. */
import { randomBytes } from 'node:crypto'
import { afterAll, afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { systemClock } from '../../../src/core/clock.ts'
import { open } from '../../../src/warehouse/webhook-secrets.ts'
import { json } from '../../api/support/service.ts'
import { openWarehouse, query } from '../../e2e/support/scene.ts'
import { runCli, startCli, type Variables } from '../../support/cli.ts'
import type { TestDatabase } from '../../support/database.ts'
import { runCommand } from '../../support/run-command.ts'
import { askedOf, startWebhooksService, type WebhooksService } from './service.ts'

const KEY = randomBytes(32)
const URL_GIVEN = 'https://clinic.invalid/hooks'
const CANARY = /whsec_canary/

/** Milliseconds that commands of this process paused for. */
const pauses: number[] = []
vi.spyOn(systemClock, 'sleep').mockImplementation(async (milliseconds) => void pauses.push(milliseconds))
afterAll(() => vi.restoreAllMocks())

let service: WebhooksService
let warehouse: TestDatabase
let env: Variables

beforeEach(async () => {
  service = await startWebhooksService()
  warehouse = await openWarehouse()
  env = {
    ...service.env,
    DATABASE_URL: warehouse.url,
    INTAKE_ENCRYPTION_KEY: KEY.toString('base64'),
    LOG_LEVEL: 'trace',
  }
})
afterEach(async () => {
  await service[Symbol.asyncDispose]()
  await warehouse.drop()
})

const create = (...words: string[]) => runCommand(['webhooks', 'create', '--url', URL_GIVEN, ...words], env)
/** Runs as a process of its own. */
const createApart = () => runCli(['webhooks', 'create', '--url', URL_GIVEN], env)

interface StoredSecret {
  readonly team_id: number
  readonly config_id: string
  readonly secret: Buffer
  readonly retired_at: Date | null
}
const storedSecrets = () =>
  query<StoredSecret>(
    warehouse.url,
    'select * from intake_ops.webhook_secrets order by created_at, config_id',
  )

describe('a new webhook', () => {
  it('has its secret stored, encrypted for its configuration, and shown once', async () => {
    const run = await create('--events', 'created, updated', '--sources', 'response')
    expect(run.code).toBe(0)
    const [secret] = service.secrets
    expect(run.stdout.split(secret!)).toHaveLength(2)
    expect(run.stdout).toMatch(/^created\nid +c-1\nurl +https:\/\/clinic\.invalid\/hooks\n/)
    expect(JSON.parse(String(service.received.at(-1)!.body))).toEqual({
      target_url: URL_GIVEN,
      event_types: ['created', 'updated'],
      sources: ['response'],
    })
    const [row, ...others] = await storedSecrets()
    expect(others).toEqual([])
    expect(row).toMatchObject({ config_id: 'c-1', retired_at: null })
    expect(open(row!.secret, KEY, ['webhook_secret', row!.team_id, 'c-1'])).toBe(secret)
    expect(() => open(row!.secret, KEY, ['webhook_secret', row!.team_id, 'c-2'])).toThrow('cannot be opened')
  })

  it('leaves its secret in no log and nowhere in the warehouse as plain text', async () => {
    const run = await createApart()
    expect(run.stderr).toContain('"status":201')
    expect(run.stderr).not.toMatch(CANARY)
    const dump = await query<{ line: string }>(
      warehouse.url,
      `select row_to_json(t)::text || encode(secret, 'escape') || encode(secret, 'base64') as line from intake_ops.webhook_secrets t`,
    )
    expect(dump).toHaveLength(1)
    expect(dump[0]!.line).not.toMatch(CANARY)
    expect(dump[0]!.line).not.toContain(Buffer.from(service.secrets[0]!).toString('base64').slice(0, 16))
  })

  it('leaves events and sources to the service by default, and prints one document with --json', async () => {
    const run = await create('--json')
    expect(JSON.parse(String(service.received.at(-1)!.body))).toEqual({ target_url: URL_GIVEN })
    expect(JSON.parse(run.stdout)).toEqual({
      id: 'c-1',
      target_url: URL_GIVEN,
      event_types: null,
      sources: null,
      is_active: true,
      created_at: null,
      signature_secret: service.secrets[0],
      secret_stored: true,
    })
  })

  it('is completed when a signal arrives after the request was sent', async () => {
    let go = () => {}
    const asked = new Promise<void>((resolve) => {
      service.interfere = async ({ method }) => {
        resolve()
        if (method === 'POST')
          await new Promise<void>((done) => {
            go = done
          })
        return false
      }
    })
    const run = startCli(['webhooks', 'create', '--url', URL_GIVEN], env)
    await asked
    run.kill('SIGINT')
    await run.said('finishing started work')
    go()
    const ended = await run.ended
    expect(ended).toMatchObject({ code: 0 })
    expect(ended.stdout).toContain(service.secrets[0])
    expect(await storedSecrets()).toHaveLength(1)
  })
})

it.each([
  ['SIGINT', 130],
  ['SIGTERM', 143],
] as const)(
  'another signal, %s, ends it at once with %i; one that npm repeats does not',
  async (signal, code) => {
    let asked = () => {}
    const isAsked = new Promise<void>((resolve) => {
      asked = resolve
    })
    service.interfere = () => {
      asked()
      return new Promise<boolean>(() => {})
    }
    const run = startCli(['webhooks', 'create', '--url', URL_GIVEN], env)
    await isAsked
    for (let time = 0; time < 2; time++) run.process.kill('SIGINT')
    await run.said('finishing started work')
    // Longer than npm takes to repeat it.
    await new Promise((resolve) => setTimeout(resolve, 700))
    expect(run.process.exitCode).toBeNull()
    run.process.kill(signal)
    expect(await run.ended).toMatchObject({ code, stdout: '' })
  },
)

describe('before the request is sent', () => {
  it.each([
    ['is missing', undefined, 'setting_missing'],
    ['is too short', Buffer.alloc(16).toString('base64'), 'setting_invalid'],
  ])('a key that %s is rejected with exit 2', async (_, key, reason) => {
    env = { ...env, INTAKE_ENCRYPTION_KEY: key }
    const run = await create()
    expect(run).toMatchObject({ code: 2, stdout: '' })
    expect(run.stderr).toContain('INTAKE_ENCRYPTION_KEY')
    expect(run.stderr).toContain(`\ncode: ${reason}, `)
    expect(askedOf(service)).toEqual([])
  })

  it.each([
    ['is behind', 'delete from intake_ops.migrations where name like $$0005%$$', 'intake-sync migrate'],
    [
      'is read-only',
      `do $$ begin execute format('alter database %I set default_transaction_read_only = on', current_database()); end $$`,
      'read-only',
    ],
    [
      'refuses the row',
      'alter table intake_ops.webhook_secrets add check (length(secret) < 10) not valid',
      '23514',
    ],
  ])('a warehouse that %s is rejected with exit 1', async (_, statement, named) => {
    await query(warehouse.url, statement)
    const run = await create()
    expect(run).toMatchObject({ code: 1, stdout: '' })
    expect(run.stderr).toContain(named)
    expect(askedOf(service)).toEqual([])
  })

  it('an unreachable warehouse is rejected with exit 1', async () => {
    env = { ...env, DATABASE_URL: 'postgres://u@127.0.0.1:1/none' }
    expect(await create()).toMatchObject({ code: 1, stdout: '' })
    expect(askedOf(service)).toEqual([])
  })

  it('the trial write leaves nothing behind', async () => {
    service.interfere = (_, response) => {
      json(response, { detail: 'Validation error.' }, 400)
      return true
    }
    const run = await create()
    // The service has refused it, so there is nothing to look for.
    expect([run.code, run.stderr]).toEqual([1, expect.not.stringContaining('webhooks list')])
    expect(await storedSecrets()).toEqual([])
  })
})

describe('a secret that cannot be stored', () => {
  const breakStore = () => query(warehouse.url, 'alter table intake_ops.webhook_secrets rename to elsewhere')

  it('causes its webhook to be deleted: exit 1', async () => {
    service.interfere = async ({ method }) => {
      if (method === 'POST') await breakStore()
      return false
    }
    const run = await createApart()
    expect(run).toMatchObject({ code: 1, stdout: '' })
    expect(run.stderr).toContain('created and deleted again: its secret could not be stored')
    // Its code and hint are those of why it could not be stored.
    expect(run.stderr).toMatch(/\n {2}hint: .*\ncode: (?!secret_missing)/)
    expect(askedOf(service)).toEqual(['POST /v2/webhooks', 'DELETE /v2/webhooks/c-1'])
    expect(service.configs).toEqual([])
    expect(run.output).not.toMatch(CANARY)
  })

  it('is reported with the id of its webhook if that cannot be deleted either: exit 1', async () => {
    service.interfere = async ({ method }, response) => {
      if (method === 'POST') await breakStore()
      if (method === 'DELETE') response.writeHead(500).end()
      return method === 'DELETE'
    }
    const run = await create()
    expect(run).toMatchObject({ code: 1, stdout: '' })
    expect(run.stderr).toContain('the webhook c-1 was created and could not be deleted again')
    expect(run.stderr).toContain('intake-sync webhooks delete c-1')
    expect(run.output).not.toMatch(CANARY)
  })

  /** The stores of a secret that fail for a moment, the first being the trial. */
  const failing = (tries: string) =>
    query(
      warehouse.url,
      `create sequence tries;
       create function pass() returns trigger language plpgsql as $$ begin
         if nextval('tries') in (${tries}) then raise exception using errcode = '40001'; end if; return new;
       end $$;
       create trigger pass before insert on intake_ops.webhook_secrets for each row execute function pass()`,
    )

  it('is stored by another attempt after a transient failure', async () => {
    pauses.length = 0
    await failing('2, 3')
    expect((await create()).code).toBe(0)
    expect(await storedSecrets()).toHaveLength(1)
    expect(await query(warehouse.url, 'select last_value::int from tries')).toEqual([{ last_value: 4 }])
    expect(pauses).toEqual([1_000, 1_000])
  })

  it('after three attempts is given up: its webhook is deleted, also where it is gone already', async () => {
    await failing('2, 3, 4')
    service.interfere = ({ method }, response) => {
      if (method === 'DELETE') response.writeHead(404).end()
      return method === 'DELETE'
    }
    const run = await create()
    expect([run.code, run.stderr]).toEqual([
      1,
      expect.stringContaining('created and deleted again: its secret could not be stored'),
    ])
    expect(await query(warehouse.url, 'select last_value::int from tries')).toEqual([{ last_value: 4 }])
  })
})

describe('an unusable answer', () => {
  it('without a secret causes its webhook to be deleted', async () => {
    service.interfere = ({ method }, response) => {
      if (method !== 'POST') return false
      service.configs.push({ id: 'c-9' })
      json(response, { id: 'c-9' }, 201)
      return true
    }
    const run = await create()
    expect(run).toMatchObject({ code: 1, stdout: '' })
    expect(run.stderr).toContain('deleted again: the answer has no signature secret')
    expect(run.stderr).toContain('code: secret_missing')
    expect(service.configs).toEqual([])
  })

  it('that never arrives is reported as a possible leftover webhook, and the request is sent once', async () => {
    service.interfere = (_, response) => {
      response.destroy()
      return true
    }
    const run = await create()
    expect(run).toMatchObject({ code: 1, stdout: '' })
    expect(run.stderr).toMatch(/whether it took effect is not known\n.*intake-sync webhooks list/)
    expect(askedOf(service)).toEqual(['POST /v2/webhooks'])
  })

  it.each([
    ['an id', { signature_secret: 'whsec_canary-lost' }],
    ['anything', {}],
  ])('without %s is reported with what is left to do', async (_, body) => {
    service.interfere = (_request, response) => {
      json(response, body, 201)
      return true
    }
    const run = await create()
    expect(run).toMatchObject({ code: 1, stdout: '' })
    expect(run.stderr).toContain('intake-sync webhooks list')
    expect(run.output).not.toMatch(CANARY)
  })
})
