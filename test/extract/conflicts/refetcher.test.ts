/** Conflicting records are fetched by id, under the rules of the service, and the answer decides. */
import type http from 'node:http'
import pino from 'pino'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { systemClock } from '../../../src/core/clock.ts'
import { instantOf } from '../../../src/core/time.ts'
import { openRefetcher, type RefetcherOptions } from '../../../src/extract/conflicts/refetcher.ts'
import { openSession } from '../../../src/warehouse/connect.ts'
import { CLOCK_APART_MS, json } from '../../api/support/service.ts'
import { type LittleService, startLittleService } from '../../e2e/support/little-service.ts'
import { noonPlus, openScene, patient, patientEvent, type Scene, silent } from '../../ingest/drain/scene.ts'
import { openProxy } from '../../support/proxy.ts'
import { runCommand } from '../../support/run-command.ts'

let scene: Scene
let service: LittleService

beforeEach(async () => {
  scene = await openScene()
  service = await startLittleService()
  service.clockApartMs = CLOCK_APART_MS
})

afterEach(async () => {
  await service[Symbol.asyncDispose]()
  await scene[Symbol.asyncDispose]()
})

function open(options: Partial<RefetcherOptions> = {}) {
  return openRefetcher({
    url: scene.url,
    teams: [
      {
        ...{ name: 'default', teamId: scene.teamId, baseUrl: service.url, apiKey: 'k', apiSecret: 's' },
        ...{ apiVersion: 'v2.1', concurrency: 4 },
      },
    ],
    clock: systemClock,
    random: Math.random,
    logger: silent,
    watch: { refetched: () => {}, defect: () => {} },
    pollMs: 20,
    ...options,
  })
}

const hasty = {
  ...systemClock,
  sleep: (ms: number, signal?: AbortSignal) => systemClock.sleep(Math.min(ms, 20), signal),
}

/** Makes all pending refetches due; returns since when. */
async function hurry(): Promise<string | undefined> {
  const [row] = await scene.rows<{ since: string }>(
    'update intake_ops.refetches set due_at = now() returning due_at::text as since',
  )
  return row?.since
}

/** Looks for what is due once and after each round: whatever is due again a second later stays. */
const ONE_ROUND = { pollMs: 60_000 }

async function refetch(options: Partial<RefetcherOptions> = {}) {
  await hurry()
  await using refetcher = open(options)
  await refetcher.idle()
}

const storedPatients = () =>
  scene.rows('select id, last_name, _deleted_at is not null as gone from intake.patients order by id')

const now = () => instantOf(systemClock.now())

test("a conflicting record is fetched once, and becomes the service's answer", async () => {
  service.records.patients.push(patient('p1', { last_name: 'true' }))
  for (const name of ['b', 'a', 'c']) await scene.store([patientEvent('p1', 1, { last_name: name })])
  await scene.drain()
  expect(await scene.asked()).toEqual(['patients p1 contested'])
  const reported: unknown[] = []
  await refetch({ watch: { refetched: (...each) => reported.push(each), defect: () => {} } })
  expect(await scene.asked()).toEqual([])
  expect(await storedPatients()).toEqual([{ id: 'p1', last_name: 'true', gone: false }])
  expect(reported).toEqual([['default', 1, 0]])
  expect(await scene.rows('select origin from intake_raw.records')).toEqual([
    { origin: expect.stringMatching(/^event:event-\d+ refetch$/) },
  ])
})

