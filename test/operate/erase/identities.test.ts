/**
 * A patient is found by every identity that the warehouse ever stored, in both orders with the deletion at the service;
 * afterwards every column of the database is searched, and rewritten tables keep no byte of the patient in their files.
 */
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { systemClock } from '../../../src/core/clock.ts'
import { storeDeadLetters } from '../../../src/load/dead-letters.ts'
import { type EraseOptions, erase, previewErasure } from '../../../src/operate/erase/erase.ts'
import { prune } from '../../../src/operate/serve/retention.ts'
import { openSession } from '../../../src/warehouse/connect.ts'
import { type Event, noonPlus, openScene, patientEvent, type Scene } from '../../ingest/drain/scene.ts'
import { tablesHolding } from '../everywhere.ts'
import { filesHolding, loadExport } from './files.ts'

let scene: Scene

beforeEach(async () => {
  scene = await openScene()
  await scene.session.client.query(
    `insert into intake.exports (team_id, id, _version, _origin) values ($1, 'e', now(), 'test')`,
    [scene.teamId],
  )
})
afterEach(async () => {
  await scene[Symbol.asyncDispose]()
})

const ID = 'patient-71c0ffee'
const PERSON = {
  external_id: 'EHR-20774411',
  first_name: 'Annegret',
  last_name: 'Leewenhook',
  email: 'Annegret@Example.com',
  phone_number: '+1 555 010 7733',
}
const FORMER = { ...PERSON, external_id: 'EHR-10000099', last_name: 'Vorher', email: 'vorher@example.com' }
const IDENTIFIERS = [ID, 'EHR-20774411', 'EHR-10000099', 'annegret@example.com', 'vorher@example.com']

const ROWS = [
  `${ID},Annegret,Leewenhook,annegret@example.com,,,False,under the id`,
  'EHR-20774411,Annegret,L,,,,False,under the external id',
  'EHR-10000099,A,,,,,False,under the former external id',
  '4711,annegret,VORHER,Vorher@example.com,,,False,under another number',
  ',Annegret,Leewenhook,ANNEGRET@example.com,,,False,without an id',
  ',Annegret,Leewenhook,,,,False,without an id and an address',
  'p-2,Bea,Other,bea@example.com,,,False,of another patient',
]

const load = (...rows: readonly string[]) => loadExport(scene, rows)

/** One after another: of several events in one batch, only the last state is stored. */
async function receive(...events: readonly (Event | string)[]): Promise<void> {
  for (const event of events) {
    await scene.store([event])
    await scene.drain()
  }
}

const deleted = () => ({ ...patientEvent(ID, 9, {}, { event_type: 'deleted' }), data: { id: ID } })

/** Without stored events, so that only the history knows the former values. */
const dropEvents = () => scene.session.client.query('delete from intake_raw.inbox')

const erased = (options: Partial<EraseOptions> = {}) =>
  erase({
    ...{ url: scene.url, patient: { teamId: scene.teamId, id: ID }, forget: false, clock: systemClock },
    ...options,
  })

const cells = async () =>
  (await scene.rows<{ value: string }>('select value from intake.export_cells order by row_number')).map(
    ({ value }) => value,
  )

const KEPT = ['without an id and an address', 'of another patient']

describe('with exports under the id, external ids, another number and no id', () => {
  beforeEach(async () => {
    await receive(patientEvent(ID, 1, FORMER), patientEvent(ID, 2, PERSON), patientEvent('p-2', 3))
    await load(...ROWS)
    await dropEvents()
  })

  test.each(['before', 'after'])('nothing is left of a patient deleted at the service %s', async (order) => {
    if (order === 'before') await receive(deleted())
    const done = await erased({ unnamedRows: true })
    expect(done).toMatchObject({ exportRows: 5, unnamedLeft: 0 })
    expect(done.searched).toMatchObject({ left: [], unreadable: [] })
    if (order === 'after') await receive(deleted())
    expect(await tablesHolding(scene.url, IDENTIFIERS)).toEqual({})
    expect(await cells()).toEqual(KEPT)
    // The service's next file still has the rows.
    await load('21,Cy,Lee,,,,True,new', ...ROWS)
    expect(await cells()).toEqual(['new', ...KEPT])
    expect(await tablesHolding(scene.url, IDENTIFIERS)).toEqual({})
  })

  test('rows without an id are left and counted, unless they are asked for', async () => {
    await receive(deleted())
    expect(await previewErasure(scene.url, { teamId: scene.teamId, id: ID })).toMatchObject({
      unnamedRows: 1,
    })
    const done = await erased()
    expect(done).toMatchObject({ exportRows: 4, unnamedLeft: 1 })
    // The short number is not searched for; the address is in the row, and in the bytes of the file.
    expect(done.searched.left).toEqual([
      { table: 'intake.export_rows', column: 'email', rows: 1 },
      { table: 'intake_raw.export_chunks', column: 'body', rows: 1 },
    ])
    expect(await cells()).toEqual(['without an id', ...KEPT])
  })

  test('a former external id that is another patient’s now does not reach that patient’s rows', async () => {
    await receive(patientEvent('p-3', 4, { external_id: 'EHR-10000099' }))
    const done = await erased({ unnamedRows: true })
    expect(done).toMatchObject({ exportRows: 4 })
    expect(done.searched).toMatchObject({ left: [], leftOut: 2 })
    expect(await cells()).toEqual(['under the former external id', ...KEPT])
  })
})

