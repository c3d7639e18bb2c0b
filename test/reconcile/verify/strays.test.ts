/** Stored rows that are not listed: expired log entries, exports that may be gone, rows without a record. */
import { afterAll, beforeAll, expect, it } from 'vitest'
import { CLOCK_APART_MS, json } from '../../api/support/service.ts'
import { withoutPausesOfVerify } from '../../e2e/support/impatient.ts'
import { type LittleService, littlePatient, startLittleService } from '../../e2e/support/little-service.ts'
import { openWarehouse, query } from '../../e2e/support/scene.ts'
import type { Ended } from '../../support/cli.ts'
import type { TestDatabase } from '../../support/database.ts'
import { runCommand } from '../../support/run-command.ts'

interface Found {
  readonly source: number
  readonly warehouse: number
  readonly missing: readonly string[]
  readonly extra: readonly string[]
  readonly different: readonly { readonly id: string; readonly fields: readonly string[] }[]
  readonly repaired: number
  readonly note: string | null
}

/** More than may be deleted without approval. */
const MANY = 60

const FILE =
  'Client ID,First Name,Last Name,Email,Sent at,Completed at,Archived,Smokes\np,A,B,a@b.example,,,False,No\n'

withoutPausesOfVerify()

let service: LittleService
let warehouse: TestDatabase

beforeAll(async () => {
  warehouse = await openWarehouse()
  service = await startLittleService()
  service.clockApartMs = CLOCK_APART_MS
  service.interfere = ({ method }, response) => {
    if (method === 'POST') response.writeHead(200, { 'content-type': 'text/plain' }).end(FILE)
    return method === 'POST'
  }
  service.records.webhookDeliveries.push(...Array.from({ length: MANY }, (_, at) => delivery(at)))
  service.records.exports.push(exported('e1'), exported('e2'))
  const ended = await runCommand(['backfill'], env())
  expect(ended.code, ended.output).toBe(0)
})

afterAll(async () => {
  await service[Symbol.asyncDispose]()
  await warehouse.drop()
})

const env = () => ({ ...service.env, DATABASE_URL: warehouse.url, LOG_LEVEL: 'error' })

const idOf = (at: number) => `d${String(at).padStart(2, '0')}`

function delivery(at: number) {
  const id = idOf(at)
  const created_at = `2026-01-01T00:00:${id.slice(1)}Z`
  // The first contains a text that jsonb cannot store: its row was mapped from another text than its payload.
  const error = at === 0 ? 'cut\u0000off' : 'timed out'
  return { id, event: `event ${at}`, event_type: 'patient.updated', status: 'failed', error, created_at }
}

function exported(id: string) {
  return { id, name: id, form: { id: 'f', name: 'Form' }, created_at: '2026-01-01T00:00:00Z' }
}

async function verify(stream: string, ...words: string[]): Promise<{ ended: Ended; found: Found }> {
  const ended = await runCommand(['verify', '--json', '--streams', stream, ...words], env())
  const { streams } = JSON.parse(ended.stdout) as { streams: Record<string, Found> }
  return { ended, found: streams[stream]! }
}

async function rowsOf(table: string): Promise<readonly string[]> {
  const rows = await query<{ row: string }>(
    warehouse.url,
    `select (to_jsonb(own) - '{_loaded_at,_version,_origin}'::text[])::text as row from intake.${table} own order by 1`,
  )
  return rows.map(({ row }) => row)
}

it('an expired log entry is compared with its record; a row without one is extra', async () => {
  const before = await rowsOf('webhook_deliveries')
  service.records.webhookDeliveries.splice(0, 25)
  // Neither a record of another stream nor one of another team with its id is its record.
  await query(
    warehouse.url,
    `insert into intake_raw.records (team_id, stream, id, version, observed_at, deleted, hash, payload, origin)
     select team, stream, 'd03', now(), now(), false, '\\x99', '{}', 'of a twin'
     from (values (1, 'forms'), (2, 'webhook_deliveries')) as twin (team, stream)`,
  )
  const { ended, found } = await verify('webhook_deliveries')
  expect(ended.code, ended.output).toBe(0)
  expect(found).toMatchObject({ source: MANY - 25, warehouse: MANY, missing: [], extra: [], different: [] })
  expect(found.note).toContain('25 that the service no longer lists')

  await query(
    warehouse.url,
    `insert into intake.webhook_deliveries (team_id, id, status, _version, _origin)
     values (1, 'by hand', 'x', now(), 'hand')`,
  )
  await query(
    warehouse.url,
    `update intake.webhook_deliveries set status = 'Canary' where id in ('d01', 'd40')`,
  )
  await query(warehouse.url, `delete from intake.webhook_deliveries where id in ('d00', 'd41')`)
  const damaged = await verify('webhook_deliveries')
  expect(damaged.ended.code).toBe(4)
  expect(damaged.ended.output).not.toContain('Canary')
  const differences = {
    missing: ['d00', 'd41'],
    extra: ['by hand'],
    different: ['d01', 'd40'].map((id) => ({ id, fields: ['status'] })),
  }
  expect(damaged.found).toMatchObject({ ...differences, repaired: 0 })
  const repaired = await verify('webhook_deliveries', '--repair')
  expect(repaired.ended.code, repaired.ended.output).toBe(0)
  expect(repaired.found).toMatchObject({ ...differences, repaired: 5 })
  expect(await rowsOf('webhook_deliveries')).toEqual(before)
  await query(warehouse.url, `delete from intake_raw.records where origin = 'of a twin'`)
})