test('records have times of the service, whose clock is measured again ten minutes later', async () => {
  /** Seconds by which the stored time of a record is ahead of our clock. */
  const ahead = async (id: string) => {
    const [row] = await scene.rows<{ ahead: number }>(
      `select extract(epoch from observed_at - clock_timestamp())::float8 as ahead from intake_raw.records where id = $1`,
      [id],
    )
    return row === undefined ? null : Math.round(row.ahead / 600) * 600
  }
  const ask = async (id: string) => {
    await scene.store([{ ...patientEvent(id, 1, {}, { event_type: 'deleted' }), timestamp: null }])
    await scene.drain()
    await hurry()
  }
  let later = 0
  await using refetcher = open({ clock: { ...systemClock, now: () => systemClock.now() + later } })
  service.clockApartMs = 7_200_000
  await ask('p1')
  await expect.poll(() => ahead('p1')).toBe(7_200)
  service.clockApartMs = 14_400_000
  later = 500_000_000
  await ask('p2')
  await expect.poll(() => ahead('p2')).toBe(7_800)
  later = 601_000_000
  service.records.patients.push(patient('p3'))
  await ask('p3')
  await expect.poll(() => ahead('p3')).toBe(14_400)
  expect(refetcher.trouble()).toBeNull()
})

describe('a warehouse that fails', () => {
  const partial = async () => {
    service.records.patients = [patient('p1', { last_name: 'whole' })]
    await scene.store([{ ...patientEvent('p1', 1), data: { id: 'p1' } }])
    await scene.drain()
    await hurry()
  }

  test('is the trouble until it answers again', async () => {
    await scene.rows('alter table intake_ops.refetches rename to away')
    await using refetcher = open()
    await expect.poll(() => refetcher.trouble()).toContain('the tables of the warehouse')
    await scene.rows('alter table intake_ops.away rename to refetches')
    await partial()
    await expect.poll(storedPatients).toEqual([{ id: 'p1', last_name: 'whole', gone: false }])
    expect(refetcher.trouble()).toBeNull()
  })

  test('in a round is reported, and tried again a second later', async () => {
    await partial()
    await scene.rows(
      `create function refuse() returns trigger language plpgsql as $$
       begin raise exception 'no' using errcode = '53100'; end $$`,
    )
    await scene.rows(
      'create trigger refuse before update on intake_ops.refetches for each row execute function refuse()',
    )
    const logged: string[] = []
    const logger = pino({ base: null }, { write: (line: string) => void logged.push(line) })
    let present = systemClock.now()
    const clock = { ...hasty, now: () => present }
    await using refetcher = open({ clock, logger })
    await expect.poll(() => refetcher.trouble()).toContain('the disk of the warehouse is full')
    // Within the second, nothing is tried.
    present += 999_999
    for (let looks = 0; looks < 5; looks++) await systemClock.sleep(20)
    const msg = expect.stringMatching(/^records cannot be fetched: the disk of the warehouse is full/)
    expect(logged.map((line) => JSON.parse(line))).toEqual([
      { level: 50, time: expect.any(Number), team: 'default', code: 'disk_full', msg },
    ])
    await scene.rows('drop function refuse cascade')
    present += 1_100_000
    refetcher.wake()
    await expect.poll(storedPatients).toEqual([{ id: 'p1', last_name: 'whole', gone: false }])
    await expect.poll(() => refetcher.trouble()).toBeNull()
  })
})

test('an event with only an id is completed from the service', async () => {
  service.records.patients.push(patient('p1', { last_name: 'whole' }))
  await scene.store([{ ...patientEvent('p1', 1), data: { id: 'p1' } }])
  await scene.drain()
  await refetch({ version: '1.2.3' })
  expect(await storedPatients()).toEqual([{ id: 'p1', last_name: 'whole', gone: false }])
  expect(service.received.map(({ headers }) => headers['user-agent'])).toEqual(['intake-sync/1.2.3'])
})

test('many records are fetched concurrently, each once', async () => {
  const ids = Array.from({ length: 120 }, (_, at) => `p${at}`)
  service.records.patients.push(...ids.map((id) => patient(id)))
  await scene.store(ids.map((id) => ({ ...patientEvent(id, 1), data: { id } })))
  await scene.drain()
  await refetch()
  expect((await storedPatients()).length).toBe(120)
  expect(service.received.length).toBe(120)
})