test('identities are read from stored events, dead letters, and the patient in a response', async () => {
  const inResponse = { id: ID, external_id: 'EHR-30303030' }
  await receive(patientEvent(ID, 1, { external_id: 'EHR-11111111' }), {
    id: 'r',
    timestamp: noonPlus(2),
    event_type: 'updated',
    source: 'response',
    data: response(inResponse),
  })
  const stored = { recordId: ID, origin: 'run:1 page:1', reason: 'no' }
  const body = JSON.stringify({ id: ID, external_id: 'EHR-20202020' })
  const place = { teamId: scene.teamId, stream: 'patients', runId: null } as const
  await storeDeadLetters(scene.session.db, place, [{ ...stored, body }])
  await scene.session.client.query('delete from intake_raw.record_history')
  await scene.session.client.query(`update intake.patients set external_id = null`)
  await scene.session.client.query(`update intake_raw.records set payload = null where stream = 'patients'`)
  await load(
    'EHR-11111111,,,,,,,by an event',
    'EHR-30303030,,,,,,,by a response',
    'EHR-20202020,,,,,,,by a dead letter',
    'EHR-99999999,,,,,,,nobody',
  )
  expect(await erased()).toMatchObject({ exportRows: 3 })
  expect(await cells()).toEqual(['nobody'])
})

function response(patient: object): object {
  return {
    ...{ id: 'response-of-theirs', patient, form: { id: 'f' }, form_name: 'F', is_submitted: false },
    ...{ is_skipped: false, is_archived: false, submitted_at: null, answers: [] },
    ...{ created_at: noonPlus(-9), updated_at: noonPlus(-9) },
  }
}

const packetResponse = (seconds: number, id: string, members: readonly string[], type = 'updated') => ({
  ...{ id: `packet-${seconds}`, timestamp: noonPlus(seconds), event_type: type, source: 'packet_response' },
  data: {
    ...{ id, packet: { id: 'k' }, is_submitted: false, is_archived: false, form_index: 1, is_queued: false },
    ...{ submitted_at: null, created_at: noonPlus(-9), updated_at: noonPlus(seconds), responses: members },
  },
})

test('a file whose first row under an external id comes after the erasure does not bring the patient back', async () => {
  await receive(patientEvent(ID, 1, PERSON))
  await dropEvents()
  expect(await erased()).toMatchObject({ exportRows: 0 })
  await load('EHR-20774411,,,,,,,under the external id', 'EHR-99999999,Annegret,Vorher,,,,,nobody')
  expect(await cells()).toEqual(['nobody'])
})

test('a later file does not bring back rows under identities that retention had removed before', async () => {
  await receive(patientEvent(ID, 1, FORMER), patientEvent(ID, 2, PERSON))
  await dropEvents()
  const now = new Date(Date.now() + 2 * 86_400_000)
  const removed = await prune({ db: scene.session.db, now, historyDays: 1, runDays: null, forMs: 60_000 })
  expect(removed).toMatchObject({ history: 1 })
  expect(await erased({ unnamedRows: true })).toMatchObject({ exportRows: 0 })
  await load(
    'EHR-10000099,,,,,,,under the removed external id',
    ',Annegret,VORHER,vorher@example.com,,,,under the removed name',
    'EHR-99999999,Annegret,Vorher,,,,,nobody',
  )
  expect(await cells()).toEqual(['nobody'])
})

