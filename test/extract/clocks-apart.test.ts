/**
 * Processes whose bounds of the service's clock differ, one after the other and beside each other: the clock is known to
 * a second, from below, to each of them by itself.
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

/** An event about p1, loaded before this resolves. */
async function told(lastName: string, timestamp: string, envelope: object = {}): Promise<void> {
  const event = patientEvent('p1', 0, { last_name: lastName }, { timestamp, ...envelope })
  await scene.store([event], { receivedAt: now() })
  await scene.drain()
}

/** What every answer says that the time is, cut to seconds as `Date` is; in milliseconds. */
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

test('an event of the second before a page was read, which comes after it, leaves the record in doubt', async () => {
  const second = dated(Date.now())
  await backfill()
  expect(await scene.asked()).toEqual([])
  await told('older', instantOf((second + 900) * 1000))
  expect(await scene.asked()).toEqual(['patients p1 contested'])
})

test('so does a deletion of the second before the record was read to be there', async () => {
  const second = dated(Date.now())
  await backfill()
  await told('', instantOf((second + 900) * 1000), { event_type: 'deleted' })
  expect(await scene.asked()).toEqual(['patients p1 contested'])
})

test('an event of well after a page, or one that says the same, leaves none', async () => {
  const second = dated(Date.now())
  await backfill()
  await told('first', instantOf((second + 900) * 1000))
  await told('later', instantOf((second + 4_000) * 1000))
  expect(await named()).toBe('later')
  expect(await scene.asked()).toEqual([])
})

test('an answer by id that waits while a run brings what is newer does not decide', async () => {
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
      // The bound of this one is the better one: it was asked before the page, and is dated after it.
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
      watch: { refetched: () => {} },
      pollMs: 20,
    },
  })
  await refetcher.idle()
  expect(answered).toBe(2)
  expect(await named()).toBe('newer')
})

test('what an event brings while a run asks for the last time is not overruled by the answer', async () => {
  await backfill()
  let asked = 0
  service.interfere = ({ url }, response) => {
    if (!isAbout('p1', url)) return false
    asked += 1
    const stale = { ...service.records.patients[0] }
    service.records.patients[0] = patient('p1', { last_name: `change ${asked}` })
    void told(`change ${asked}`, now()).then(() => json(response, stale))
    return true
  }
  const held = `update intake_raw.records set version = now() + interval '0.8 seconds' where id = 'p1' returning id`
  expect(await scene.rows(held)).toEqual([{ id: 'p1' }])
  service.records.patients[0] = patient('p1', { last_name: 'second' })
  await backfill()
  // Four times for the page, and perhaps once for what the events asked for.
  expect(asked).toBeGreaterThanOrEqual(4)
  expect(await named()).toBe(`change ${asked}`)
})

test('a page that stands above an event which came while it was read is doubted, however far apart the clocks are', async () => {
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
    // A retried event: it bears newer data under its old time.
    service.records.patients[0] = patient('p1', { last_name: 'newest' })
    void (async () => {
      await told('newest', instantOf(systemClock.now() + (ahead - 20_000) * 1000))
      json(response, { count: 2, next: null, previous: null, results })
    })()
    return true
  }
  await backfill()
  expect(service.received.filter(({ url }) => isAbout('p1', url))).not.toEqual([])
  expect(await named()).toBe('newest')
})

/** As if the run before had known the clock to be later: by how much of a second is its own. */
const readLater = (stream: string) =>
  scene.rows(
    `update intake_raw.records set observed_at = observed_at + interval '0.8 seconds',
       version = case version when observed_at then version + interval '0.8 seconds' else version end
     where stream = $1 returning id`,
    [stream],
  )

test('an entry of a log that changed is as the later run read it, whether it bears a time or not', async () => {
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

test('a record that changed, or went, within the second is as the later run read it, exports among them', async () => {
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
  const held = () =>
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
  expect(await held()).toMatchObject([{ name: 'second' }, { name: 'first', gone: false }])
  service.records.patients.push(patient('p2', { last_name: 'again' }))
  await night()
  expect(await named('p2')).toBe('again')
  expect(await held()).toMatchObject([{ gone: false }, { name: null, gone: true, rows: 0 }])
  list.push(exported('e2', 'again'))
  await night()
  expect(await held()).toMatchObject([{ rows: 1 }, { name: 'again', gone: false, rows: 1 }])
})

test('a response of this second, which one run takes for the newest, does not make the next doubt the filter', async () => {
  const second = dated(Date.now())
  const at = instantOf(second * 1000)
  const stamps = { submitted_at: at, created_at: at, updated_at: at }
  service.records.responses.push({ id: 'r1', patient: 'p1', form: 'f', is_submitted: true, ...stamps })
  await backfill('responses')
  dated(second - 1_000)
  expect(JSON.parse(await backfill('responses'))).toMatchObject({ streams: { responses: { note: null } } })
})

test('a record that changed again within the second of its stamp is asked for, though its list entry is the same', async () => {
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

/** One export, which the warehouse refuses under the name `second`; the service is so many milliseconds ahead. */
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

test('what was set aside is later than what a run before it read, by a service that is a minute ahead', async () => {
  const at = await refusing(60_000)
  at.is('first')
  await backfill('exports')
  at.is('second')
  await backfill('exports', 4)
  expect(await at.retried()).toEqual([{ name: 'second' }])
})

test('what was set aside is earlier than what a run after it read, of a service that is a minute behind', async () => {
  const at = await refusing(-60_000)
  at.is('second')
  await backfill('exports', 4)
  // A list whose count is wrong leaves the dead letter waiting.
  at.is('third', 2)
  await backfill('exports', 4)
  expect(await at.retried()).toEqual([{ name: 'third' }])
})
