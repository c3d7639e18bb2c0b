/** A page that is in flight while an event deletes one of its records. */
import { afterEach, beforeEach, expect, test } from 'vitest'
import { systemClock } from '../../../src/core/clock.ts'
import { instantOf } from '../../../src/core/time.ts'
import { CLOCK_APART_MS, json } from '../../api/support/service.ts'
import { type LittleService, startLittleService } from '../../e2e/support/little-service.ts'
import { openScene, patient, patientEvent, type Scene } from '../../ingest/drain/scene.ts'
import { runCommand } from '../../support/run-command.ts'

let scene: Scene
let service: LittleService

beforeEach(async () => {
  scene = await openScene()
  service = await startLittleService([patient('p1', {}), patient('p2', {})])
  service.clockApartMs = CLOCK_APART_MS
})

afterEach(async () => {
  await service[Symbol.asyncDispose]()
  await scene[Symbol.asyncDispose]()
})

const backfill = () =>
  runCommand(['backfill', '--streams', 'patients'], { ...service.env, DATABASE_URL: scene.url })

const gone = () => scene.rows('select id, _deleted_at is not null as gone from intake.patients order by id')

/** Before the list is answered, p1 is deleted at the service, and an event about it is loaded; the page has a later date. */
function meanwhile(type: 'deleted' | 'updated'): void {
  service.interfere = ({ url }, response) => {
    if (!url.startsWith('/v2/patients?') && url !== '/v2/patients') return false
    service.interfere = () => false
    const results = [...service.records.patients]
    service.records.patients.splice(0, 1)
    const data = type === 'deleted' ? {} : { last_name: 'of the event' }
    const now = instantOf(systemClock.now())
    const event = patientEvent('p1', 0, data, { event_type: type, timestamp: now })
    void (async () => {
      await scene.store([event], { receivedAt: now })
      await scene.drain()
      response.setHeader('date', new Date(Date.now() + 5_000).toUTCString())
      json(response, { count: 2, next: null, previous: null, results })
    })()
    return true
  }
}

test('the record stays deleted if a GET by id confirms it', async () => {
  expect((await backfill()).code).toBe(0)
  meanwhile('deleted')
  expect((await backfill()).code).toBe(0)
  expect(service.received.filter(({ url }) => url.includes('/p1'))).not.toEqual([])
  expect(await gone()).toEqual([
    { id: 'p1', gone: true },
    { id: 'p2', gone: false },
  ])
  // Its return and second delete are history.
  expect(
    await scene.rows(`select deleted from intake_raw.record_history where id = 'p1' order by superseded_at`),
  ).toEqual([{ deleted: false }, { deleted: true }, { deleted: false }])
})

test('a record that no event deleted is left to the next scan, which proves the delete', async () => {
  expect((await backfill()).code).toBe(0)
  meanwhile('updated')
  expect((await backfill()).code).toBe(0)
  expect(service.received.filter(({ url }) => url.includes('/p1'))).not.toEqual([])
  expect(await gone()).toEqual([
    { id: 'p1', gone: false },
    { id: 'p2', gone: false },
  ])
  expect((await backfill()).code).toBe(0)
  expect(await gone()).toEqual([
    { id: 'p1', gone: true },
    { id: 'p2', gone: false },
  ])
})
