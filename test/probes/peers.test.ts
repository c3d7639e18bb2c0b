/** Failures that users of comparable tools have published, each with the behaviour that is required here. */
import { expect, it } from 'vitest'
import { systemClock } from '../../src/core/clock.ts'
import { instantOf } from '../../src/core/time.ts'
import { json } from '../api/support/service.ts'
import { withoutPauses } from '../e2e/support/impatient.ts'
import { littlePatient, littlePatients, startLittleService } from '../e2e/support/little-service.ts'
import { connect, documentOf, openWarehouse, query } from '../e2e/support/scene.ts'
import { noonPlus, openClinicDrain, patientEvent } from '../ingest/drain/scene.ts'
import { eventOf, known, openScene, post, SECRET } from '../ingest/support/ingest.ts'
import { runCommand } from '../support/run-command.ts'

withoutPauses()

const bodyOf = (event: object) => Buffer.from(JSON.stringify(event))

/** An ingester, and a drain for each call: as opened by `serve`. */
async function openRoad() {
  const scene = await openScene()
  return {
    ...scene,
    send: (...events: readonly object[]) =>
      Promise.all(events.map((event) => post(scene.ingester.url, bodyOf(event)))),
    async drain() {
      await using drain = openClinicDrain(scene.url)
      await drain.idle()
    },
    people: () =>
      query<{ id: string; name: string | null; gone: boolean }>(
        scene.url,
        `select id, last_name as name, _deleted_at is not null as gone from intake.patients order by id`,
      ),
  }
}

it('no event of one record in the same second is dropped: each is stored, and the newest is shown', async () => {
  await using road = await openRoad()
  const second = noonPlus(5).slice(0, 19)
  const at = (micros: string, last_name: string) =>
    patientEvent('p1', 0, { last_name }, { timestamp: `${second}.${micros}Z` })
  // One after another, the newest in the middle; the last has exactly the stamp of the second.
  for (const event of [at('000001', 'a'), at('900000', 'newest'), at('500000', 'b'), at('500000', 'c')]) {
    const [answer] = await road.send(event)
    expect(answer).toMatchObject({ status: 200, body: { status: 'stored' } })
  }
  await road.drain()
  const stored = await query<{ status: string; events: number }>(
    road.url,
    'select status, count(*)::int as events from intake_raw.inbox group by 1',
  )
  expect(stored).toEqual([{ status: 'done', events: 4 }])
  expect(await road.people()).toEqual([{ id: 'p1', name: 'newest', gone: false }])
})

it('a delete is not undone by an older event, whether both are drained at once or one by one', async () => {
  await using road = await openRoad()
  const gone = (id: string) => ({ ...patientEvent(id, 9), event_type: 'deleted', data: { id } })
  await road.send(gone('p1'), gone('p2'))
  await road.drain()
  await road.send(patientEvent('p1', 8, { last_name: 'older' }), patientEvent('p3', 8), gone('p3'))
  await road.drain()
  await road.send(patientEvent('p2', 8, { last_name: 'older' }, { event_type: 'created' }))
  await road.drain()
  const tombs = ['p1', 'p2', 'p3'].map((id) => ({ id, name: null, gone: true }))
  expect(await road.people()).toEqual(tombs)
})

it('a stale page does not win over an event that arrived while it was in flight', async () => {
  await using road = await openRoad()
  await using service = await startLittleService(littlePatients(12))
  const env = { ...service.env, INTAKE_TEAM: 'clinic', DATABASE_URL: road.url }
  const backfill = () => runCommand(['backfill', '--streams', 'patients', '--json'], env)
  expect((await backfill()).code).toBe(0)
  let wasSent = false
  service.interfere = ({ url }, response) => {
    if (wasSent || !url.startsWith('/v2/patients?page=2')) return false
    wasSent = true
    // The page shows the state at its request; the event is about a later one.
    const stale = { count: 12, next: null, previous: null, results: service.records.patients.slice(10) }
    // By the clock that timed the request of the page: another may differ by some milliseconds.
    const timestamp = instantOf(systemClock.now())
    const changed = { ...littlePatient('p12', 'as the event has it'), updated_at: timestamp }
    service.records.patients[11] = changed
    const event = { ...patientEvent('p12', 0, changed), timestamp }
    void road
      .send(event)
      .then(() => road.drain())
      .then(() => json(response, stale))
    return true
  }
  expect((await backfill()).code).toBe(0)
  expect(wasSent).toBe(true)
  const people = await road.people()
  expect(people).toHaveLength(12)
  expect(people.find(({ id }) => id === 'p12')).toMatchObject({ name: 'as the event has it', gone: false })
})

