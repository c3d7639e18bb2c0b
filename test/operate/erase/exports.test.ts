/** Rows of exports that name a patient other than by id, events that only mention one, and loads in progress. */
import { afterEach, beforeEach, expect, test } from 'vitest'
import { systemClock } from '../../../src/core/clock.ts'
import { storeDeadLetters } from '../../../src/load/dead-letters.ts'
import type { ExportFile } from '../../../src/load/exports/export-file.ts'
import { loadFile, rejectFile } from '../../../src/load/exports/load-file.ts'
import { spool } from '../../../src/load/exports/spool.ts'
import { takeSlice } from '../../../src/load/slice.ts'
import { erase } from '../../../src/operate/erase/erase.ts'
import { openSession } from '../../../src/warehouse/connect.ts'
import { noonPlus, openScene, patientEvent, type Scene } from '../../ingest/drain/scene.ts'

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

const HEAD = 'Client ID,First Name,Last Name,Email,Sent at,Completed at,Archived,q\n'

const take = () => takeSlice(scene.session.db, { teamId: scene.teamId, stream: 'exports', slice: '' }, '1')

async function fileOf(text: string): Promise<ExportFile> {
  async function* pieces() {
    yield Buffer.from(text)
  }
  const { last: _, ...spooled } = await spool(scene.session, pieces())
  return {
    ...spooled,
    exportId: 'e',
    isJsonString: false,
    apiVersion: 'v2.1',
    timezone: 'UTC',
    observedAt: noonPlus(1),
    origin: 'test',
  }
}

async function load(lines: string): Promise<void> {
  await loadFile(scene.session, await take(), await fileOf(HEAD + lines))
}

async function patient(id: string, data: object): Promise<void> {
  await scene.store([patientEvent(id, 1, data)])
  await scene.drain()
}

const rows = async () =>
  (
    await scene.rows<{ line: string }>(
      `select row_number || ' ' || client_id || ' ' || coalesce(string_agg(value, ','), '') as line
       from intake.export_rows left join intake.export_cells using (team_id, export_id, row_number)
       group by row_number, client_id order by row_number`,
    )
  ).map(({ line }) => line)
const bytes = async () => {
  const [row] = await scene.rows<{ body: Buffer }>('select body from intake_raw.export_chunks')
  return row!.body.toString('utf8')
}
const erased = (id: string) =>
  erase({ url: scene.url, patient: { teamId: scene.teamId, id }, forget: false, clock: systemClock })

const LINES = [
  '17,Ann,Lee,ann@example.com,,,False,by another number',
  'EHR-1,A,L,,,,False,by the external id',
  '18,ann,LEE,Ann@Example.com,at noon,,False,another spelling',
  '19,Bea,Lee,ann@example.com,at dawn,,False,a relative who shares the address',
  'p-2,Ann,Lee,ann@example.com,,,False,another patient of the same name',
].join('\n')

test('rows that name the patient by external id, or by name and address, are removed and stay removed', async () => {
  await patient('p-1', {
    external_id: 'EHR-1',
    first_name: 'Ann',
    last_name: 'Lee',
    email: 'ann@example.com',
  })
  await patient('p-2', { first_name: 'Ann', last_name: 'Lee', email: 'ann@example.com' })
  await load(LINES)
  // A patient of another team has the id that the first row has.
  await scene.rows(
    `insert into intake.patients (team_id, id, _version, _origin) values ($1, '17', now(), 'test')`,
    [scene.teamId + 1],
  )
  expect(await erased('p-1')).toMatchObject({ exportRows: 3 })
  const left = ['4 19 a relative who shares the address', '5 p-2 another patient of the same name']
  expect(await rows()).toEqual(left)
  expect(await bytes()).not.toMatch(/EHR-1|another number|another spelling/)
  const problems = await scene.rows<{ file: string | null; entry: string | null }>(
    `select problems::text as file, (select _problems::text from intake.exports) as entry from intake_raw.export_files`,
  )
  for (const { file, entry } of problems) {
    expect(`${file} ${entry}`).not.toContain('at noon')
    expect([file, entry]).toEqual(Array(2).fill(expect.stringContaining('at dawn')))
  }
  // The same file, and another that contains the patient again.
  await load(LINES)
  expect(await rows()).toEqual(left)
  await load(`20,Cy,Lee,c@example.com,,,True,new\n${LINES}`)
  expect(await rows()).toEqual([
    '1 20 new',
    '5 19 a relative who shares the address',
    '6 p-2 another patient of the same name',
  ])
  expect(await bytes()).not.toMatch(/EHR-1|another number|another spelling/)
})

