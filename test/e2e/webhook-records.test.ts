/** Webhook configurations and the delivery log, as listed by the service; secrets are stored nowhere. */
import { describe, expect, it } from 'vitest'
import { json } from '../api/support/service.ts'
import { callerOf, type Loose } from '../emulator/caller.ts'
import { answering, startReceiver } from '../emulator/receiver.ts'
import { runCommand } from '../support/run-command.ts'
import { type LittleRecord, littlePatients, startLittleService } from './support/little-service.ts'
import { openScene, openWarehouse, query } from './support/scene.ts'
import { rowVersions } from './support/tables.ts'

const COLUMNS = {
  webhook_configs: 'id, target_url, event_types, sources, is_active, created_at',
  webhook_deliveries:
    'id, event_id, webhook_config_id, event_type, source, status, response_status_code, attempts, error, created_at, next_retry_at',
}

/** Rows as JSON with times in the format of the service, in the order of their ids. */
async function rowsOf(url: string, table: keyof typeof COLUMNS): Promise<readonly object[]> {
  const rows = await query<{ row: Record<string, unknown> }>(
    url,
    `select to_jsonb(t) as row from (select ${COLUMNS[table]} from intake.${table} where _deleted_at is null) t order by id`,
  )
  return rows.map(({ row }) => ({
    ...row,
    ...Object.fromEntries(
      Object.entries(row).flatMap(([name, value]) =>
        name.endsWith('_at') && value !== null ? [[name, stampOf(value)]] : [],
      ),
    ),
  }))
}

/** A time, however its fraction and zone are written. */
function stampOf(value: unknown): string {
  const [, whole, fraction = ''] = /^([^.Z+]*)(?:\.(\d+))?(?:Z|\+00:00)$/.exec(String(value))!
  return `${whole}.${fraction.padEnd(6, '0')}`
}

/** The whole content of the database, as text; bytes as text too. */
async function dump(url: string): Promise<string> {
  const columns = await query<{ place: string; columns: string }>(
    url,
    `select format('%I.%I', table_schema, table_name) as place,
       string_agg(case when data_type = 'bytea' then format('encode(%I, ''escape'')', column_name)
                       else format('%I::text', column_name) end, ' , ' order by ordinal_position) as columns
     from information_schema.columns
     where table_schema not in ('pg_catalog', 'information_schema')
       and (table_schema, table_name) in (select schemaname, tablename from pg_tables) group by 1`,
  )
  const texts: string[] = []
  for (const { place, columns: all } of columns) {
    const rows = await query<{ row: string }>(url, `select concat_ws(' ', ${all}) as row from ${place}`)
    texts.push(...rows.map(({ row }) => `${place} ${row}`))
  }
  return texts.join('\n')
}

it('configurations and deliveries, failed ones included, are in the tables as the API lists them, without their secrets', async () => {
  await using receiver = await startReceiver()
  // Failed deliveries are retried after this test, however long it takes.
  await using scene = await openScene({ timeScale: 0.01 })
  const { control } = scene.emulator
  const caller = callerOf(scene.emulator)
  const secrets: string[] = []
  const configs: string[] = []
  for (const sources of [['patient'], ['patient', 'form'], ['form']]) {
    const { body } = await caller.send('POST', '/v2/webhooks', { target_url: receiver.url, sources })
    secrets.push(body.signature_secret)
    configs.push(body.id)
  }
  control.renameForm(control.world().forms.at(0)!.id, 'Delivered')
  await control.webhooks().idle()
  receiver.answer = answering(500)
  control.updatePatient(control.world().patients.at(0)!.id, { last_name: 'Not delivered' })
  await control.webhooks().idle()

  const expectAsListed = async () => {
    const listed = async (path: string) => {
      const rows = await caller.rows(path)
      return rows.sort((a, b) => (a.id < b.id ? -1 : 1))
    }
    const stamped = ({ created_at, updated_at: _, ...row }: Loose) => ({
      ...row,
      created_at: stampOf(created_at),
    })
    expect(await rowsOf(scene.url, 'webhook_configs')).toEqual((await listed('/v2/webhooks')).map(stamped))
    const deliveries = (await listed('/v2/webhooks/events')).map(
      ({ webhook_config, next_retry_at, ...row }: Loose) => ({
        ...stamped(row),
        webhook_config_id: webhook_config,
        next_retry_at: next_retry_at === null ? null : stampOf(next_retry_at),
      }),
    )
    expect(await rowsOf(scene.url, 'webhook_deliveries')).toEqual(deliveries)
    return deliveries
  }
  expect(await scene.backfill()).toMatchObject({ code: 0 })
  const deliveries = await expectAsListed()
  expect(new Set(deliveries.map(({ status }: Loose) => status))).toEqual(new Set(['succeeded', 'failed']))

  const before = await rowVersions(scene.url)
  expect(await scene.backfill('--full')).toMatchObject({ code: 0 })
  expect(await rowVersions(scene.url)).toEqual(before)

  // Changed, and deleted: the deliveries stay.
  await caller.send('PATCH', `/v2/webhooks/${configs[0]}`, { is_active: false })
  await caller.send('DELETE', `/v2/webhooks/${configs[1]}`)
  expect(await scene.backfill()).toMatchObject({ code: 0 })
  await expectAsListed()
  const gone = await query(scene.url, 'select id from intake.webhook_configs where _deleted_at is not null')
  expect(gone).toEqual([{ id: configs[1] }])

  const everything = await dump(scene.url)
  expect(everything).toContain(receiver.url)
  expect(secrets.every((secret) => /^[0-9a-f]{64}$/.test(secret))).toBe(true)
  for (const secret of secrets) expect(everything.includes(secret)).toBe(false)
})

