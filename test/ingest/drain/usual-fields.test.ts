/** The usual fields of a stream are derived from complete records: partial events say nothing about other records. */
import { afterEach, beforeEach, expect, test } from 'vitest'
import { openUsualFields } from '../../../src/ingest/drain/current.ts'
import { lacksMostFields } from '../../../src/ingest/drain/read-event.ts'
import { ALL_STREAMS } from '../../../src/streams/catalogue.ts'
import { patients } from '../../../src/streams/patients.ts'
import { noonPlus, openScene, patientEvent, type Scene } from './scene.ts'

let scene: Scene

beforeEach(async () => {
  scene = await openScene()
})

afterEach(() => scene[Symbol.asyncDispose]())

/** An event with some fields of a patient. */
function inPart(id: string, seconds: number) {
  const data = { id, last_name: 'In part', updated_at: noonPlus(seconds) }
  return { ...patientEvent(id, seconds), data }
}

test('each new record of a partial event is fetched, however many were stored partially before', async () => {
  await scene.store([patientEvent('whole', 1)])
  await scene.drain()
  await scene.store([inPart('a', 2)])
  await scene.drain()
  expect(await scene.asked()).toEqual(['patients a partial'])
  // Another process, which does not yet know the usual fields.
  await scene.store([inPart('b', 3)])
  await scene.drain()
  expect(await scene.asked()).toEqual(['patients a partial', 'patients b partial'])
})

test('usual fields are remembered for a minute of the clock, and looked for again where there were none', async () => {
  let micros = 0
  const usual = openUsualFields({ now: () => micros, sleep: () => Promise.resolve() })
  const other = scene.teamId + 1
  const known = async () => {
    const fields = await usual.of(scene.session, patients, [scene.teamId, other])
    return [...fields].map(([teamId, names]) => [teamId, names.includes('city')])
  }
  expect(await known()).toEqual([])
  await scene.store([patientEvent('a', 1), patientEvent('b', 1)])
  await scene.drain()
  expect(await known()).toEqual([[scene.teamId, true]])
  await scene.rows(`update intake_raw.records set payload = payload - 'city' where id = 'b'`)
  micros += 59_000_000
  expect(await known()).toEqual([[scene.teamId, true]])
  micros += 1_000_000
  expect(await known()).toEqual([[scene.teamId, false]])
})

test('a field is usual if the first twenty records have it, whatever later ones have', async () => {
  await scene.store([patientEvent('p01', 1)])
  await scene.drain()
  await scene.rows(`insert into intake_raw.records
    select (jsonb_populate_record(first, jsonb_build_object('id', 'p' || to_char(number, 'FM00')))).*
    from intake_raw.records first, generate_series(2, 21) number`)
  await scene.rows(`update intake_raw.records set payload = payload - 'city' where id = 'p20'`)
  await scene.rows(`update intake_raw.records set payload = payload - 'state' where id = 'p21'`)
  const usual = openUsualFields({ now: () => 0, sleep: () => Promise.resolve() })
  const fields = (await usual.of(scene.session, patients, [scene.teamId])).get(scene.teamId)!
  expect(['city', 'state', 'zipcode'].map((field) => fields.includes(field))).toEqual([false, true, true])
})

test('a record of another team or stream that is to be fetched under the same id says nothing about them', async () => {
  const usual = openUsualFields({ now: () => 0, sleep: () => Promise.resolve() })
  await scene.store([patientEvent('a', 1)])
  await scene.drain()
  const toFetch = (teamId: number, stream: string) =>
    scene.rows(
      `insert into intake_ops.refetches (team_id, stream, id, reason, origin) values ($1, $2, 'a', 'partial', 'x')`,
      [teamId, stream],
    )
  await toFetch(scene.teamId + 1, 'patients')
  await toFetch(scene.teamId, 'forms')
  expect([...(await usual.of(scene.session, patients, [scene.teamId])).keys()]).toEqual([scene.teamId])
  await toFetch(scene.teamId, 'patients')
  const others = openUsualFields({ now: () => 0, sleep: () => Promise.resolve() })
  expect([...(await others.of(scene.session, patients, [scene.teamId])).keys()]).toEqual([])
})

test('each stream has its own usual fields, also in one drain', async () => {
  const times = { created_at: noonPlus(0), updated_at: noonPlus(0) }
  const form = (id: string) => ({
    ...patientEvent(id, 1),
    source: 'form',
    data: { id, name: 'Intake', text: '', enabled: true, ...times, questions: [] },
  })
  await scene.store([patientEvent('stored', 1), form('stored')])
  await scene.drain()
  expect(await scene.asked()).toEqual([])
  await scene.store([patientEvent('whole', 2), form('whole')])
  await scene.drain()
  expect(await scene.asked()).toEqual([])
})

test('a partial event that restores a deleted record is loaded as far as it goes, and the record is fetched', async () => {
  await scene.store([patientEvent('whole', 1), patientEvent('gone', 2)])
  await scene.store([patientEvent('gone', 3, {}, { event_type: 'deleted' })])
  await scene.drain()
  await scene.store([inPart('gone', 60)])
  await scene.drain()
  expect(await scene.rows(`select last_name, _deleted_at from intake.patients where id = 'gone'`)).toEqual([
    { last_name: 'In part', _deleted_at: null },
  ])
  expect(await scene.asked()).toEqual(['patients gone partial'])
})

test('while all stored records are to be fetched, a record without most fields is fetched', async () => {
  for (const [at, id] of ['a', 'b', 'c'].entries()) {
    await scene.store([inPart(id, at)])
    await scene.drain()
  }
  expect(await scene.asked()).toEqual(['patients a partial', 'patients b partial', 'patients c partial'])
})

test.each(ALL_STREAMS)(
  'a record with half of the possible fields of $name does not miss most, with one less it does',
  (stream) => {
    const half = Math.ceil(stream.columns.length / 2)
    const having = (count: number) =>
      Object.fromEntries(stream.columns.slice(0, count).map(({ from }) => [from[0], null]))
    expect(lacksMostFields(stream, having(half))).toBe(false)
    expect(lacksMostFields(stream, having(half - 1))).toBe(true)
  },
)