test('a conflicting record that is gone gets a tombstone, whether it is stored or was never seen', async () => {
  await scene.store([patientEvent('p1', 1, { last_name: 'a' })])
  await scene.drain()
  await scene.store([patientEvent('p1', 1, { last_name: 'b' })])
  await scene.store([{ ...patientEvent('p2', 1, {}, { event_type: 'deleted' }), timestamp: null }])
  await scene.drain()
  expect(await scene.asked()).toEqual(['patients p1 contested', 'patients p2 contested'])
  await refetch()
  expect(await storedPatients()).toEqual([
    { id: 'p1', last_name: null, gone: true },
    { id: 'p2', last_name: null, gone: true },
  ])
  expect(await scene.asked()).toEqual([])
})

/** Waits until the only record was requested this many times and the answer is settled. */
async function tried(times: number): Promise<void> {
  for (;;) {
    const [row] = await scene.rows<{ attempts: number }>('select attempts from intake_ops.refetches')
    if (row === undefined || row.attempts >= times) return
    await systemClock.sleep(10)
  }
}

test('a record of a partial event that never exists is counted and explained', async () => {
  await scene.store([{ ...patientEvent('p1', 1), data: { id: 'p1' } }])
  await scene.drain()
  const explain = async () => {
    const env = { DATABASE_URL: scene.url }
    const { stdout } = await runCommand(['explain', 'patients', 'p1', '--json'], env)
    return JSON.parse(stdout).events[0].told
  }
  expect(await explain()).toContain('waits to be fetched by its id, 0 attempt(s) so far')
  const refetcher = open()
  for (let times = 1; times <= 4; times++) {
    await hurry()
    await tried(times)
  }
  await refetcher.close()
  expect(await scene.asked()).toEqual([])
  expect(await storedPatients()).toEqual([])
  expect(await explain()).toContain('the service did not have it')
  expect(await scene.rows('select stream, path, reason, count::int from intake_ops.problems')).toEqual([
    { stream: 'patients', path: 'id', reason: 'of an event; the service has no such record', count: 1 },
  ])
})

test('a record of a partial event that is not found is fetched a few times, and then left to a scan', async () => {
  await scene.store([patientEvent('p1', 1, { email: 'a@example.com' })])
  await scene.store([{ ...patientEvent('p1', 2), data: { id: 'p1' } }])
  await scene.drain()
  for (let round = 0; round < 4; round++) {
    expect(await scene.asked()).toEqual(['patients p1 partial'])
    await hurry()
    await using _refetcher = open(ONE_ROUND)
    await tried(round + 1)
  }
  expect(await scene.asked()).toEqual([])
  expect(await storedPatients()).toMatchObject([{ id: 'p1', gone: false }])
})

test('failures of the service are no answers: a record is abandoned only after this many real ones', async () => {
  await scene.store([{ ...patientEvent('p1', 1), data: { id: 'p1' } }])
  await scene.drain()
  const counts = async () =>
    (
      await scene.rows<{ attempts: number; failures: number }>(
        'select attempts, failures from intake_ops.refetches',
      )
    )[0]
  const round = async () => {
    const before = await counts()
    await hurry()
    await using _refetcher = open({ clock: hasty })
    await expect.poll(counts).not.toEqual(before)
  }
  service.interfere = (_, response) => {
    json(response, { detail: 'Sorry.' }, 500)
    return true
  }
  for (let times = 1; times <= 5; times++) await round()
  const { failures, attempts: none } = (await counts())!
  // More where the machine stood still until one was due again.
  expect({ none, isMany: failures >= 5 }).toEqual({ none: 0, isMany: true })
  service.interfere = () => false
  for (let attempts = 1; attempts <= 3; attempts++) {
    await round()
    expect(await counts()).toEqual({ attempts, failures })
  }
  await round()
  expect(await counts()).toBeUndefined()
})