it('of entries newer than the last read, only those that are not stored are not due', async () => {
  const soon = (id: string) => ({ ...delivery(1), id, created_at: new Date(Date.now() + 3_600_000).toJSON() })
  const listed = [...service.records.webhookDeliveries]
  service.records.webhookDeliveries.push(soon('d71'))
  const loaded = await runCommand(['backfill', '--streams', 'webhook_deliveries'], env())
  expect(loaded.code, loaded.output).toBe(0)
  // Its row has lost its record, which another run may be about to write.
  await query(warehouse.url, `delete from intake_raw.records where id = 'd71'`)
  service.records.webhookDeliveries.push(soon('d72'), soon('d73'))
  const { ended, found } = await verify('webhook_deliveries')
  expect(ended.code, ended.output).toBe(0)
  expect(found).toMatchObject({ source: listed.length + 1, warehouse: MANY + 1, missing: [], different: [] })
  // One is stored without its record, two are not due.
  expect(
    await query(
      warehouse.url,
      'select newer::int, payloads_only::int, is_equal from intake_ops.verifications order by run_id desc limit 1',
    ),
  ).toEqual([{ newer: 3, payloads_only: 0, is_equal: true }])
  service.records.webhookDeliveries = listed
  await query(warehouse.url, `delete from intake.webhook_deliveries where id = 'd71'`)
})

it('an entry that retention removed is not missing, where it removed this log of this team', async () => {
  const removed: unknown[] = []
  for (const table of ['intake_raw.records', 'intake.webhook_deliveries'])
    removed.push(...(await query(warehouse.url, `delete from ${table} where id = 'd30' returning id`)))
  expect(removed).toHaveLength(2)
  await query(warehouse.url, `insert into intake.teams (name) values ('other')`)
  await query(
    warehouse.url,
    `insert into intake_ops.pruned_logs values (2, 'webhook_deliveries', '2027-01-01'), (1, 'messages', '2027-01-01')`,
  )
  const verified = async () => {
    const { ended, found } = await verify('webhook_deliveries')
    return [ended.code, found.missing]
  }
  expect(await verified()).toEqual([4, ['d30']])
  const prune = (before: string) =>
    query(
      warehouse.url,
      `insert into intake_ops.pruned_logs values (1, 'webhook_deliveries', $1)
       on conflict (team_id, stream) do update set before = excluded.before`,
      [before],
    )
  await prune('2026-01-01T00:00:30Z')
  expect(await verified()).toEqual([4, ['d30']])
  await prune('2026-01-01T00:00:30.000001Z')
  expect(await verified()).toEqual([0, []])
  await query(warehouse.url, 'delete from intake_ops.pruned_logs')
  expect((await verify('webhook_deliveries', '--repair')).found.repaired).toBe(1)
})

it('a log whose list is empty is equal, and a repair deletes nothing of it', async () => {
  const before = await rowsOf('webhook_deliveries')
  const listed = service.records.webhookDeliveries.splice(0)
  const { ended, found } = await verify('webhook_deliveries', '--repair')
  service.records.webhookDeliveries.push(...listed)
  expect(ended.code, ended.output).toBe(0)
  expect(found).toMatchObject({ source: 0, warehouse: MANY, missing: [], extra: [], different: [] })
  expect(found.note).not.toContain('--allow-mass-delete')
  expect(await rowsOf('webhook_deliveries')).toEqual(before)
})

it('a record loaded a moment ago and not listed now is extra: clocks that differ by a second do not hide it', async () => {
  const listed = service.records.exports.splice(1)
  const changed = await query(
    warehouse.url,
    `with moved as (update intake_raw.records set version = now() + interval '0.8 seconds'
       where stream = 'exports' and id = 'e2' returning version)
     update intake.exports set _version = moved.version from moved where id = 'e2' returning id`,
  )
  expect(changed).toEqual([{ id: 'e2' }])
  const { ended, found } = await verify('exports')
  service.records.exports.push(...listed)
  expect(ended.code, ended.output).toBe(4)
  expect(found.extra).toEqual(['e2'])
})