it('a service that shows secrets in its lists, under any name, leaves none of them in the warehouse', async () => {
  await using service = await startLittleService(littlePatients(1))
  await using warehouse = await openWarehouse()
  const secret = 'Geheimnis4711'
  const config = { id: 'w1', target_url: 'https://a.example/hook', signature_secret: secret }
  service.records.webhookConfigs.push({ ...config, secret, meta: { old_secrets: [secret] } })
  // A record without a key becomes a dead letter as a whole, except for these.
  service.records.webhookConfigs.push({ ...config, id: null } as never)
  const run = await runCommand(['backfill', '--json'], {
    ...{ ...service.env, DATABASE_URL: warehouse.url, LOG_LEVEL: 'trace' },
  })
  expect(run.code).toBe(4)
  const everything = await dump(warehouse.url)
  expect(everything.match(/a\.example\/hook/g)!.length).toBeGreaterThanOrEqual(3)
  expect(everything + run.output).not.toContain(secret)
})

it('deliveries that the service no longer lists stay: they expired there, and were not deleted', async () => {
  await using service = await startLittleService(littlePatients(1))
  await using warehouse = await openWarehouse()
  const env = { ...service.env, DATABASE_URL: warehouse.url }
  const { webhookDeliveries } = service.records
  for (let at = 0; at < 30; at++) webhookDeliveries.push({ id: `d${at}`, status: 'failed' })
  expect(await runCommand(['backfill'], env)).toMatchObject({ code: 0 })
  webhookDeliveries.splice(0, 25)
  const run = await runCommand(['backfill', '--full', '--json'], env)
  expect(run.code).toBe(0)
  expect(JSON.parse(run.stdout).streams.webhook_deliveries).toMatchObject({ deleted: 0, note: null })
  expect(await rowsOf(warehouse.url, 'webhook_deliveries')).toHaveLength(30)
  expect(service.received.filter(({ url }) => /events\/./.test(url))).toEqual([])
})