test('an answer that loses is requested again; a state dated ahead of the service is then overruled', async () => {
  service.records.patients.push(patient('p1', { last_name: 'true' }))
  const ahead = instantOf(systemClock.now() + 200_000_000)
  await scene.store([{ ...patientEvent('p1', 1, { last_name: 'ahead' }), timestamp: ahead }], {
    receivedAt: now(),
  })
  await scene.drain()
  await scene.store([patientEvent('p1', 1, { last_name: 'old' })])
  await scene.drain()
  for (let round = 1; round <= 3; round++) {
    expect(await storedPatients()).toMatchObject([{ last_name: 'ahead' }])
    await hurry()
    await using _refetcher = open(ONE_ROUND)
    await tried(round)
  }
  expect(await scene.asked()).toEqual([])
  expect(await storedPatients()).toMatchObject([{ last_name: 'true' }])
  expect(
    await scene.rows('select _version > $1::timestamptz as above from intake.patients', [ahead]),
  ).toEqual([{ above: true }])
})

test('a refetch requested while the answer is on its way is made again', async () => {
  service.records.patients.push(patient('p1', { last_name: 'before' }))
  const ask = async (name: string) => {
    await scene.store([{ ...patientEvent('p1', 1, { last_name: name }), data: { id: 'p1' } }])
    await scene.drain()
  }
  await ask('a')
  let answered = 0
  service.interfere = (_request, response) => {
    answered += 1
    if (answered > 1) return false
    const stale = { ...service.records.patients[0] }
    service.records.patients[0] = patient('p1', { last_name: 'after' })
    void ask('b').then(() => json(response, stale))
    return true
  }
  await refetch()
  expect(answered).toBe(2)
  expect(await storedPatients()).toMatchObject([{ last_name: 'after' }])
})

test('closing waits until the answers that have arrived are stored, those of every stream', async () => {
  service.records.patients.push(patient('p1'))
  service.records.responses.push(response('r1'))
  const partial = (source: string, id: string) => ({ ...patientEvent(id, 1), source, data: { id } })
  await scene.store([partial('patient', 'p1'), partial('response', 'r1')])
  await scene.drain()
  await hurry()
  await using other = await openSession({ url: scene.url, purpose: 'other' })
  await other.client.query('begin; lock table intake_raw.records in share mode')
  const refetcher = open()
  const waiting = `select from pg_locks join pg_database on pg_database.oid = database
    where datname = current_database() and not granted and relation = 'intake_raw.records'::regclass`
  await expect.poll(() => scene.rows(waiting)).toHaveLength(1)
  const closing = refetcher.close()
  await other.client.query('rollback')
  await closing
  expect(
    await scene.rows('select id from intake.patients union all select id from intake.responses order by 1'),
  ).toEqual([{ id: 'p1' }, { id: 'r1' }])
})

test('closing ends though Postgres no longer answers', async () => {
  await using proxy = await openProxy(scene.url)
  const refetcher = open({ url: proxy.through(scene.url), clock: hasty })
  await refetcher.idle()
  proxy.become({ kind: 'silent' })
  // By then it has looked for what is due.
  await systemClock.sleep(200)
  await refetcher.close()
})

test('a failing service gets the request again later, without a dead letter', async () => {
  service.records.patients.push(patient('p1'))
  await scene.store([{ ...patientEvent('p1', 1), data: { id: 'p1' } }])
  await scene.drain()
  const since = await hurry()
  service.interfere = (request, response) => {
    json(response, { detail: 'Sorry.' }, request.url.endsWith('p1') ? 500 : 200)
    return true
  }
  {
    await using refetcher = open({ clock: hasty })
    while (refetcher.trouble() === null) await systemClock.sleep(10)
    expect(refetcher.trouble()).toContain('500')
    expect(refetcher.trouble()).not.toContain('p1')
  }
  expect(
    await scene.rows(
      'select failures > 0 as tried, due_at > $1::timestamptz as later from intake_ops.refetches',
      [since],
    ),
  ).toEqual([{ tried: true, later: true }])
  expect(await scene.rows('select 1 from intake_ops.dead_letters')).toEqual([])
  await hurry()
  await using refetcher = open({ clock: hasty })
  while (refetcher.trouble() === null) await systemClock.sleep(10)
  service.interfere = () => false
  await hurry()
  await expect.poll(() => refetcher.trouble()).toBeNull()
  await refetcher.idle()
  expect(await storedPatients()).toMatchObject([{ id: 'p1' }])
})

