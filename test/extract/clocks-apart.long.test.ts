/**
 * Processes with different bounds of the service's clock, one after the other and concurrently: each process knows that
 * clock to a second, from below, on its own.
 */
import type { ServerResponse } from 'node:http'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { systemClock } from '../../src/core/clock.ts'
import { instantOf } from '../../src/core/time.ts'
import { openRefetcher } from '../../src/extract/conflicts/refetcher.ts'
import { json } from '../api/support/service.ts'
import { type LittleRecord, type LittleService, startLittleService } from '../e2e/support/little-service.ts'
import { openScene, patient, patientEvent, type Scene, silent } from '../ingest/drain/scene.ts'
import { runCommand } from '../support/run-command.ts'

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

async function backfill(stream = 'patients', expected = 0): Promise<string> {
  const env = { ...service.env, DATABASE_URL: scene.url, LOG_LEVEL: 'error' }
  const ended = await runCommand(['backfill', '--json', '--streams', stream], env)
  expect(ended.code, ended.output).toBe(expected)
  return ended.stdout
}

const now = () => instantOf(systemClock.now())

const named = async (id = 'p1') => {
  const [row] = await scene.rows<{ name: string | null }>(
    'select last_name as name from intake.patients where id = $1',
    [id],
  )
  return row?.name
}

const isAbout = (id: string, url: string) => url.endsWith(`/${id}`)

/** Loads an event about p1 before it resolves. */
async function loadEvent(lastName: string, timestamp: string, envelope: object = {}): Promise<void> {
  const event = patientEvent('p1', 0, { last_name: lastName }, { timestamp, ...envelope })
  await scene.store([event], { receivedAt: now() })
  await scene.drain()
}

/** The time in every answer, cut to seconds as in `Date`; in milliseconds. */
function dated(milliseconds: number, response?: ServerResponse): number {
  const second = Math.floor(milliseconds / 1000) * 1000
  const date = new Date(second).toUTCString()
  response?.setHeader('date', date)
  if (response === undefined) {
    service.interfere = (_, each) => {
      each.setHeader('date', date)
      return false
    }
  }
  return second
}

test('an event from the second before a page was read, which arrives later, makes the record conflict', async () => {
  const second = dated(Date.now())
  await backfill()
  expect(await scene.asked()).toEqual([])
  await loadEvent('older', instantOf((second + 900) * 1000))
  expect(await scene.asked()).toEqual(['patients p1 contested'])
})

test('so does a delete from the second before the record was read', async () => {
  const second = dated(Date.now())
  await backfill()
  await loadEvent('', instantOf((second + 900) * 1000), { event_type: 'deleted' })
  expect(await scene.asked()).toEqual(['patients p1 contested'])
})

test('an event from well after a page, or one with the same content, causes no conflict', async () => {
  const second = dated(Date.now())
  await backfill()
  await loadEvent('first', instantOf((second + 900) * 1000))
  await loadEvent('later', instantOf((second + 4_000) * 1000))
  expect(await named()).toBe('later')
  expect(await scene.asked()).toEqual([])
})

test('an answer by id that is delayed while a run loads a newer state does not decide', async () => {
  const part = { ...patientEvent('p1', 1), data: { id: 'p1' } }
  await scene.store([part])
  await scene.drain()
  const second = dated(Date.now())
  let answered = 0
  service.interfere = ({ url }, response) => {
    if (!isAbout('p1', url)) {
      dated(second, response)
      return false
    }
    answered += 1
    if (answered > 1) return false
    const stale = service.records.patients[0]
    service.records.patients[0] = patient('p1', { last_name: 'newer' })
    void (async () => {
      await backfill()
      await systemClock.sleep(1_100)
      // This bound is the better one: its request was sent before the page, and its date is later.
      dated(second + 2_000, response)
      json(response, stale)
    })()
    return true
  }
  const own = { name: 'default', teamId: scene.teamId, baseUrl: service.url, apiKey: 'k', apiSecret: 's' }
  await using refetcher = openRefetcher({
    ...{ url: scene.url, teams: [{ ...own, apiVersion: 'v2.1', concurrency: 4 }] },
    ...{
      clock: systemClock,
      random: Math.random,
      logger: silent,
      watch: { refetched: () => {}, defect: () => {} },
      pollMs: 20,
    },
  })
  await refetcher.idle()
  expect(answered).toBe(2)
  expect(await named()).toBe('newer')
})

