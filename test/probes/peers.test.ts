/** Failures that users of comparable tools have published, each as what must hold here in its place. */
import { expect, it } from 'vitest'
import { systemClock } from '../../src/core/clock.ts'
import { instantOf } from '../../src/core/time.ts'
import { json } from '../api/support/service.ts'
import { withoutPauses } from '../e2e/support/impatient.ts'
import { littlePatient, littlePatients, startLittleService } from '../e2e/support/little-service.ts'
import { documentOf, openWarehouse, query } from '../e2e/support/scene.ts'
import { noonPlus, openClinicDrain, patientEvent } from '../ingest/drain/scene.ts'
import { eventOf, known, openScene, post, SECRET } from '../ingest/support/ingest.ts'
import { openRaw } from '../ingest/support/raw.ts'
import { runCommand } from '../support/run-command.ts'

withoutPauses()

const bodyOf = (event: object) => Buffer.from(JSON.stringify(event))

/** An ingester, and a drain that is made for each time that is drained: what `serve` opens. */
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

it('events of one record in the same second are none dropped: each is stored, and the newest is what is shown', async () => {
  await using road = await openRoad()
  const second = noonPlus(5).slice(0, 19)
  const at = (micros: string, last_name: string) =>
    patientEvent('p1', 0, { last_name }, { timestamp: `${second}.${micros}Z` })
  // One after the other, the newest in the middle; the last has the very stamp of the second.
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

it('a stale page does not beat an event that came while it was on its way', async () => {
  await using road = await openRoad()
  await using service = await startLittleService(littlePatients(12))
  const env = { ...service.env, INTAKE_TEAM: 'clinic', DATABASE_URL: road.url }
  const backfill = () => runCommand(['backfill', '--streams', 'patients', '--json'], env)
  expect((await backfill()).code).toBe(0)
  let told = false
  service.interfere = ({ url }, response) => {
    if (told || !url.startsWith('/v2/patients?page=2')) return false
    told = true
    // The page is what the service held when it was asked for; the event tells of what came after.
    const stale = { count: 12, next: null, previous: null, results: service.records.patients.slice(10) }
    // By the clock that says when the page was asked for: another may be some milliseconds off.
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
  expect(told).toBe(true)
  const people = await road.people()
  expect(people).toHaveLength(12)
  expect(people.find(({ id }) => id === 'p12')).toMatchObject({ name: 'as the event has it', gone: false })
})

it('a migration that fails is said by every command, with exit code 1 and nothing changed', async () => {
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
    expect(ended.stderr).toContain('run: intake-sync migrate')
  }
  expect(service.received).toEqual([])
  const tables = await query(
    empty.url,
    `select table_schema || '.' || table_name as name from information_schema.tables where table_schema in ('intake', 'intake_raw')`,
  )
  expect(tables).toEqual([{ name: 'intake.documents' }])
})

it('there is no default key: until a secret is set nothing is taken, whatever it is signed with', async () => {
  await using scene = await openScene({ teams: [{ name: 'clinic', teamId: 1, secrets: known() }] })
  const usual = ['', ' ', 'secret', 'changeme', 'admin', 'default', 'password', 'clinic', 'null', 'undefined']
  for (const secret of [...usual, SECRET]) {
    const answer = await post(scene.ingester.url, eventOf(), { secret })
    expect(answer.status, JSON.stringify(secret)).toBe(503)
    expect(answer.headers.get('retry-after')).toMatch(/^\d+$/)
  }
  expect(await query(scene.url, 'select from intake_raw.inbox')).toEqual([])
  // And with no credentials of its own the program asks no service.
  const ended = await runCommand(['backfill'], { DATABASE_URL: scene.url })
  expect(ended.code).toBe(2)
  expect(ended.stderr).toContain('INTAKE_API_KEY')
})

it('no usual key is taken beside the one that is set', async () => {
  await using scene = await openScene()
  for (const secret of ['', ' ', 'secret', 'changeme', 'admin', 'default', SECRET.toUpperCase()])
    expect((await post(scene.ingester.url, eventOf(), { secret })).status).toBe(400)
  expect((await post(scene.ingester.url, eventOf())).status).toBe(200)
  expect(await query(scene.url, 'select from intake_raw.inbox')).toHaveLength(1)
})

it('a fault has the status of whoever has to hint it, and not 400 for all', async () => {
  await using scene = await openScene({ limits: { body: 4_000, eventsInFlight: 2 } })
  const { url } = scene.ingester
  const status = async (...sent: Parameters<typeof post>) => (await post(...sent)).status
  // What the sender has to change.
  expect(await status(url, eventOf(), { headers: { 'x-service-signature': '' } })).toBe(400)
  expect(await status(url, eventOf(), { secret: 'another' })).toBe(400)
  expect(await status(url, eventOf(), { path: '/webhooks/nobody' })).toBe(404)
  expect(await status(url, eventOf({ data: { id: 'p', text: 'x'.repeat(5_000) } }))).toBe(413)
  // What is genuine is kept, whatever it says: to refuse it would have it sent for ever, or lose it.
  for (const text of ['', '{', 'null', '{"event_type":"deleted","source":"patient","data":{}}'])
    expect(await status(url, Buffer.from(text))).toBe(200)
  // What is ours to hint: to be sent again, with the time to wait.
  const silentOnes = [await openRaw(url), await openRaw(url)]
  for (const raw of silentOnes)
    raw.write('POST /webhooks HTTP/1.1\r\nHost: here\r\nContent-Length: 9\r\n\r\n')
  await expect.poll(() => scene.ingester.inFlight.events).toBe(2)
  const crowded = await post(url, eventOf())
  expect(crowded.status).toBe(503)
  for (const raw of silentOnes) await raw[Symbol.asyncDispose]()
  await expect.poll(() => scene.ingester.inFlight.events).toBe(0)
  await query(scene.url, 'alter table intake_raw.inbox rename to away')
  const away = await post(url, eventOf())
  expect(away.status).toBe(503)
  for (const answer of [crowded, away]) expect(answer.headers.get('retry-after')).toMatch(/^[1-9]\d*$/)
})

it('an id that comes several times in one batch stops nothing, on a page and among events: its newest state is loaded', async () => {
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
  // A list that names a record twice is no steady list; it is said, and all of it is loaded.
  expect(run.code).toBe(4)
  expect(documentOf(run).streams.patients).toMatchObject({ dead_letters: 0, deleted: 0 })
  const rows = await query<{ id: string }>(warehouse.url, 'select id from intake.patients order by id')
  expect(rows.map(({ id }) => id)).toEqual(['p1', 'p2', 'p3', 'p4', 'p5'])
  // Where the two differ, the answer to its id decides.
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
  const held = () =>
    query(
      warehouse.url,
      'select id, xmin::text, ctid::text from intake.patients where _deleted_at is null order by id',
    )
  expect((await backfill()).code).toBe(0)
  const before = await held()
  expect(before).toHaveLength(30)
  service.interfere = ({ url }, response) => {
    // Only lists: each record is given by its id, as before.
    if (!/^\/v2\/patients(?:\?|$)/.test(url)) return false
    answer(response)
    return true
  }
  await backfill()
  expect(await held()).toEqual(before)
})

it('a run that the rate limit kept from its records is not marked good, and ends when it would have to wait for hours', async () => {
  await using service = await startLittleService(littlePatients(30))
  await using warehouse = await openWarehouse()
  const env = { ...service.env, DATABASE_URL: warehouse.url }
  const backfill = () => runCommand(['backfill', '--json'], env)
  service.interfere = ({ url }, response) => {
    if (!url.startsWith('/v2/patients?page=2')) return false
    // Longer than anybody waits in a run: the rest of a daily quota.
    json(response, { detail: 'Request was throttled. Expected available in 7200 seconds.' }, 429)
    return true
  }
  const run = await backfill()
  expect(run.code).toBe(1)
  const { status, streams } = documentOf(run)
  expect(status).toBe('failed')
  // Streams that had not been read by then wait for the same service, and are not good either.
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