test('invalid credentials leave the refetches pending, and are reported', async () => {
  await scene.store([{ ...patientEvent('p1', 1), data: { id: 'p1' } }])
  await scene.drain()
  await hurry()
  service.interfere = (_request, response) => {
    json(response, { detail: 'Invalid credentials.' }, 403)
    return true
  }
  let later = 0
  await using refetcher = open({ clock: { ...systemClock, now: () => systemClock.now() + later } })
  while (refetcher.trouble() === null) await systemClock.sleep(10)
  await refetcher.idle()
  expect(refetcher.trouble()).toMatch(/403/)
  await systemClock.sleep(200)
  expect(service.received.length).toBe(1)
  expect(await scene.asked()).toEqual(['patients p1 partial'])
  // After a minute they are tried again; once they are accepted there is no trouble.
  service.interfere = () => false
  service.records.patients.push(patient('p1'))
  later = 61_000_000
  await expect.poll(() => scene.asked()).toEqual([])
  await expect.poll(() => refetcher.trouble()).toBeNull()
})

const answering =
  (status: number, body: unknown = { detail: 'No.' }, headers = {}) =>
  (response: http.ServerResponse) =>
    json(response, body, status, headers)

function cut(response: http.ServerResponse): void {
  response.writeHead(200, { 'content-type': 'application/json', 'content-length': 5000 })
  response.write('{"id":"p1"')
  setTimeout(() => response.destroy(), 5)
}