test('former members go from the history of packet responses, and so does one that was deleted', async () => {
  const data = response({ id: ID })
  await receive(
    patientEvent(ID, 1, PERSON),
    { id: 'r', timestamp: noonPlus(2), event_type: 'updated', source: 'response', data },
    packetResponse(3, 'packet-changed', ['response-of-theirs', 'another']),
    packetResponse(4, 'packet-changed', ['another']),
    packetResponse(5, 'packet-changed', ['another', 'a-third']),
    packetResponse(6, 'packet-deleted', ['response-of-theirs']),
    { ...packetResponse(7, 'packet-deleted', [], 'deleted'), data: { id: 'packet-deleted' } },
  )
  await dropEvents()
  expect((await erased()).searched.left).toEqual([])
  expect(await tablesHolding(scene.url, [...IDENTIFIERS, 'response-of-theirs', 'packet-deleted'])).toEqual({})
  expect(
    await scene.rows(
      `select 'now' as state, id, payload -> 'responses' as members from intake_raw.records where stream = 'packet_responses'
       union all select 'past', id, payload -> 'responses' from intake_raw.record_history order by 1`,
    ),
  ).toEqual([
    { state: 'now', id: 'packet-changed', members: ['another', 'a-third'] },
    { state: 'past', id: 'packet-changed', members: ['another'] },
  ])
})

test('what is left anywhere is reported as table and column, whatever its type, without a value', async () => {
  await receive(patientEvent(ID, 1, PERSON), patientEvent('p-2', 2, { phone_number: PERSON.phone_number }))
  await scene.session.client.query(`
    create schema copies
    create table copies.by_hand (note text, doc jsonb, bytes bytea, list text[], "Odd ""name""" varchar(90), at int)
    create table copies.parts (id text) partition by list (id)
    create table copies.part_one partition of copies.parts default`)
  await scene.session.client.query(
    `insert into copies.by_hand values
       ('call ANNEGRET@EXAMPLE.COM', null, null, null, null, 1),
       (null, $1, $2, $3, 'x EHR-20774411 y', 2),
       ('somebody else: ' || $4, null, null, null, null, 3)`,
    [
      JSON.stringify({ of: ID }),
      Buffer.concat([Buffer.from([0, 200, 92]), Buffer.from(`"${ID}"`)]),
      ['a', 'EHR-20774411'],
      PERSON.phone_number,
    ],
  )
  await scene.session.client.query(`insert into copies.parts values ('of ${ID}'), ('of nobody')`)
  const { searched } = await erased()
  expect(searched.left).toEqual([
    { table: 'copies.by_hand', column: 'Odd "name"', rows: 1 },
    { table: 'copies.by_hand', column: 'bytes', rows: 1 },
    { table: 'copies.by_hand', column: 'doc', rows: 1 },
    { table: 'copies.by_hand', column: 'list', rows: 1 },
    { table: 'copies.by_hand', column: 'note', rows: 1 },
    { table: 'copies.parts', column: 'id', rows: 1 },
  ])
  // The telephone is another patient's too.
  expect(searched.leftOut).toBe(1)
})

test('a number by which only exports named the patient is searched for too', async () => {
  await receive(patientEvent(ID, 1, PERSON))
  await load('4711-4711-4711,annegret,LEEWENHOOK,annegret@example.com,,,False,under a long number')
  const { client } = scene.session
  await client.query('create table public.by_hand (note text)')
  await client.query(`insert into public.by_hand values ('client 4711-4711-4711')`)
  const { searched, exportRows } = await erased()
  expect([exportRows, searched.left]).toEqual([1, [{ table: 'public.by_hand', column: 'note', rows: 1 }]])
})

test('what is left in JSON is reported also where an identifier has quotes, which JSON escapes', async () => {
  const external_id = 'EHR "2077" 4411'
  await receive(patientEvent(ID, 1, { ...PERSON, external_id }))
  const { client } = scene.session
  await client.query('create table public.by_hand (doc jsonb)')
  await client.query('insert into public.by_hand values ($1)', [JSON.stringify({ of: external_id })])
  const { searched } = await erased()
  expect(searched.left).toEqual([{ table: 'public.by_hand', column: 'doc', rows: 1 }])
})

