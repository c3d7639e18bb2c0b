/** `webhooks list` and `events`: work without a database, and with incomplete answers of the service. */
import { randomBytes } from 'node:crypto'
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { json } from '../../api/support/service.ts'
import { openWarehouse, query } from '../../e2e/support/scene.ts'
import { runCli, type Variables } from '../../support/cli.ts'
import type { TestDatabase } from '../../support/database.ts'
import { runCommand } from '../../support/run-command.ts'
import { startWebhooksService, type WebhooksService } from './service.ts'

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

/** Answers every list with these pages, one after the other. */
function answerInPages(...pages: readonly (readonly object[])[]): void {
  service.interfere = ({ url }, response) => {
    const at = Number(new URL(url, 'http://service').searchParams.get('page') ?? 1)
    const next = at < pages.length ? `${url.split('?')[0]}?page=${at + 1}` : null
    json(response, { count: pages.flat().length, next, previous: null, results: pages[at - 1] })
    return true
  }
}

describe('list', () => {
  it('shows each configuration, and whether its secret is stored', async () => {
    await created()
    await created()
    await webhooks('delete c-2')
    service.configs.push({ id: 'c-2', target_url: 'https://other.invalid/', is_active: false })
    service.configs.push({
      uid: 'c-3',
      url: 'https://third.invalid/\u001b[2J',
      events: [{ name: 'created' }],
    })
    const run = await webhooks('list')
    expect(run.code).toBe(0)
    expect(
      run.stdout
        .trimEnd()
        .split('\n')
        .map((line) => line.split(/ {2,}/)),
    ).toEqual([
      ['id', 'url', 'events', 'sources', 'active', 'secret'],
      ['c-1', 'https://clinic.invalid/hooks', 'created', 'form,packet', 'yes', 'stored'],
      ['c-2', 'https://other.invalid/', '-', '-', 'no', 'retired'],
      ['c-3', 'https://third.invalid/\\x1b[2J', 'created', '-', '-', 'none'],
    ])
    expect(run.output).not.toMatch(/whsec_canary/)
    const other = await webhooks('list --json', { ...env, INTAKE_TEAM: 'other' })
    expect(JSON.parse(other.stdout).webhooks.map(({ secret }: { secret: string }) => secret)).toEqual([
      ...['none', 'none', 'none'],
    ])
  })

  it('shows the configurations of every page, in their order', async () => {
    answerInPages([{ id: 'c-1' }, { id: 'c-2' }], [{ id: 'c-3' }], [{ id: 'c-4' }])
    const { webhooks: shown } = JSON.parse((await webhooks('list --json', bare)).stdout)
    expect(shown.map(({ id }: { id: string }) => id)).toEqual(['c-1', 'c-2', 'c-3', 'c-4'])
  })

  it('needs no database, and starts none: the secret column says unknown', async () => {
    service.configs.push({ id: 'c-1', signature_secret: 'whsec_canary' })
    const run = await webhooksApart('list --json', bare)
    expect(run.code).toBe(0)
    expect(JSON.parse(run.stdout)).toEqual({
      webhooks: [
        {
          id: 'c-1',
          target_url: null,
          event_types: null,
          sources: null,
          is_active: null,
          created_at: null,
          secret: 'unknown',
        },
      ],
    })
    expect(existsSync(dataDir)).toBe(false)
  })

  it('works with an unreachable database, and reports it', async () => {
    service.configs.push({ id: 'c-1' })
    await using empty = await openWarehouse({ empty: true })
    const run = await webhooks('list', { ...env, DATABASE_URL: empty.url })
    expect(run.code).toBe(0)
    expect(run.stdout).toMatch(/^c-1 .* unknown$/m)
    expect(run.stderr).toContain(
      'note: whether a secret is stored is not known: the database has no schema of intake-sync yet',
    )
  })

  it('reports an empty list', async () => {
    expect(await webhooks('list', bare)).toMatchObject({ code: 0, stdout: 'no webhook configurations\n' })
  })
})