it('a failed migration is reported by every command, with exit code 1 and no change', async () => {
  await using empty = await openWarehouse({ empty: true })
  await using service = await startLittleService()
  const env = { ...service.env, DATABASE_URL: empty.url }
  await query(empty.url, 'create schema intake; create table intake.documents (stranger text)')
  for (const words of [['migrate'], ['backfill'], ['serve', '--no-schedule']]) {
    const ended = await runCommand(words, env)
    expect(ended.code, words[0]).toBe(1)
    expect(ended.stderr).toMatch(/^error: migration 0004_\w+ failed: .*nothing was changed/m)
  }
  expect((await runCommand(['migrate', '--status'], env)).code).toBe(4)
  for (const words of [['status'], ['runs'], ['verify'], ['replay']]) {
    const ended = await runCommand(words, env)
    expect(ended, words[0]).toMatchObject({ code: 1 })
    expect(ended.stderr).toContain('run intake-sync migrate')
  }
  expect(service.received).toEqual([])
  const tables = await query(
    empty.url,
    `select table_schema || '.' || table_name as name from information_schema.tables where table_schema in ('intake', 'intake_raw')`,
  )
  expect(tables).toEqual([{ name: 'intake.documents' }])
})

it('there is no default key: until a secret is set nothing is accepted, whatever its signature', async () => {
  await using scene = await openScene({ teams: [{ name: 'clinic', teamId: 1, secrets: known() }] })
  const usual = ['', ' ', 'secret', 'changeme', 'admin', 'default', 'password', 'clinic', 'null', 'undefined']
  for (const secret of [...usual, SECRET]) {
    const answer = await post(scene.ingester.url, eventOf(), { secret })
    expect(answer.status, JSON.stringify(secret)).toBe(503)
    expect(answer.headers.get('retry-after')).toMatch(/^\d+$/)
  }
  expect(await query(scene.url, 'select from intake_raw.inbox')).toEqual([])
  // And without credentials it sends no request to a service.
  const ended = await runCommand(['backfill'], { DATABASE_URL: scene.url })
  expect(ended.code).toBe(2)
  expect(ended.stderr).toContain('INTAKE_API_KEY')
})

it('no well-known key is accepted in addition to the configured one', async () => {
  await using scene = await openScene()
  for (const secret of ['', ' ', 'secret', 'changeme', 'admin', 'default', SECRET.toUpperCase()])
    expect((await post(scene.ingester.url, eventOf(), { secret })).status).toBe(400)
  expect((await post(scene.ingester.url, eventOf())).status).toBe(200)
  expect(await query(scene.url, 'select from intake_raw.inbox')).toHaveLength(1)
})

it('a fault has the status of the side that must fix it, and not 400 for all', async () => {
  await using scene = await openScene({ limits: { body: 4_000, eventsInFlight: 2 } })
  const { url } = scene.ingester
  const status = async (...sent: Parameters<typeof post>) => (await post(...sent)).status
  // Faults of the sender.
  expect(await status(url, eventOf(), { headers: { 'x-service-signature': '' } })).toBe(400)
  expect(await status(url, eventOf(), { secret: 'another' })).toBe(400)
  expect(await status(url, eventOf(), { path: '/webhooks/nobody' })).toBe(404)
  expect(await status(url, eventOf({ data: { id: 'p', text: 'x'.repeat(5_000) } }))).toBe(413)
  // Genuine events are kept, whatever their content: a rejected one would be sent for ever, or be lost.
  for (const text of ['', '{', 'null', '{"event_type":"deleted","source":"patient","data":{}}'])
    expect(await status(url, Buffer.from(text))).toBe(200)
  // Faults of ours: to be sent again, with the time to wait.
  const blocker = await connect(scene.url)
  await blocker.query('begin; lock table intake_raw.inbox')
  const stored = [post(url, eventOf()), post(url, eventOf())]
  await expect.poll(() => scene.ingester.inFlight.events).toBe(2)
  const crowded = await post(url, eventOf())
  expect(crowded.status).toBe(503)
  await blocker.end()
  await Promise.all(stored)
  await expect.poll(() => scene.ingester.inFlight.events).toBe(0)
  await query(scene.url, 'alter table intake_raw.inbox rename to away')
  const away = await post(url, eventOf())
  expect(away.status).toBe(503)
  for (const answer of [crowded, away]) expect(answer.headers.get('retry-after')).toMatch(/^[1-9]\d*$/)
})

