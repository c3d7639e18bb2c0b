/** Records that are newer than the read of the source, for any clocks, and changes during a repair. */
import { afterEach, beforeEach, expect, test } from 'vitest'
import { systemClock } from '../../../src/core/clock.ts'
import { instantOf } from '../../../src/core/time.ts'
import { json } from '../../api/support/service.ts'
import { withoutPauses, withoutPausesOfVerify } from '../../e2e/support/impatient.ts'
import { type LittleService, startLittleService } from '../../e2e/support/little-service.ts'
import { openScene, patient, patientEvent, type Scene } from '../../ingest/drain/scene.ts'
import { runCommand } from '../../support/run-command.ts'

withoutPauses()
withoutPausesOfVerify()

let scene: Scene
let service: LittleService

beforeEach(async () => {
  scene = await openScene()
  service = await startLittleService([patient('p1', { last_name: 'first' }), patient('p2', {})])
})

afterEach(async () => {
  await service[Symbol.asyncDispose]()
  await scene[Symbol.asyncDispose]()
})

interface Found {
  readonly source: number
  readonly warehouse: number
  readonly missing: readonly string[]
  readonly extra: readonly string[]
  readonly different: readonly { readonly id: string }[]
  readonly repaired: number
  readonly newer: number
}

const env = () => ({ ...service.env, DATABASE_URL: scene.url, LOG_LEVEL: 'error' })

const at = (milliseconds: number) => instantOf(systemClock.now() + milliseconds * 1000)

async function backfill(stream: string): Promise<void> {
  const ended = await runCommand(['backfill', '--streams', stream], env())
  expect(ended.code, ended.output).toBe(0)
}

async function verify(stream: string, ...words: string[]): Promise<{ code: number | null; found: Found }> {
  const ended = await runCommand(['verify', '--json', '--streams', stream, ...words], env())
  const { streams } = JSON.parse(ended.stdout) as { streams: Record<string, Found> }
  return { code: ended.code, found: streams[stream]! }
}

test('a change by an event while a repair fetches its record is not overruled by the answer', async () => {
  await backfill('patients')
  await scene.rows(`update intake_raw.records set hash = '\\x00' where id = 'p1'`)
  await scene.rows(`update intake.patients set last_name = 'damaged' where id = 'p1'`)
  let asked = 0
  service.interfere = ({ url }, response) => {
    if (!url.endsWith('/p1')) return false
    asked += 1
    // The first request is the second look; later ones are the repair.
    if (asked !== 2) return false
    const stale = service.records.patients[0]
    service.records.patients[0] = patient('p1', { last_name: 'newer' })
    void (async () => {
      const event = patientEvent('p1', 0, { last_name: 'newer' }, { timestamp: at(0) })
      await scene.store([event], { receivedAt: at(0) })
      await scene.drain()
      json(response, stale)
    })()
    return true
  }
  const { code, found } = await verify('patients', '--repair')
  expect(asked).toBe(2)
  // The fetched state is not the stored one: the record is not reported as repaired.
  expect({ code, found }).toMatchObject({ code: 4, found: { different: [{ id: 'p1' }], repaired: 0 } })
  expect(await scene.rows(`select last_name from intake.patients where id = 'p1'`)).toEqual([
    { last_name: 'newer' },
  ])
  service.interfere = () => false
  expect(await verify('patients')).toMatchObject({ code: 0, found: { different: [] } })
})

test('a record that the service fails to return is not compared: a person has to look', async () => {
  await backfill('patients')
  service.records.patients[0] = patient('p1', { last_name: 'second' })
  service.interfere = ({ url }, response) => {
    if (url.endsWith('/p1')) json(response, {}, 500)
    return url.endsWith('/p1')
  }
  expect(await verify('patients')).toMatchObject({
    code: 4,
    found: { missing: [], extra: [], different: [] },
  })
  service.interfere = () => false
  expect(await verify('patients')).toMatchObject({ code: 4, found: { different: [{ id: 'p1' }] } })
})

test('a state stored before the read began is not newer, however far ahead its stamp is', async () => {
  const exported = (id: string) => ({ id, name: id, form: null, updated_at: at(60_000) })
  const file =
    'Client ID,First Name,Last Name,Email,Sent at,Completed at,Archived\np,A,B,a@b.example,,,False\n'
  service.interfere = ({ method }, response) => {
    if (method === 'POST') response.writeHead(200, { 'content-type': 'text/plain' }).end(file)
    return method === 'POST'
  }
  service.records.exports.push(exported('e1'), exported('e2'))
  await backfill('exports')
  service.records.exports.pop()
  expect(await verify('exports')).toMatchObject({ code: 4, found: { extra: ['e2'], newer: 0 } })
})