/** Waits until the transactions that write now, those of other tests too, have ended; for ten seconds of each pause. */
async function othersEnded(): Promise<void> {
  const others = async () =>
    (
      await scene.rows<{ other: string }>(
        `select concat(pid, ' ', xact_start) as other from pg_stat_activity
         where pid <> pg_backend_pid() and (backend_xid is not null or backend_xmin is not null and datname = current_database())`,
      )
    ).map(({ other }) => other)
  const began = new Set(await others())
  for (let looks = 0; looks < 50; looks++) {
    await systemClock.sleep(200)
    if (!(await others()).some((other) => began.has(other))) return
  }
}

test('files of tables keep deleted rows until they are rewritten while nobody can read these', async () => {
  const texts = [...IDENTIFIERS, 'Annegret@Example.com', PERSON.phone_number, 'Leewenhook', 'Vorher']
  await receive(patientEvent(ID, 1, FORMER), patientEvent('p-2', 2, { first_name: 'Bea' }))
  await load(...ROWS.slice(0, 5))
  await scene.session.client.query('analyze')
  await receive(patientEvent(ID, 3, PERSON), `{"source": "patient", "data": {"id": "${ID}"`)
  const reader = await openSession({ url: scene.url, purpose: 'reader' })
  await reader.client.query('begin isolation level repeatable read')
  await reader.client.query('select')
  let waits = 0
  const clock = {
    now: systemClock.now,
    sleep: async () => {
      waits += 1
    },
  }
  const early = await erased({ unnamedRows: true, onRewrite: () => {}, clock })
  expect([early.rewritten!.isComplete, waits > 10]).toEqual([false, true])
  expect(early.rewritten!.keepers).toContainEqual(expect.stringMatching(/^session \d+ of database /))
  await reader.close()
  expect((await filesHolding(scene, texts)).length).toBeGreaterThan(3)
  const rewriting: string[] = []
  const clockOfRewrite = { now: systemClock.now, sleep: othersEnded }
  const done = await erased({ onRewrite: (table) => rewriting.push(table), clock: clockOfRewrite })
  expect(done.rewritten).toMatchObject({ isComplete: true, notOwned: [], tables: rewriting })
  expect(rewriting).toEqual(
    expect.arrayContaining([
      'intake.patients',
      'intake_raw.inbox',
      'intake_raw.records',
      'intake_ops.dead_letters',
    ]),
  )
  expect(rewriting).not.toContain('intake.forms')
  const [{ version, statistics }] = (await scene.rows<{ version: number; statistics: string }>(
    `select current_setting('server_version_num')::int as version, pg_relation_filenode('pg_statistic')::text as statistics`,
  )) as [{ version: number; statistics: string }]
  if (version >= 180000) expect(await filesHolding(scene, texts)).toEqual([])
  // Before, Postgres cannot clear the statistics of a table without rows: the command reports them.
  expect((await filesHolding(scene, texts)).filter((name) => name !== statistics)).toEqual([])
  expect(await scene.rows('select id, first_name from intake.patients')).toEqual([
    { id: 'p-2', first_name: 'Bea' },
  ])
})

test('a transaction of another database that wrote is waited for, named, and keeps the rows if it outlasts that', async () => {
  const other = new URL(scene.url)
  other.pathname = '/postgres'
  await receive(patientEvent(ID, 1, PERSON))
  const writer = await openSession({ url: other.href, purpose: 'writer' })
  const { rows } = await writer.client.query<{ pid: number }>('select pg_backend_pid() as pid')
  await writer.client.query('begin; select pg_current_xact_id()')
  const impatient = { now: systemClock.now, sleep: async () => {} }
  const early = await erased({ onRewrite: () => {}, clock: impatient })
  expect(early.rewritten).toMatchObject({
    ...{
      isComplete: false,
      keepers: expect.arrayContaining([`session ${rows[0]!.pid} of database postgres`]),
    },
  })
  expect((await filesHolding(scene, [PERSON.last_name])).length).toBeGreaterThan(0)
  const patient = {
    now: systemClock.now,
    async sleep() {
      await writer.close()
      await othersEnded()
    },
  }
  const later = erased({ onRewrite: () => {}, clock: patient })
  expect((await later).rewritten).toMatchObject({ isComplete: true, keepers: [] })
  expect(await filesHolding(scene, [PERSON.last_name])).toEqual([])
})