it('an id that is repeated in one batch stops nothing, on a page and among events: its newest state is loaded', async () => {
  await using road = await openRoad()
  const twice = (seconds: number, last_name: string) => patientEvent('p1', seconds, { last_name })
  const all = [twice(2, 'b'), twice(4, 'newest'), twice(3, 'c'), twice(1, 'a'), patientEvent('p2', 1)]
  await road.send(...all)
  await road.drain()
  expect(await road.people()).toEqual([
    { id: 'p1', name: 'newest', gone: false },
    { id: 'p2', name: 'Other', gone: false },
  ])

  await using service = await startLittleService(littlePatients(4))
  await using warehouse = await openWarehouse()
  const { patients } = service.records
  patients.push(patients[1]!, patients[0]!, littlePatient('p5', 'first'))
  for (const name of ['other', 'another', 'one more']) {
    for (const id of ['p2', 'p3', 'p4']) patients.push(littlePatient(id, `${name} ${id}`))
  }
  const run = await runCommand(['backfill', '--streams', 'patients', '--json'], {
    ...service.env,
    DATABASE_URL: warehouse.url,
  })
  // A list that contains a record twice is not stable; that is reported, and all of it is loaded.
  expect(run.code).toBe(4)
  expect(documentOf(run).streams.patients).toMatchObject({ dead_letters: 0, deleted: 0 })
  const rows = await query<{ id: string }>(warehouse.url, 'select id from intake.patients order by id')
  expect(rows.map(({ id }) => id)).toEqual(['p1', 'p2', 'p3', 'p4', 'p5'])
  // If the two differ, the answer by id decides.
  const names = await query(warehouse.url, 'select distinct last_name from intake.patients')
  expect(names).toEqual([{ last_name: 'first' }])
})

it.each<[string, (response: Parameters<typeof json>[0]) => void]>([
  ['is suddenly empty', (to) => json(to, { count: 0, next: null, previous: null, results: [] })],
  ['is refused', (to) => json(to, { detail: 'no' }, 403)],
  ['fails', (to) => json(to, { detail: 'no' }, 500)],
  ['holds no list', (to) => json(to, { detail: 'soon' })],
  ['is no JSON', (to) => to.writeHead(200, { 'content-type': 'text/html' }).end('<html>maintenance</html>')],
  [
    'is cut off',
    (to) => to.writeHead(200, { 'content-length': '900' }).end('{"count": 30, "results": [') && to.destroy(),
  ],
])('a scan whose list %s wipes no row', async (_, answer) => {
  await using service = await startLittleService(littlePatients(30))
  await using warehouse = await openWarehouse()
  const env = { ...service.env, DATABASE_URL: warehouse.url }
  const backfill = () =>
    runCommand(['backfill', '--streams', 'patients', '--json', '--allow-mass-delete'], env)
  const rowCounts = () =>
    query(
      warehouse.url,
      'select id, xmin::text, ctid::text from intake.patients where _deleted_at is null order by id',
    )
  expect((await backfill()).code).toBe(0)
  const before = await rowCounts()
  expect(before).toHaveLength(30)
  service.interfere = ({ url }, response) => {
    // Only lists: each record is returned by its id, as before.
    if (!/^\/v2\/patients(?:\?|$)/.test(url)) return false
    answer(response)
    return true
  }
  await backfill()
  expect(await rowCounts()).toEqual(before)
})

it('a run that the rate limit kept from its records is not successful, and ends if it would have to wait for hours', async () => {
  await using service = await startLittleService(littlePatients(30))
  await using warehouse = await openWarehouse()
  const env = { ...service.env, DATABASE_URL: warehouse.url }
  const backfill = () => runCommand(['backfill', '--json'], env)
  service.interfere = ({ url }, response) => {
    if (!url.startsWith('/v2/patients?page=2')) return false
    // Longer than a run waits: the rest of a daily quota.
    json(response, { detail: 'Request was throttled. Expected available in 7200 seconds.' }, 429)
    return true
  }
  const run = await backfill()
  expect(run.code).toBe(1)
  const { status, streams } = documentOf(run)
  expect(status).toBe('failed')
  // Streams that were not read by then wait for the same service, and fail too.
  expect(streams.patients).toMatchObject({ status: 'failed', note: expect.stringContaining('throttles') })
  for (const [name, stream] of Object.entries(streams))
    expect(stream.status, name).toBe(stream.note === null ? 'succeeded' : 'failed')
  const [row] = await query(warehouse.url, 'select status from intake_ops.runs order by run_id desc limit 1')
  expect(row).toEqual({ status: 'failed' })
  expect((await runCommand(['status', '--max-age', '1h'], env)).code).toBe(4)
  service.interfere = () => false
  expect((await backfill()).code).toBe(0)
  const [people] = await query(warehouse.url, 'select count(*)::int as people from intake.patients')
  expect(people).toEqual({ people: 30 })
})