test('a state that an event brings during the last fetch of a run is not overruled by the answer', async () => {
  await backfill()
  let asked = 0
  service.interfere = ({ url }, response) => {
    if (!isAbout('p1', url)) return false
    asked += 1
    const stale = { ...service.records.patients[0] }
    service.records.patients[0] = patient('p1', { last_name: `change ${asked}` })
    void loadEvent(`change ${asked}`, now()).then(() => json(response, stale))
    return true
  }
  const exportState = `update intake_raw.records set version = now() + interval '0.8 seconds' where id = 'p1' returning id`
  expect(await scene.rows(exportState)).toEqual([{ id: 'p1' }])
  service.records.patients[0] = patient('p1', { last_name: 'second' })
  await backfill()
  // Four times for the page, and possibly once for the events.
  expect(asked).toBeGreaterThanOrEqual(4)
  expect(await named()).toBe(`change ${asked}`)
})

test('a page that wins over an event which arrived while it was read conflicts, however far apart the clocks are', async () => {
  const ahead = 30_000
  dated(Date.now() + ahead)
  await backfill()
  const earlier = `update intake_raw.records set version = version - interval '1 minute', observed_at = observed_at - interval '1 minute'
    returning id`
  expect(await scene.rows(earlier)).toHaveLength(2)
  service.interfere = ({ url }, response) => {
    dated(Date.now() + ahead, response)
    if (isAbout('p1', url)) return false
    const results = [patient('p1', { last_name: 'of the page' }), service.records.patients[1]]
    // A retried event, with newer data under its old time.
    service.records.patients[0] = patient('p1', { last_name: 'newest' })
    void (async () => {
      await loadEvent('newest', instantOf(systemClock.now() + (ahead - 20_000) * 1000))
      json(response, { count: 2, next: null, previous: null, results })
    })()
    return true
  }
  await backfill()
  expect(service.received.filter(({ url }) => isAbout('p1', url))).not.toEqual([])
  expect(await named()).toBe('newest')
})

/** As if the previous run had a later bound of the clock, by the fraction of a second. */
const readLater = (stream: string) =>
  scene.rows(
    `update intake_raw.records set observed_at = observed_at + interval '0.8 seconds',
       version = case version when observed_at then version + interval '0.8 seconds' else version end
     where stream = $1 returning id`,
    [stream],
  )

test('a log entry that changed is as the later run read it, with or without a time', async () => {
  const entry = (id: string, fields: object): LittleRecord => {
    return { id, event: 'e', event_type: 'patient.updated', status: 'pending', ...fields }
  }
  const entries = [entry('d1', { created_at: '2026-01-01T00:00:00Z', attempts: 1 }), entry('d2', {})]
  service.records.webhookDeliveries.push(...entries)
  await backfill('webhook_deliveries')
  expect(await readLater('webhook_deliveries')).toHaveLength(2)
  service.records.webhookDeliveries.splice(0, 2, ...entries.map((each) => ({ ...each, status: 'done' })))
  await backfill('webhook_deliveries')
  expect(await scene.rows('select id, status from intake.webhook_deliveries order by id')).toEqual([
    { id: 'd1', status: 'done' },
    { id: 'd2', status: 'done' },
  ])
  const versions = 'select id, xmin::text from intake_raw.records order by id'
  const before = await scene.rows(versions)
  await backfill('webhook_deliveries')
  expect(await scene.rows(versions)).toEqual(before)
})