describe('events', () => {
  const delivery = (at: number) => ({
    id: `d-${at}`,
    webhook_config: { id: 'c-1' },
    event_type: 'updated',
    source: 'response',
    status: 'failed',
    response_status_code: 500,
    attempts: at,
    error: 'timeout\u001b[2J',
    created_at: `2026-01-01T00:00:${String(at).padStart(2, '0')}Z`,
  })

  it('are the newest of all, whatever the order of the list', async () => {
    service.deliveries = [5, 1, 30, 12, 7].map(delivery)
    const all = await webhooks('events --limit 5', bare)
    expect(all.stdout).toMatch(/^2026-01-01T00:00:30Z +failed +500 +30 +updated +response +c-1 +timeout/m)
    expect(all.stdout).not.toContain('--limit')
    const run = await webhooks('events --limit 3', bare)
    expect(run.code).toBe(0)
    expect(run.stdout.match(/00:00:\d\d/g)).toEqual(['00:00:30', '00:00:12', '00:00:07'])
    expect(run.stdout).toContain('the newest 3 of 5; --limit shows more\n')
    expect(run.stdout).toContain('timeout\\x1b[2J')
    expect(existsSync(dataDir)).toBe(false)
  })

  it('are the newest of all pages, and all of them are counted', async () => {
    const none = (id: string) => ({ ...delivery(3), id, created_at: undefined })
    answerInPages([delivery(8), none('n-1'), delivery(2)], [delivery(9), none('n-2')], [delivery(5)])
    const ids = async (limit: number) => {
      const { total, events } = JSON.parse((await webhooks(`events --json --limit ${limit}`, bare)).stdout)
      return [total, ...events.map(({ id }: { id: string }) => id)]
    }
    expect(await ids(3)).toEqual([6, 'd-9', 'd-8', 'd-5'])
    expect(await ids(6)).toEqual([6, 'd-9', 'd-8', 'd-5', 'd-2', 'n-1', 'n-2'])
    // Of deliveries with the same time, those on an earlier page come first, even if some of that page are left out.
    const same = (id: string) => ({ ...delivery(9), id })
    answerInPages(
      [delivery(1), delivery(2), delivery(3), same('s-1')],
      [same('s-2'), delivery(4)],
      [same('s-3')],
    )
    expect(await ids(2)).toEqual([7, 's-1', 's-2'])
    service.interfere = () => false
    service.deliveries = Array.from({ length: 21 }, (_, at) => delivery(at))
    expect(JSON.parse((await webhooks('events --json', bare)).stdout).events).toHaveLength(20)
  })

  it('on a narrow terminal, lose the webhook before the error is cut; configurations lose sources, then events', async () => {
    service.deliveries = [{ ...delivery(3), error: 'connection timeout after 30 s' }]
    const lines = async (words: string, columns: number) =>
      (await runCommand(['webhooks', words], bare, { columns })).stdout.trimEnd().split('\n')
    const [head, row, note] = await lines('events', 80)
    expect(head?.split(/ {2,}/)).toEqual([
      ...['created', 'status', 'code', 'attempts', 'event', 'source', 'error'],
    ])
    expect(row).toMatch(/ {2}connec.*…$/)
    expect(note).toBe('(not shown here, but with --json: webhook)')
    const [wide] = await lines('events', 140)
    expect(wide).toMatch(/source +webhook +error$/)
    service.configs.push({
      ...{ id: 'c-1', target_url: 'https://clinic.invalid/hooks/of/intake', is_active: true },
      ...{
        event_types: ['created', 'updated', 'deleted'],
        sources: ['form', 'packet', 'patient', 'response'],
      },
    })
    const titles = async (columns: number) => (await lines('list', columns))[0]!.split(/ {2,}/)
    expect(await titles(140)).toEqual(['id', 'url', 'events', 'sources', 'active', 'secret'])
    expect(await titles(90)).toEqual(['id', 'url', 'events', 'active', 'secret'])
    expect(await titles(60)).toEqual(['id', 'url', 'active', 'secret'])
    expect((await lines('list', 60)).at(-1)).toBe('(not shown here, but with --json: sources, events)')
  })

  it('of one time are in the order of the list, and those without a time are last', async () => {
    const [first, second, third] = [1, 2, 3].map((at) => ({ ...delivery(7), id: `same-${at}` }))
    service.deliveries = [{ id: 'none-1' }, first, { id: 'none-2' }, second, delivery(9), third]
    const { events } = JSON.parse((await webhooks('events --json', bare)).stdout)
    expect(events.map(({ id }: { id: string }) => id)).toEqual([
      ...['d-9', 'same-1', 'same-2', 'same-3', 'none-1', 'none-2'],
    ])
    const few = JSON.parse((await webhooks('events --json --limit 5', bare)).stdout)
    expect([few.total, few.events.length]).toEqual([6, 5])
  })

  it('have all their fields in the document, a reference as its id', async () => {
    const more = { event_id: 'e-1', next_retry_at: '2026-01-02T00:00:00Z', source: { uid: 'form' } }
    service.deliveries = [{ ...delivery(3), ...more, error: { code: 7 } }]
    const { events } = JSON.parse((await webhooks('events --json', bare)).stdout)
    expect(events).toEqual([
      {
        ...{ ...delivery(3), ...more, source: 'form', webhook_config: 'c-1', error: '{"code":7}' },
      },
    ])
  })

  it('are shown with the fields that exist', async () => {
    service.deliveries = [{}, delivery(3), 'no object']
    const { created_at: timestamp, id: uid, webhook_config: _, ...other } = delivery(9)
    service.deliveries.push({ ...other, timestamp, uid, webhook_config_id: 'c-2' })
    const run = await webhooks('events --json', bare)
    expect(run.code).toBe(0)
    const { events } = JSON.parse(run.stdout)
    expect(events).toHaveLength(3)
    expect(events[0]).toMatchObject({ id: 'd-9', webhook_config: 'c-2', created_at: timestamp })
    expect(events[1]).toMatchObject({
      id: 'd-3',
      webhook_config: 'c-1',
      response_status_code: 500,
      attempts: 3,
    })
    expect(new Set(Object.values(events[2]))).toEqual(new Set([null]))
  })

  it('reports an empty list', async () => {
    expect(await webhooks('events', bare)).toMatchObject({ code: 0, stdout: 'no deliveries\n' })
  })
})
