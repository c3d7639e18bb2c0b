/** More differences than are repaired together: each is fetched once, and one that is stopped leaves the rest to the next. */
import { afterEach, beforeEach, expect, test } from 'vitest'
import type { Source } from '../../../src/extract/source.ts'
import { describeTables } from '../../../src/reconcile/expected-tables.ts'
import { beginExpected } from '../../../src/reconcile/verify/expect-raw.ts'
import type { Difference } from '../../../src/reconcile/verify/find.ts'
import { repair } from '../../../src/reconcile/verify/repair.ts'
import { patients } from '../../../src/streams/patients.ts'
import { openSession, type Session } from '../../../src/warehouse/connect.ts'
import { ago, notingLoad, openRig, type Rig } from '../../extract/support/reading.ts'

let rig: Rig
let scanning: Session
beforeEach(async () => {
  rig = await openRig()
  scanning = await openSession({ url: rig.url, purpose: 'test' })
})
afterEach(async () => {
  await scanning.close()
  await rig[Symbol.asyncDispose]()
})

const difference = (id: string, kind: Difference['kind'] = 'missing'): Difference => ({
  ...{ id, kind, fields: [], certain: false, newer: false, payloadOnly: false, isOrphan: false },
})
const IDS = Array.from({ length: 201 }, (_, at) => `p${String(at).padStart(3, '0')}`)
const person = (id: string) => ({ id, first_name: 'A' })

async function repairAll(found: readonly Difference[], over: Partial<Source> = {}, allowMassDelete = false) {
  const { session } = rig
  const source = await rig.source('patients', over)
  const tables = await describeTables(session, patients)
  await beginExpected(session, tables)
  const comparing = { source, session, scanning, tables, loggedUntil: null, requests: 1 }
  return await repair(comparing, found, { allowMassDelete, stable: true })
}
const fetched = () => rig.service.received.map(({ url }) => url.split('/').at(-1)!).sort()

test('each of two hundred and one records is fetched once and loaded, two hundred of them together', async () => {
  rig.service.records.patients = IDS.map(person)
  const noting = notingLoad()
  const repaired = await repairAll(
    IDS.map((id) => difference(id)),
    { load: noting.load },
  )
  expect(repaired).toEqual({ repaired: 201, note: null })
  expect(fetched()).toEqual(IDS)
  expect(noting.batches.map(({ mode, ids }) => [mode, ids])).toEqual([
    ['merge', IDS.slice(0, 200)],
    ['merge', IDS.slice(200)],
  ])
  expect(await rig.rows('select distinct origin from intake_raw.records')).toEqual([
    { origin: 'run:1 repair' },
  ])
})

test('a repair that is stopped requests nothing of the next portion, and says why it ended', async () => {
  rig.service.records.patients = IDS.map(person)
  const stop = new AbortController()
  const noting = notingLoad()
  const load: Source['load'] = async (...batch) => {
    const result = await noting.load(...batch)
    stop.abort(new Error('stopped'))
    return result
  }
  const found = IDS.map((id) => difference(id))
  await expect(repairAll(found, { load, signal: stop.signal })).rejects.toThrow('stopped')
  expect(noting.batches.map(({ ids }) => ids.length)).toEqual([200])
  expect(fetched()).toEqual(IDS.slice(0, 200))
})

test('of missing, different and extra records each is left as the service has it now', async () => {
  await rig.hold('patients', ['different', 'gone', 'there after all', 'gone meanwhile'].map(person), ago(60))
  rig.service.records.patients = ['missing', 'different', 'there after all'].map((id) => ({
    ...person(id),
    last_name: 'now',
  }))
  const repaired = await repairAll([
    difference('different', 'different'),
    difference('gone', 'extra'),
    // A record that was listed a moment ago is left to the next scan.
    difference('gone meanwhile', 'different'),
    difference('missing'),
    difference('there after all', 'extra'),
  ])
  expect(repaired).toEqual({ repaired: 4, note: null })
  expect(
    await rig.rows(`select id, last_name, _deleted_at is not null as gone from intake.patients order by id`),
  ).toEqual([
    { id: 'different', last_name: 'now', gone: false },
    { id: 'gone', last_name: null, gone: true },
    { id: 'gone meanwhile', last_name: null, gone: false },
    { id: 'missing', last_name: 'now', gone: false },
    { id: 'there after all', last_name: 'now', gone: false },
  ])
})