describe('an answer by id', () => {
  let since: string | undefined

  /** Two records of a stream and one of another, all to be fetched; the answer is for `p1`. */
  async function fetchThree(answer: (response: http.ServerResponse) => void) {
    service.records.patients.push(patient('p1'), patient('p2'))
    service.records.forms.push({ id: 'f1', name: 'Form', questions: [] })
    await scene.store([
      ...['p1', 'p2'].map((id) => ({ ...patientEvent(id, 1), data: { id } })),
      { ...patientEvent('f1', 1), source: 'form', data: { id: 'f1' } },
    ])
    await scene.drain()
    service.interfere = ({ url }, response) => {
      if (!url.endsWith('/p1')) return false
      answer(response)
      return true
    }
    since = await hurry()
  }

  const state = async () => ({
    asked: await scene.rows(
      `select id, attempts, failures, due_at <= now() as due, due_at > $1::timestamptz as later
       from intake_ops.refetches order by id`,
      [since],
    ),
    deadLetters: await scene.rows('select record_id, reason from intake_ops.dead_letters'),
    forms: (await scene.rows('select id from intake.forms')).length,
  })

  test.each([
    ['401', answering(401), 'INTAKE_API_KEY', 'no_credentials'],
    ['403', answering(403), 'INTAKE_API_KEY', 'bad_credentials'],
    ['405', answering(405), '`paths`', 'not_allowed'],
    [
      'a redirect',
      answering(307, {}, { location: 'http://elsewhere.invalid/' }),
      'INTAKE_BASE_URL',
      'redirected',
    ],
  ])('that is %s stops the stream, with a hint; its refetches stay due', async (_, answer, hint, code) => {
    await fetchThree(answer)
    const logged: string[] = []
    const logger = pino({ base: null, timestamp: false }, { write: (line) => void logged.push(line) })
    await using refetcher = open({ logger })
    await expect.poll(() => refetcher.trouble()).toContain(hint)
    await refetcher.idle()
    const seen = (id = 'p1') => service.received.filter(({ url }) => url.endsWith(`/${id}`)).length
    expect(seen()).toBe(1)
    // Refused credentials stop every stream of the team, another answer this one.
    const others = hint === 'INTAKE_API_KEY' ? 0 : 1
    service.records.forms.push({ id: 'f2', name: 'Form', questions: [] })
    await scene.store([{ ...patientEvent('f2', 1), source: 'form', data: { id: 'f2' } }])
    await scene.drain()
    await hurry()
    await expect.poll(async () => (await state()).forms).toBe(1 + others)
    await systemClock.sleep(200)
    expect([seen(), seen('f2')]).toEqual([1, others])
    const { asked, deadLetters } = await state()
    expect(deadLetters).toEqual([])
    expect(asked).toMatchObject([
      ...(others === 0 ? [{ id: 'f2', attempts: 0, due: true }] : []),
      { id: 'p1', attempts: 0, failures: 0, due: true },
      { id: 'p2', attempts: 0, failures: 0, due: true },
    ])
    expect(refetcher.trouble()).toContain(hint)
    const msg = `records cannot be fetched: ${refetcher.trouble()}`
    expect(logged.map((line) => JSON.parse(line))).toEqual([
      { level: 50, team: 'default', stream: 'patients', code, msg },
    ])
  })

  test.each([
    ['500', answering(500)],
    ['cut off', cut],
  ])('that is %s is requested again later, and stops nothing', async (_, answer) => {
    await fetchThree(answer)
    {
      await using _refetcher = open({ clock: hasty })
      await expect.poll(async () => (await state()).asked[0]?.failures).toBeGreaterThan(0)
    }
    const { asked, deadLetters, forms } = await state()
    expect([deadLetters, forms]).toEqual([[], 1])
    expect(asked).toMatchObject([{ id: 'p1', attempts: 0, later: true }])
    service.interfere = () => false
    await refetch()
    expect((await storedPatients()).map(({ id }) => id)).toEqual(['p1', 'p2'])
  })

  // Any other answer: fetch-by-id.test.ts has its meaning.
  test('that is 404 leaves a record of a partial event to a scan', async () => {
    await fetchThree(answering(404))
    await using _refetcher = open(ONE_ROUND)
    await expect.poll(async () => (await state()).asked[0]?.attempts).toBe(1)
    expect(await state()).toMatchObject({ deadLetters: [], forms: 1 })
    expect((await storedPatients()).map(({ id }) => id)).toEqual(['p2'])
  })

  test.each([
    ['400', answering(400), 'the service does not give the record by its id (400)'],
    ['another record', answering(200, patient('p9')), 'the record fetched by id has another id'],
  ])('that is %s is a dead letter', async (_, answer, reason) => {
    await fetchThree(answer)
    await refetch({ clock: hasty })
    expect(await state()).toEqual({ asked: [], deadLetters: [{ record_id: 'p1', reason }], forms: 1 })
    expect((await storedPatients()).map(({ id }) => id)).toEqual(['p2'])
  })

  test('of a retried dead letter stops and waits like any other', async () => {
    await fetchThree(answering(400))
    await refetch()
    const retried = await runCommand(['dead-letters', 'retry', '--all'], { DATABASE_URL: scene.url })
    expect(retried.code).toBe(0)
    service.interfere = ({ url }, response) => {
      if (url.endsWith('/p1')) json(response, {}, 405)
      return url.endsWith('/p1')
    }
    await hurry()
    await using refetcher = open()
    await expect.poll(() => refetcher.trouble()).toContain('405')
    expect(await scene.rows(`select 1 from intake_ops.dead_letters where status = 'waiting'`)).toEqual([])
    expect(await scene.asked()).toEqual(['patients p1 contested'])
  })
})