test('rows without a name or an address belong to no patient, even one whose own are empty', async () => {
  await patient('p-1', { first_name: '', last_name: 'Lee', email: '' })
  await load('17,,Lee,,,,False,another Lee\np-1,,Lee,,,,False,own')
  expect(await erased('p-1')).toMatchObject({ exportRows: 1 })
  expect(await rows()).toEqual(['1 17 another Lee'])
})

test('a file that cannot be read is not kept as bytes once a patient was erased', async () => {
  await patient('p-1', { first_name: 'Ann' })
  await scene.session.client.query(
    `insert into intake_raw.export_files (team_id, export_id, is_loaded, hash, bytes, is_json_string, api_version, timezone, observed_at, origin)
     select team, 'e', false, '\\x00', 3, false, '', 'UTC', now(), 'test' from unnest($1::int[]) as team`,
    [[scene.teamId, scene.teamId + 1]],
  )
  await scene.session.client.query(
    `insert into intake_raw.export_chunks (team_id, export_id, is_loaded, number, body)
     select team, 'e', false, 1, 'p-1,"Ann' from unnest($1::int[]) as team`,
    [[scene.teamId, scene.teamId + 1]],
  )
  await erased('p-1')
  expect(await scene.rows('select is_loaded from intake_raw.export_files')).toEqual([
    { is_loaded: false },
    { is_loaded: false },
  ])
  expect(await scene.rows('select team_id from intake_raw.export_chunks')).toEqual([
    { team_id: scene.teamId + 1 },
  ])
})

test('rows are removed from a file that was loaded also when a later one of the same export cannot be read', async () => {
  await patient('p-1', { first_name: 'Ann' })
  await load('p-1,Ann,Lee,,,,False,own\np-2,Bea,Lee,,,,False,of another')
  const cut = await fileOf(`${HEAD}p-1,"Ann`)
  await rejectFile(scene.session, await take(), cut, 'the file is malformed')
  const files = () =>
    scene.rows<{ is_loaded: boolean; text: string | null }>(
      `select is_loaded, convert_from(body, 'UTF8') as text
       from intake_raw.export_files left join intake_raw.export_chunks using (team_id, export_id, is_loaded)
       order by is_loaded`,
    )
  expect((await files()).map(({ text }) => text)).toEqual([
    expect.stringContaining('"Ann'),
    expect.stringContaining('p-1,Ann'),
  ])
  expect(await erased('p-1')).toMatchObject({ exportRows: 1 })
  expect(await rows()).toEqual(['2 p-2 of another'])
  expect(await files()).toEqual([
    { is_loaded: false, text: null },
    {
      is_loaded: true,
      text: expect.stringMatching(/^"Client ID".*\n".erased."\n"p-2","Bea",.*,"of another"\n$/),
    },
  ])
})

test('a file that cannot be read and arrives after an erasure is stored without its bytes', async () => {
  const reject = async (text: string) =>
    await rejectFile(scene.session, await take(), await fileOf(text), 'the file is malformed')
  const chunks = () => scene.rows('select from intake_raw.export_chunks')
  await patient('p-1', { first_name: 'Ann' })
  await reject(`${HEAD}p-2,"Bea`)
  expect(await chunks()).toHaveLength(1)
  await erased('p-1')
  await reject(`${HEAD}p-1,"Ann`)
  expect(await chunks()).toEqual([])
  expect(await scene.rows('select is_loaded from intake_raw.export_files')).toEqual([{ is_loaded: false }])
})

test('a pending event that only mentions the patient is still loaded; one that is done is removed', async () => {
  const id = '0f0e0d0c-0000-4000-8000-000000000001'
  await patient(id, { first_name: 'Ann' })
  await scene.store([patientEvent('p-2', 3, { first_name: 'Bea', address: `c/o ${id}` })])
  await erased(id)
  await scene.drain()
  expect(await scene.rows('select id, address from intake.patients')).toEqual([
    { id: 'p-2', address: `c/o ${id}` },
  ])
  expect(await scene.inbox()).toEqual({ done: 1 })
  expect(await erased(id)).toMatchObject({ records: 0, events: 1 })
  expect(await scene.inbox()).toEqual({})
})