it('rows of files without any export are removed at once; an export that is not listed waits', async () => {
  const tables = ['export_columns', 'export_rows', 'export_cells']
  // Of another team.
  await query(warehouse.url, `insert into intake.export_cells values (2, 'stray 1', 1, 8, 'theirs')`)
  const before = await Promise.all(tables.map(rowsOf))
  expect(before.map((rows) => rows.length)).toEqual([2, 2, 3])
  service.records.exports.pop()
  await query(
    warehouse.url,
    `insert into intake.export_cells (team_id, export_id, row_number, position, value)
     select 1, 'stray ' || n, 1, 8, 'Canary' from generate_series(1, ${MANY}) n`,
  )
  await query(
    warehouse.url,
    `insert into intake.export_rows (team_id, export_id, row_number) values (1, 'stray row', 1)`,
  )
  await query(
    warehouse.url,
    `insert into intake.export_columns (team_id, export_id, position, title) values (1, 'stray column', 8, 'x')`,
  )
  // Neither a record of another stream nor an export of another team has the id of an export here.
  await query(
    warehouse.url,
    `insert into intake_raw.records (team_id, stream, id, version, observed_at, deleted, hash, origin)
     values (1, 'forms', 'stray 2', now(), now(), false, '\\x00', 'hand'),
       (2, 'exports', 'stray 3', now(), now(), false, '\\x00', 'hand'),
       (1, 'exports', 'stray 4', now(), now(), true, '\\x00', 'hand');
     insert into intake.exports (team_id, id, _version, _origin) values (2, 'stray 3', now(), 'hand')`,
  )
  const { ended, found } = await verify('exports', '--repair')
  await query(warehouse.url, `delete from intake_raw.records where origin = 'hand'`)
  expect(ended.code).toBe(4)
  expect(ended.output).not.toContain('Canary')
  expect(found.extra).toHaveLength(MANY + 3)
  expect(found.extra).toContain('e2')
  expect(found.repaired).toBe(MANY + 2)
  expect(found.note).toContain('another run misses them too')
  expect(found.note).not.toContain('--allow-mass-delete')
  expect(await Promise.all(tables.map(rowsOf))).toEqual(before)

  service.records.exports.push(exported('e2'))
  const again = await verify('exports')
  expect(again.ended.code, again.ended.output).toBe(0)
})

it('a list that keeps changing proves no delete: a repair leaves what it misses, and reports it', async () => {
  service.records.patients.push(littlePatient('p1', 'first'), littlePatient('p2', 'first'))
  const loaded = await runCommand(['backfill', '--streams', 'patients'], env())
  expect(loaded.code, loaded.output).toBe(0)
  const [kept] = service.records.patients.splice(1)
  const answer = service.interfere
  service.interfere = ({ url }, response) => {
    if (!/\/patients(\?|$)/.test(url)) return false
    json(response, { count: 9, next: null, previous: null, results: service.records.patients })
    return true
  }
  const live = () =>
    query(warehouse.url, 'select id from intake.patients where _deleted_at is null order by 1')
  const changing = await verify('patients', '--repair')
  expect(changing.ended.code).toBe(4)
  expect(changing.found).toMatchObject({ extra: [kept!.id], repaired: 0 })
  expect(changing.found.note).toContain('its list kept changing while it was read')
  expect(changing.found.note).not.toContain('another run misses them too')
  expect(await live()).toEqual([{ id: 'p1' }, { id: 'p2' }])

  service.interfere = answer
  const repaired = await verify('patients', '--repair')
  expect(repaired.ended.code, repaired.ended.output).toBe(0)
  expect(repaired.found).toMatchObject({ extra: [kept!.id], repaired: 1, note: null })
  expect(await live()).toEqual([{ id: 'p1' }])
  // Where its state is from: the tombstone of the repair.
  await query(warehouse.url, `update intake.patients set first_name = 'spoiled' where id = 'p1'`)
  expect((await verify('patients', '--repair')).found).toMatchObject({ repaired: 1, note: null })
  const repairs = `select run_id from intake_ops.verifications where repaired > 0 order by run_id desc limit 2`
  const [second, first] = await query<{ run_id: string }>(warehouse.url, repairs)
  for (const table of ['intake.patients', "intake_raw.records where stream = 'patients'"]) {
    const origins = `select _origin as origin from ${table} order by id`.replace(
      '_origin as origin from intake_raw',
      'origin from intake_raw',
    )
    expect(await query(warehouse.url, origins)).toEqual([
      { origin: `run:${second!.run_id} repair` },
      { origin: `run:${first!.run_id} repair` },
    ])
  }
})