test('a record that the service refuses, or an answer with another record, becomes a dead letter', async () => {
  service.records.patients.push(patient('p2'))
  await scene.store(['p1', 'p2', '..'].map((id) => ({ ...patientEvent(id, 1), data: { id } })))
  await scene.drain()
  service.interfere = (request, response) => {
    if (request.url.endsWith('p1')) json(response, { detail: 'Bad.' }, 400)
    else json(response, patient('somebody'))
    return true
  }
  await refetch()
  expect(await scene.asked()).toEqual([])
  expect(
    await scene.rows('select stream, record_id, reason from intake_ops.dead_letters order by record_id'),
  ).toEqual([
    { stream: 'patients', record_id: '..', reason: 'the service does not give the record by its id' },
    { stream: 'patients', record_id: 'p1', reason: 'the service does not give the record by its id (400)' },
    { stream: 'patients', record_id: 'p2', reason: 'the record fetched by id has another id' },
  ])
})

test('a record that the warehouse rejects becomes a dead letter, the others of its answer are loaded', async () => {
  await scene.session.client.query(
    `alter table intake.patients add constraint picky check (last_name <> 'refused')`,
  )
  service.records.patients.push(patient('p1'), patient('p2', { last_name: 'refused' }), patient('p3'))
  await scene.store(['p1', 'p2', 'p3'].map((id) => ({ ...patientEvent(id, 1), data: { id } })))
  await scene.drain()
  await refetch()
  expect((await storedPatients()).map(({ id }) => id)).toEqual(['p1', 'p3'])
  expect(await scene.rows('select record_id, reason from intake_ops.dead_letters')).toEqual([
    { record_id: 'p2', reason: 'the warehouse refused the record (SQLSTATE 23514)' },
  ])
})

function packetEvent(id: string, seconds: number, data: object) {
  const whole = {
    id,
    packet: { id: 'k1' },
    is_submitted: false,
    form_index: null,
    responses: ['r1', 'r2'],
    ...data,
  }
  return { ...patientEvent(id, seconds), source: 'packet_response', data: whole }
}

function response(id: string, fields: object = {}) {
  const asked = {
    patient: { id: 'p1' },
    form: { id: 'f1' },
    form_name: 'Intake',
    packet: { id: 'k1' },
    document: null,
  }
  const state = { is_submitted: false, is_skipped: false, is_archived: false, submitted_at: null }
  return { id, ...asked, ...state, created_at: noonPlus(0), updated_at: noonPlus(0), answers: [], ...fields }
}

test('the members of a submitted packet are fetched for their is_skipped; set-up and progress fetch none', async () => {
  await scene.store(
    ['r1', 'r2'].map((id) => ({ ...patientEvent(id, 1), source: 'response', data: response(id) })),
  )
  await scene.store([packetEvent('k', 1, {}), packetEvent('k', 2, { form_index: 1 })])
  await scene.drain()
  expect(await scene.asked()).toEqual([])
  expect(await scene.rows('select activity, packet_id from intake.packet_responses')).toEqual([
    { activity: 'progress', packet_id: 'k1' },
  ])
  await scene.store([packetEvent('k', 3, { is_submitted: true, submitted_at: noonPlus(3), form_index: 2 })])
  await scene.drain()
  expect(await scene.asked()).toEqual(['responses r1 member', 'responses r2 member'])
  service.records.responses.push(
    response('r1', { is_submitted: true }),
    response('r2', { is_submitted: true, is_skipped: true }),
  )
  await refetch()
  expect(await scene.rows('select id, is_submitted, is_skipped from intake.responses order by id')).toEqual([
    { id: 'r1', is_submitted: true, is_skipped: false },
    { id: 'r2', is_submitted: true, is_skipped: true },
  ])
  expect(
    await scene.rows('select position, response_id from intake.packet_response_members order by 1'),
  ).toEqual([
    { position: 1, response_id: 'r1' },
    { position: 2, response_id: 'r2' },
  ])
})

