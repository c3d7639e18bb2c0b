/** The webhook that `init` makes on demand: it is made once, and only where none with a stored secret is there. */
import { randomBytes } from 'node:crypto'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { ensureWebhook } from '../../../src/commands/webhooks/create.ts'
import { readConfig } from '../../../src/config/config.ts'
import { json } from '../../api/support/service.ts'
import { openWarehouse, query } from '../../e2e/support/scene.ts'
import type { TestDatabase } from '../../support/database.ts'
import { startWebhooksService, type WebhooksService } from './service.ts'

const HERE = 'https://clinic.invalid/hooks'

let warehouse: TestDatabase
let service: WebhooksService

beforeAll(async () => {
  warehouse = await openWarehouse()
  service = await startWebhooksService()
  await query(
    warehouse.url,
    `insert into intake.teams (name) values ('default'), ('other');
     insert into intake_ops.webhook_secrets (team_id, config_id, secret, retired_at)
       select team_id, config_id, 'x', case when config_id = 'old' then now() end
       from intake.teams, (values ('default', 'old'), ('default', 'elsewhere'), ('default', 'here'), ('other', 'theirs'))
         as stored (team, config_id) where name = team`,
  )
})
afterAll(async () => {
  await service?.[Symbol.asyncDispose]()
  await warehouse?.drop()
})

async function ensured(...pages: readonly (readonly object[])[]) {
  service.interfere = ({ method, url }, response) => {
    if (method !== 'GET') return false
    const at = Number(new URL(url, 'http://service').searchParams.get('page') ?? 1)
    const next = at < pages.length ? `/v2/webhooks?page=${at + 1}` : null
    json(response, { count: pages.flat().length, next, previous: null, results: pages[at - 1] })
    return true
  }
  const shown: string[] = []
  const write = (text: string | Uint8Array) => shown.push(String(text))
  const env = {
    ...service.env,
    DATABASE_URL: warehouse.url,
    INTAKE_ENCRYPTION_KEY: randomBytes(32).toString('base64'),
    LOG_LEVEL: 'silent',
  }
  const signal = new AbortController().signal
  const context = { env, stdout: { write }, stderr: { write }, signal, version: '0.0.0' }
  const result = await ensureWebhook(context, readConfig(env), HERE)
  expect(shown.join('')).not.toContain('whsec_canary')
  return result
}

const config = (id: string, target_url = HERE) => ({ id, target_url })

it('one with this address and a stored secret is taken, also from a later page', async () => {
  expect(await ensured([config('old'), config('elsewhere', 'https://x.invalid/')], [config('here')])).toEqual(
    { id: 'here', created: false },
  )
  expect(service.configs).toEqual([])
})

it('one without a secret of this team, with a retired one, or with another address is none', async () => {
  const others = [config('old'), config('elsewhere', `${HERE}/`), config('theirs'), config('unknown')]
  expect(await ensured(others.slice(0, 3), others.slice(3))).toEqual({ id: 'c-1', created: true })
  expect(service.configs).toEqual([{ id: 'c-1', is_active: true, target_url: HERE }])
  expect(await ensured([...others, config('c-1')])).toEqual({ id: 'c-1', created: false })
})