test('a record that changed, or was deleted, within the second is as the later run read it, exports included', async () => {
  const exported = (id: string, name: string) => ({
    id,
    name,
    form: null,
    created_at: '2026-01-01T00:00:00Z',
  })
  const list = service.records.exports
  const file =
    'Client ID,First Name,Last Name,Email,Sent at,Completed at,Archived\np,A,B,a@b.example,,,False\n'
  service.interfere = ({ method }, response) => {
    if (method === 'POST') response.writeHead(200, { 'content-type': 'text/plain' }).end(file)
    return method === 'POST'
  }
  list.push(exported('e1', 'first'), exported('e2', 'first'))
  const exportState = () =>
    scene.rows(`select id, name, _deleted_at is not null as gone,
      (select count(*)::int from intake.export_rows where export_id = id) as rows from intake.exports order by id`)
  const night = async () => {
    await backfill('patients,exports')
    await readLater('patients')
    await readLater('exports')
  }
  await night()
  service.records.patients[0] = patient('p1', { last_name: 'second' })
  service.records.patients.pop()
  list.splice(0, 2, exported('e1', 'second'))
  await night()
  expect(
    await scene.rows(
      'select id, last_name as name, _deleted_at is not null as gone from intake.patients order by id',
    ),
  ).toEqual([
    { id: 'p1', name: 'second', gone: false },
    { id: 'p2', name: null, gone: true },
  ])
  expect(await exportState()).toMatchObject([{ name: 'second' }, { name: 'first', gone: false }])
  service.records.patients.push(patient('p2', { last_name: 'again' }))
  await night()
  expect(await named('p2')).toBe('again')
  expect(await exportState()).toMatchObject([{ gone: false }, { name: null, gone: true, rows: 0 }])
  list.push(exported('e2', 'again'))
  await night()
  expect(await exportState()).toMatchObject([{ rows: 1 }, { name: 'again', gone: false, rows: 1 }])
})

test('a response of this second, which one run takes for the newest, does not make the next distrust the filter', async () => {
  const second = dated(Date.now())
  const at = instantOf(second * 1000)
  const stamps = { submitted_at: at, created_at: at, updated_at: at }
  service.records.responses.push({ id: 'r1', patient: 'p1', form: 'f', is_submitted: true, ...stamps })
  await backfill('responses')
  dated(second - 1_000)
  expect(JSON.parse(await backfill('responses'))).toMatchObject({ streams: { responses: { note: null } } })
})

test('a record that changed again within the second of its stamp is fetched, though its list entry is the same', async () => {
  const entry = { id: 'f1', name: 'Form', updated_at: `${new Date().toISOString().slice(0, 19)}Z` }
  const whole = (text: string) => ({ ...entry, questions: [{ id: 'q1', text }] })
  const texts = () => scene.rows('select text from intake.form_questions')
  service.interfere = ({ url }, response) => {
    if (isAbout('f1', url)) return false
    json(response, { count: 1, next: null, previous: null, results: [entry] })
    return true
  }
  service.records.forms.push(whole('before'))
  await backfill('forms')
  expect(await texts()).toEqual([{ text: 'before' }])
  service.records.forms[0] = whole('after')
  await backfill('forms')
  expect(await texts()).toEqual([{ text: 'after' }])
})

/** One export, which the warehouse rejects under the name `second`; the service is so many milliseconds ahead. */
async function refusing(ahead: number) {
  let listed = 1
  service.interfere = ({ method }, response) => {
    dated(Date.now() + ahead, response)
    if (method === 'POST') response.writeHead(200, { 'content-type': 'text/plain' }).end('Client ID\n')
    else json(response, { count: listed, next: null, previous: null, results: service.records.exports })
    return true
  }
  const picky = 'alter table intake.exports'
  await scene.session.client.query(`${picky} add constraint picky check (name <> 'second')`)
  return {
    is(name: string, count = 1): void {
      service.records.exports.splice(0, 1, { id: 'c', name, form: null })
      listed = count
    },
    async retried() {
      await scene.session.client.query(`${picky} drop constraint picky`)
      const ended = await runCommand(['dead-letters', 'retry', '--all'], { DATABASE_URL: scene.url })
      expect(ended.code, ended.output).toBe(0)
      return await scene.rows('select name from intake.exports')
    },
  }
}

test('a dead letter is later than the states that a previous run read, from a service that is a minute ahead', async () => {
  const at = await refusing(60_000)
  at.is('first')
  await backfill('exports')
  at.is('second')
  await backfill('exports', 4)
  expect(await at.retried()).toEqual([{ name: 'second' }])
})

test('a dead letter is earlier than the states that a later run read, from a service that is a minute behind', async () => {
  const at = await refusing(-60_000)
  at.is('second')
  await backfill('exports', 4)
  // A list with a wrong count leaves the dead letter waiting.
  at.is('third', 2)
  await backfill('exports', 4)
  expect(await at.retried()).toEqual([{ name: 'third' }])
})
