/** The steps of an erasure: their order, what each is given, and how each is tried again. */
import pg from 'pg'
import { beforeEach, expect, test, vi } from 'vitest'
import { IntakeError } from '../../../src/core/errors.ts'
import { type Erased, type EraseOptions, erase, previewErasure } from '../../../src/operate/erase/erase.ts'
import { renew, step, world } from './stand-ins.ts'

function inPlaceOf(name: keyof typeof import('./stand-ins.ts').STAND_INS) {
  return async (original: () => Promise<object>) => ({
    ...(await original()),
    ...(await import('./stand-ins.ts')).STAND_INS[name],
  })
}
vi.mock('../../../src/warehouse/connect.ts', (original) => inPlaceOf('connect')(original as never))
vi.mock('../../../src/load/erasures.ts', (original) => inPlaceOf('erasures')(original as never))
vi.mock('../../../src/operate/erase/find.ts', (original) => inPlaceOf('find')(original as never))
vi.mock('../../../src/operate/erase/identities.ts', (original) => inPlaceOf('identities')(original as never))
vi.mock('../../../src/operate/erase/remove.ts', (original) => inPlaceOf('remove')(original as never))
vi.mock('../../../src/operate/erase/remove-bodies.ts', (original) => inPlaceOf('bodies')(original as never))
vi.mock('../../../src/operate/erase/remove-export-rows.ts', (original) =>
  inPlaceOf('exportRows')(original as never),
)
vi.mock('../../../src/operate/erase/refresh-statistics.ts', (original) =>
  inPlaceOf('statistics')(original as never),
)
vi.mock('../../../src/operate/erase/search.ts', (original) => inPlaceOf('search')(original as never))

const PATIENT = { teamId: 7, id: 'patient-1' }

beforeEach(renew)

const clock = { now: () => 0, sleep: async (milliseconds: number) => step(`sleep ${milliseconds}`) }
const erased = (options: Partial<EraseOptions> = {}): Promise<Erased> =>
  erase({ url: 'postgres://there', patient: PATIENT, forget: false, clock, ...options })

const PASS = ['find', 'identities', 'clients', 'note', 'begin', 'records', 'bodies', 'export rows', 'commit']
const LOGIN = 'select session_user as login'
const FORGET = `delete from intake_ops.erasures where patient_hash = decode($1, 'hex')`
const NOW = 'select pg_current_xact_id()::xid::text as now'
const locked = () => Object.assign(new pg.DatabaseError('locked', 0, 'error'), { code: '55P03' })

test('records are recorded as erased before they are removed, until nothing new is found; then the rest is searched', async () => {
  const [first, second] = [
    { added: 3, responses: ['r-1'], aliases: ['EHR-1'], contacts: ['a@b.c'], clients: ['4711'] },
    { added: 1, responses: ['r-2'], contacts: ['555'], unnamed: 2 },
  ]
  world.passes = [first, second, { added: 0, unnamed: 1 }]
  const done = await erased()
  expect(world.steps).toEqual([
    'open',
    'hashes',
    ...PASS,
    ...PASS,
    ...PASS,
    'statistics',
    'search',
    LOGIN,
    'close',
  ])
  expect(done).toEqual({
    ...{ records: 6, history: 12, events: 9, deadLetters: 15, exportRows: 3 },
    ...{ statisticsRefreshed: true, unnamedLeft: 2, rewritten: null, login: 'eraser' },
    searched: { identifiers: 1, leftOut: 0, columns: 0, unreadable: [], left: [] },
    patientHash: 'patients:patient-1',
  })
  expect(world.given.open).toEqual({ url: 'postgres://there', purpose: 'erase', lockTimeoutMs: 2_000 })
  expect(world.given.search).toEqual({
    patient: PATIENT,
    identifiers: ['patient-1', 'r-1', '4711', 'EHR-1', 'a@b.c', 'r-2', '555'],
  })
})

test('client ids are recorded as erased without the patient’s own; names, and their rows, only if they are asked for', async () => {
  world.passes = [{ added: 0, responses: ['r-1'], clients: ['EHR-1'], unnamed: 1 }]
  const subjects = [
    { stream: 'patients', id: 'patient-1' },
    { stream: 'responses', id: 'r-1' },
    { stream: 'exports', id: 'client EHR-1' },
  ]
  expect(await erased()).toMatchObject({ unnamedLeft: 1 })
  expect(world.given.note).toEqual({ id: 'patient-1', subjects, former: ['0f'] })
  expect(world.given['export rows']).toEqual([7, { ids: ['patient-1', 'EHR-1'], unnamed: [] }])
  expect(await erased({ unnamedRows: true })).toMatchObject({ unnamedLeft: 0 })
  expect(world.given.note).toMatchObject({
    subjects: [...subjects, { stream: 'exports', id: 'person ann\nlee\na@b.c' }],
  })
  expect(world.given['export rows']).toMatchObject([7, { unnamed: [{ exportId: 'e', row: 0 }] }])
})