describe('a log whose attempts carry the id of their event', () => {
  const attempt = (event: number, attempts: number, status = 'failed'): LittleRecord => ({
    ...{ id: `e${event}`, event_id: `e${event}`, webhook_config: 'w1', status, attempts },
    created_at: `2026-01-01T00:${String(event).padStart(2, '0')}:0${attempts}.123456Z`,
  })
  const three = (event: number) =>
    [1, 2, 3].map((at) => attempt(event, at, at === 3 ? 'succeeded' : 'failed'))
  const all = Array.from({ length: 10 }, (_, at) => three(at)).flat()

  it.each<[string, readonly LittleRecord[]]>([
    ['oldest first', all],
    ['newest first', all.toReversed()],
    [
      'attempt after attempt, page after page the same ids',
      [1, 2, 3].flatMap((at) => all.filter((one) => one.attempts === at)),
    ],
    ['without the time of each', all.toReversed().map(({ created_at: _, ...one }) => one)],
    ['at one time each', all.toReversed().map((one) => ({ ...one, created_at: '2026-01-01T00:00:00Z' }))],
  ])(
    '(%s) keeps the latest attempt of each, is read once, needs no attention, and writes nothing the next time',
    async (_, listed) => {
      await using service = await startLittleService(littlePatients(1))
      await using warehouse = await openWarehouse()
      const env = { ...service.env, DATABASE_URL: warehouse.url }
      service.records.webhookDeliveries.push(...listed)
      const words = ['backfill', '--streams', 'webhook_deliveries', '--json']
      const latest = Array.from({ length: 10 }, (_, at) => ({
        id: `e${at}`,
        attempts: 3,
        status: 'succeeded',
      }))
      const stored = () =>
        query(
          warehouse.url,
          'select id, attempts, status from intake.webhook_deliveries order by created_at, id',
        )
      const byId = (rows: readonly object[]) =>
        [...rows].sort((a, b) => (JSON.stringify(a) < JSON.stringify(b) ? -1 : 1))
      const first = await runCommand(words, env)
      expect(first).toMatchObject({ code: 0 })
      expect(JSON.parse(first.stdout).streams.webhook_deliveries).toMatchObject({ requests: 3, note: null })
      expect(byId(await stored())).toEqual(byId(latest))
      const before = await rowVersions(warehouse.url)
      const second = await runCommand([...words, '--full'], env)
      expect(JSON.parse(second.stdout).streams.webhook_deliveries).toMatchObject({
        ...{ requests: 3, fetched: 30, changed: 0, unchanged: 30, note: null },
      })
      expect(await rowVersions(warehouse.url)).toEqual(before)

      // A fourth attempt of one, then the service drops it: the logged rows stay.
      service.records.webhookDeliveries.unshift(attempt(5, 4))
      expect(await runCommand(words, env)).toMatchObject({ code: 0 })
      service.records.webhookDeliveries.shift()
      expect(await runCommand(words, env)).toMatchObject({ code: 0 })
      expect(byId(await stored())).toEqual(
        byId(latest.map((row) => (row.id === 'e5' ? { ...row, attempts: 4, status: 'failed' } : row))),
      )
    },
  )
})

it.each([
  ['at its end', (log: LittleRecord[], entry: LittleRecord) => log.push(entry)],
  ['at its beginning', (log: LittleRecord[], entry: LittleRecord) => log.unshift(entry)],
])('a log that grows %s with every page that is read is read once and completely', async (_, grow) => {
  await using service = await startLittleService(littlePatients(1))
  await using warehouse = await openWarehouse()
  const log = service.records.webhookDeliveries
  for (let at = 0; at < 45; at++) log.push({ id: `d${at}`, attempts: 1 })
  service.interfere = ({ url }) => {
    if (url.startsWith('/v2/webhooks/events')) grow(log, { id: `new${log.length}`, attempts: 1 })
    return false
  }
  const run = await runCommand(['backfill', '--streams', 'webhook_deliveries', '--json'], {
    ...{ ...service.env, DATABASE_URL: warehouse.url },
  })
  expect(run.code).toBe(0)
  const { requests, note } = JSON.parse(run.stdout).streams.webhook_deliveries
  expect({ once: requests <= 7, note }).toEqual({ once: true, note: null })
  const stored = await rowsOf(warehouse.url, 'webhook_deliveries')
  expect(stored.filter((row) => /^d/.test((row as Loose).id))).toHaveLength(45)
})

it('a log that lists fewer entries than it counts needs no attention, and reports that', async () => {
  await using service = await startLittleService(littlePatients(1))
  await using warehouse = await openWarehouse()
  const log = service.records.webhookDeliveries
  for (let at = 0; at < 5; at++) log.push({ id: `d${at}`, attempts: 1 })
  service.interfere = ({ url }, response) => {
    if (!url.startsWith('/v2/webhooks/events')) return false
    json(response, { count: 7, next: null, previous: null, results: log })
    return true
  }
  const run = await runCommand(['backfill', '--streams', 'webhook_deliveries', '--json'], {
    ...{ ...service.env, DATABASE_URL: warehouse.url },
  })
  expect(run.code).toBe(0)
  expect(JSON.parse(run.stdout).streams.webhook_deliveries.note).toContain('of 7 that the service counts')
  expect(await rowsOf(warehouse.url, 'webhook_deliveries')).toHaveLength(5)
})