test('a state that is loaded meanwhile, but dated far ahead of the service, is not newer', async () => {
  await backfill('patients')
  service.interfere = ({ url }, response) => {
    const load = scene.rows(
      `with raw as (update intake_raw.records set hash = '\\x01', version = now() + interval '1 hour'
         where stream = 'patients' and id = 'p1' returning id)
       update intake.patients set last_name = 'ahead', _loaded_at = clock_timestamp() from raw where patients.id = raw.id`,
    )
    const { patients } = service.records
    const body = url.endsWith('/p1')
      ? patients[0]
      : { count: 2, next: null, previous: null, results: patients }
    void load.then(() => json(response, body))
    return true
  }
  const { code, found } = await verify('patients')
  expect({ code, found }).toMatchObject({ code: 4, found: { different: [{ id: 'p1' }], newer: 0 } })
})

test('a record that is listed and not found by its id is not deleted by a repair', async () => {
  await backfill('patients')
  await scene.rows(`delete from intake.patients where id = 'p1'`)
  service.interfere = ({ url }, response) => {
    if (url.endsWith('/p1')) json(response, {}, 404)
    return url.endsWith('/p1')
  }
  const found = { missing: ['p1'], repaired: 0 }
  expect(await verify('patients', '--repair')).toMatchObject({ code: 4, found })
  const stored = await scene.rows(`select deleted from intake_raw.records where id = 'p1'`)
  expect(stored).toEqual([{ deleted: false }])
  service.interfere = () => false
  expect(await verify('patients', '--repair')).toMatchObject({ code: 0, found: { ...found, repaired: 1 } })
})

test.each([
  ['the service fails to return', {}, 500, 0],
  ['comes as the record of another id', patient('p2', {}), 200, 1],
])(
  'a missing record that %s while it is repaired does not count as repaired',
  async (_, body, status, dead) => {
    await backfill('patients')
    await scene.rows(`delete from intake.patients where id = 'p1'`)
    await scene.rows(`delete from intake_raw.records where stream = 'patients' and id = 'p1'`)
    let asked = 0
    service.interfere = ({ url }, response) => {
      if (!url.endsWith('/p1')) return false
      asked += 1
      // The first request is the second look; later ones are the repair.
      if (asked === 1) return false
      json(response, body, status)
      return true
    }
    const found = { missing: ['p1'], extra: [], different: [], repaired: 0 }
    expect(await verify('patients', '--repair')).toMatchObject({ code: 4, found })
    expect(asked).toBeGreaterThan(1)
    expect(await scene.rows(`select from intake.patients where id = 'p1'`)).toEqual([])
    expect(await scene.rows(`select from intake_ops.dead_letters`)).toHaveLength(dead)
    service.interfere = () => false
    expect(await verify('patients', '--repair')).toMatchObject({ code: 0, found: { ...found, repaired: 1 } })
    expect(await scene.rows(`select from intake.patients where id = 'p1'`)).toHaveLength(1)
  },
)

test('a log entry listed after the backfill is not overdue, though its time is just before', async () => {
  const entry = (id: string, created_at: string) => ({ id, event: 'e', status: 'pending', created_at })
  service.records.webhookDeliveries.push(entry('d1', at(-60_000)), entry('d2', at(-50_000)))
  const before = at(-2_000)
  await backfill('webhook_deliveries')
  service.records.webhookDeliveries.push(entry('d3', before))
  expect(await verify('webhook_deliveries')).toMatchObject({ code: 0, found: { missing: [] } })
  for (const table of ['intake.webhook_deliveries', 'intake_raw.records'])
    await scene.rows(`delete from ${table} where id = 'd2'`)
  expect(await verify('webhook_deliveries')).toMatchObject({ code: 4, found: { missing: ['d2'] } })
})

test('streams without a list are read again when something is loaded in between', async () => {
  const data = { id: 'k1', packet: 'k', is_submitted: false, form_index: 1, responses: [] }
  const event = { ...patientEvent('k1', 0), timestamp: at(-60_000), source: 'packet_response', data }
  const gone = { ...patientEvent('k2', 0, {}, { event_type: 'deleted' }), timestamp: at(-60_000) }
  await scene.store([event, { ...gone, source: 'packet_response' }])
  await scene.drain()
  const { client } = scene.session
  await client.query('begin')
  await client.query('lock table intake_ops.erasures in access exclusive mode')
  const verified = verify('packet_responses')
  const waiting = () =>
    scene.rows(
      `select from pg_locks join pg_database on database = pg_database.oid
       where not granted and datname = current_database()`,
    )
  // The payload has been read, the tables have not: now the next state is loaded.
  while ((await waiting()).length === 0) await systemClock.sleep(10)
  await scene.rows(
    `update intake_raw.records set version = $1, observed_at = $1, hash = '\\x02', as_it_came = null,
       payload = jsonb_set(payload, '{form_index}', '2') where id = 'k1'`,
    [at(-1_000)],
  )
  await scene.rows(
    `update intake.packet_responses target set _version = raw.version, _hash = raw.hash, form_index = 2, activity = 'progress',
       _loaded_at = now() from intake_raw.records raw where raw.id = target.id and raw.id = 'k1'`,
  )
  await client.query('commit')
  // A deleted record counts on neither side.
  expect(await verified).toMatchObject({ code: 0, found: { source: 1, warehouse: 1, different: [] } })
})