test('a member whose own event reported the submission is not fetched, whichever came first', async () => {
  const stamped = { is_submitted: true, submitted_at: noonPlus(3), updated_at: noonPlus(3) }
  const own = (id: string) => ({ ...patientEvent(id, 3), source: 'response', data: response(id, stamped) })
  await scene.store([own('r1')])
  await scene.drain()
  await scene.store([packetEvent('k', 4, stamped)])
  await scene.drain()
  expect(await scene.asked()).toEqual(['responses r2 member'])
  await scene.store([own('r2')])
  await scene.drain()
  await refetch()
  expect(await scene.asked()).toEqual([])
  expect(service.received.length).toBe(0)
})

test('a member with a partial event too is fetched, though it is stored as submitted by then', async () => {
  const of = (seconds: number, data: object) => ({ ...patientEvent('r1', seconds), source: 'response', data })
  const reported = { is_submitted: true, submitted_at: noonPlus(5), responses: ['r1'] }
  await scene.store([packetEvent('k', 5, reported)])
  await scene.drain()
  await scene.store([of(6, { id: 'r1' })])
  await scene.drain()
  await scene.store([of(7, response('r1', { is_submitted: true }))])
  await scene.drain()
  service.records.responses.push(response('r1', { is_submitted: true, is_archived: true }))
  await refetch()
  expect(service.received.length).toBe(1)
  expect(await scene.rows('select is_archived from intake.responses')).toEqual([{ is_archived: true }])
})

test('a late submission fetches the members that are not stored as submitted since', async () => {
  const event = (id: string, seconds: number, fields: object) => ({
    ...patientEvent(id, seconds),
    source: 'response',
    data: response(id, fields),
  })
  await scene.store([event('r1', 10, { is_submitted: true }), event('r2', 30, {})])
  const reported = { is_submitted: true, submitted_at: noonPlus(5), responses: ['r1', 'r2', 'r3'] }
  await scene.store([packetEvent('k', 50, reported)])
  await scene.drain()
  expect(await scene.asked()).toEqual(['responses r2 member', 'responses r3 member'])
  await scene.store([event('r2', 60, { is_submitted: true })])
  await scene.drain()
  service.records.responses.push(response('r3', { is_submitted: true, is_skipped: true }))
  await hurry()
  await refetch()
  expect(service.received.map(({ url }) => url)).toEqual([expect.stringContaining('r3')])
  expect(await scene.asked()).toEqual([])
})

test('if two states of a packet response have one time, the later updated_at wins; it cannot be fetched by id', async () => {
  const reported = (name: string, updated: number) => ({
    ...packetEvent('k', 1, { updated_at: noonPlus(updated), is_archived: name === 'b' }),
    id: 'retried',
  })
  await scene.store([reported('b', 5), reported('a', 4)])
  await scene.drain()
  expect(await scene.rows('select is_archived from intake.packet_responses')).toEqual([{ is_archived: true }])
  expect(await scene.asked()).toEqual([])
})

test('a packet response without a time is ordered by updated_at; a partial one becomes a dead letter', async () => {
  await scene.store([
    { ...packetEvent('k', 1, { updated_at: noonPlus(5), form_index: 2 }), timestamp: null },
    { ...packetEvent('k', 1, { updated_at: noonPlus(4), form_index: 1 }), timestamp: 'x' },
    { ...packetEvent('m', 1, {}), timestamp: null },
    { ...packetEvent('n', 1, {}), data: { id: 'n', form_index: 1 } },
  ])
  await scene.drain()
  expect(await scene.rows('select id, form_index from intake.packet_responses order by id')).toEqual([
    { id: 'k', form_index: 2 },
    { id: 'm', form_index: null },
  ])
  expect(await scene.rows('select stream, record_id, reason from intake_ops.dead_letters')).toEqual([
    {
      stream: 'packet_responses',
      record_id: 'n',
      reason: 'an event with a part of a record that cannot be fetched by id',
    },
  ])
})