test('an id of sixteen characters is found anywhere in a body, a shorter one only where records are named', async () => {
  const ids = ['0123456789abcdef', 'fedcba987654321']
  for (const [at, id] of ids.entries()) {
    await patient(id, { first_name: 'Ann' })
    await scene.store([patientEvent(`p-${at}`, 2, { address: `c/o ${id}` })])
    const body = JSON.stringify({ note: `c/o ${id}` })
    const deadLetter = { recordId: null, origin: 'run:1 page:1', reason: 'has no id', body }
    const place = { teamId: scene.teamId, stream: 'patients', runId: null } as const
    await storeDeadLetters(scene.session.db, place, [deadLetter])
  }
  await scene.drain()
  expect(await erased(ids[0]!)).toMatchObject({ events: 2, deadLetters: 1 })
  expect(await erased(ids[1]!)).toMatchObject({ events: 1, deadLetters: 0 })
})

test('a response that a load in progress commits after the search is erased too', async () => {
  await patient('p-1', { first_name: 'Ann' })
  await using loading = await openSession({ url: scene.url, purpose: 'load' })
  await loading.client.query('begin')
  await loading.client.query('select intake_ops.hold_erasures($1::smallint)', [scene.teamId])
  const erasing = erase({
    ...{ url: scene.url, patient: { teamId: scene.teamId, id: 'p-1' }, forget: false },
    clock: { now: systemClock.now, sleep: (_, signal) => systemClock.sleep(10, signal) },
  })
  const waits = `select from pg_locks where locktype = 'advisory' and not granted
    and database = (select oid from pg_database where datname = current_database())`
  await expect.poll(async () => (await scene.rows(waits)).length).toBe(1)
  await loading.client.query(
    `insert into intake.responses (team_id, id, patient_id, _version, _origin) values ($1, 'r-1', 'p-1', now(), 'test')`,
    [scene.teamId],
  )
  await loading.client.query('commit')
  await erasing
  expect(await scene.rows('select id from intake.responses')).toEqual([])
})

test('with numbers as ids, patient 12 is not form 12, and 12 in a body is not a patient', async () => {
  await patient('12', { first_name: 'Ann' })
  const record = {
    id: '12',
    name: 'Form',
    text: '',
    enabled: true,
    created_at: null,
    updated_at: null,
    questions: [],
  }
  await scene.store([
    { id: 'f', timestamp: noonPlus(2), event_type: 'updated', source: 'form', data: record },
    patientEvent('13', 3, { address: '12' }),
  ])
  await scene.drain()
  await erased('12')
  expect(await scene.rows('select id from intake.patients')).toEqual([{ id: '13' }])
  expect(await scene.rows('select id from intake.forms')).toEqual([{ id: '12' }])
  expect(await scene.inbox()).toEqual({ done: 2 })
})

test('an erasure waits while another session holds a lock, and is then complete', async () => {
  await patient('p-1', { first_name: 'Ann' })
  await using other = await openSession({ url: scene.url, purpose: 'other' })
  await other.client.query('begin; lock table intake.patients in access exclusive mode')
  const pauses: number[] = []
  const sleep = async (milliseconds: number) => {
    pauses.push(milliseconds)
    await other.client.query('commit')
  }
  const clock = { now: systemClock.now, sleep }
  await erase({ url: scene.url, patient: { teamId: scene.teamId, id: 'p-1' }, forget: false, clock })
  expect(pauses).toEqual([5_000])
  expect(await scene.rows('select from intake.patients')).toEqual([])
})

test('of dead letters of the inbox, those that name the patient are removed, and no other', async () => {
  await patient('patient-1', { first_name: 'Ann' })
  const event = (id: string) =>
    JSON.stringify({ event_type: 'x', source: 'response', data: { patient: { id } } })
  const bodies = [
    event('patient-1'),
    event('patient-12'),
    event('q of patient-1'),
    '{"cut": "patient-1',
    '{"cut": "patient-12',
    // Not an event, so any of its words may be the id of the patient.
    '{"note": "c/o patient-1"}',
  ]
  for (const [at, body] of bodies.entries()) {
    const deadLetter = { recordId: null, origin: `event:${at}`, reason: 'no', body }
    await storeDeadLetters(scene.session.db, { teamId: scene.teamId, stream: 'inbox', runId: null }, [
      deadLetter,
    ])
  }
  // One of the patient that cannot be read says nothing about other names.
  const cut = { recordId: 'patient-1', origin: 'run:1 page:1', reason: 'no', body: '{"external_id": "EHR' }
  await storeDeadLetters(scene.session.db, { teamId: scene.teamId, stream: 'patients', runId: null }, [cut])
  expect(await erased('patient-1')).toMatchObject({ deadLetters: 4 })
  expect(await scene.rows('select origin from intake_ops.dead_letters order by id')).toEqual(
    ['event:1', 'event:2', 'event:4'].map((origin) => ({ origin })),
  )
})