test('hashes are forgotten after the search, and tables are rewritten last, each after it was named', async () => {
  const named: [string, number][] = []
  const { rewritten } = await erased({
    forget: true,
    onRewrite: (table, bytes) => {
      named.push([table, bytes])
      step(`name ${table}`)
    },
  })
  const tables = ['intake.patients', 'intake.messages', 'intake_raw.inbox']
  expect(world.steps.slice(world.steps.indexOf('statistics'))).toEqual([
    ...['statistics', 'search', FORGET, NOW, 'keepers'],
    ...tables.flatMap((name) => [`name ${name}`, `rewrite ${name}`]),
    ...[LOGIN, 'close'],
  ])
  expect(named).toEqual([
    [tables[0], 8_192],
    [tables[1], 5],
    [tables[2], 7],
  ])
  expect(rewritten).toEqual({ tables, notOwned: [], keepers: [], isComplete: true })
  expect(world.given.keepers).toBe('99')
})

test('who keeps deleted rows is waited for, sixty looks at most; a table of another owner is left', async () => {
  world.keepers = [['session 1'], ['session 1'], []]
  expect((await erased({ onRewrite: () => {} })).rewritten).toMatchObject({ keepers: [], isComplete: true })
  expect(world.steps.filter((each) => each === 'sleep 5000')).toHaveLength(2)
  renew()
  world.notOwned = ['intake.messages']
  const left = { tables: ['intake.patients', 'intake_raw.inbox'], notOwned: ['intake.messages'] }
  const other = await erased({ onRewrite: () => {} })
  expect(other.rewritten).toEqual({ ...left, keepers: [], isComplete: false })
  renew()
  world.keepers = [['session 1']]
  const kept = await erased({ onRewrite: () => {} })
  expect(kept.rewritten).toMatchObject({ notOwned: [], keepers: ['session 1'], isComplete: false })
  expect(world.steps.filter((each) => each === 'keepers')).toHaveLength(60)
  expect(world.steps.filter((each) => each === 'sleep 5000')).toHaveLength(59)
})

const RETRIED = [
  'find',
  'identities',
  'clients',
  'note',
  'records',
  'export rows',
  'statistics',
  'rewrite intake.messages',
]

test.each(RETRIED)(
  'a lock that another session has delays the erasure, and does not end it: %s',
  async (name) => {
    world.failures[name] = [locked(), locked()]
    await erased({ onRewrite: () => {} })
    const at = world.steps.indexOf(name)
    const again = world.steps.slice(at).filter((each) => each === name || each.startsWith('sleep'))
    expect(again.slice(0, 5)).toEqual([name, 'sleep 5000', name, 'sleep 5000', name])
    expect(world.steps.at(-1)).toBe('close')
  },
)

test('after sixty tries, or for what no waiting helps, the erasure fails, and its connection is closed', async () => {
  world.failures.find = Array.from({ length: 60 }, locked)
  await expect(erased()).rejects.toMatchObject({ code: 'table_locked', verdict: 'retry' })
  expect(world.steps.filter((each) => each === 'find')).toHaveLength(60)
  expect(world.steps.slice(-2)).toEqual(['find', 'close'])
  const unreachable = new IntakeError('away', { code: 'warehouse_unreachable', verdict: 'retry' })
  const wrong = Object.assign(new pg.DatabaseError('no', 0, 'error'), { code: '42501' })
  for (const [failure, code] of [
    [unreachable, 'warehouse_unreachable'],
    [wrong, 'privilege'],
  ] as const) {
    world.steps = []
    world.failures.records = [failure]
    await expect(erased()).rejects.toMatchObject({ code })
    expect(world.steps.slice(2)).toEqual([...PASS.slice(0, 6), 'rollback', 'close'])
  }
})

test('a preview shows what would be removed, and fails for a patient that nothing is known of', async () => {
  world.passes = [{ added: 0, responses: ['r-1'], unnamed: 2 }]
  const preview = () => previewErasure('postgres://there', PATIENT)
  const found = new Map([
    ['patients', ['patient-1']],
    ['responses', ['r-1']],
  ])
  expect(await preview()).toEqual({ found, erasedBefore: false, unnamedRows: 2 })
  expect(world.steps).toEqual(['open', 'find', 'hashes', 'identities', 'clients', 'close'])
  expect(world.given).toMatchObject({ open: { url: 'postgres://there', purpose: 'erase' }, hashes: 7 })
  world.known = false
  const failure = await preview().catch((thrown: unknown) => thrown)
  expect(failure).toMatchObject({
    ...{ message: 'the warehouse has no data of a patient with this id', code: 'unknown_patient' },
    ...{ verdict: 'stop', hint: 'check the id, and set --team; it is the service’s id (intake.patients.id)' },
  })
  world.erased = ['patients:patient-1']
  expect(await preview()).toMatchObject({ erasedBefore: true })
  world.failures.find = [locked()]
  await expect(preview()).rejects.toMatchObject({ code: 'table_locked' })
})
