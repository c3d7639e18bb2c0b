/** Law 3: effect and acknowledgement commit together, and a worker whose slice was claimed by another changes nothing. */
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import type { IntakeError } from '../../src/core/errors.ts'
import { settleSlice, type TakenSlice } from '../../src/load/slice.ts'
import { patients } from '../../src/streams/patients.ts'
import { openSession, type Session } from '../../src/warehouse/connect.ts'
import { createTestDatabase, type TestDatabase } from '../support/database.ts'
import { at, recordEnvelope } from '../support/envelopes.ts'
import { loadEnvelopes, rowsOf, takeWhole, waitsForLock } from './loading.ts'

let database: TestDatabase
let one: Session
let two: Session
let teamId = 0

beforeAll(async () => {
  database = await createTestDatabase()
  one = await openSession({ url: database.url, purpose: 'worker one' })
  two = await openSession({ url: database.url, purpose: 'worker two' })
})

afterAll(async () => {
  await one.close()
  await two.close()
  await database.drop()
})

beforeEach(() => {
  teamId += 1
})

const person = (id: string) =>
  recordEnvelope(
    { id, first_name: 'Ann', date_birth: 'unknown', patient_tags: ['A'], mood: 1 },
    { teamId, stream: 'patients', observedAt: at(0) },
  )

const LETTER = { recordId: null, origin: 'run:1 page:1', reason: 'has no id', body: '{}' }

/** Number of rows of the team in each table that a batch writes. */
async function written(session: Session): Promise<Record<string, number>> {
  const tables = [
    'intake.patients',
    'intake.patient_tags',
    'intake_raw.records',
    'intake_ops.dead_letters',
    'intake_ops.problems',
    'intake_ops.drift',
  ]
  const counts: Record<string, number> = {}
  for (const table of tables)
    counts[table] = (await rowsOf(session, `select 1 from ${table} where team_id = $1`, [teamId])).length
  return counts
}

const NOTHING = {
  'intake.patients': 0,
  'intake.patient_tags': 0,
  'intake_raw.records': 0,
  'intake_ops.dead_letters': 0,
  'intake_ops.problems': 0,
  'intake_ops.drift': 0,
}

const lost = expect.objectContaining({ code: 'slice_lost', verdict: 'stop' }) as IntakeError

test.each(['straight', 'merge'] as const)(
  'a worker whose slice was claimed by another writes nothing (%s)',
  async (mode) => {
    const stale = await takeWhole(one, patients, teamId)
    const current = await takeWhole(two, patients, teamId)
    const loading = loadEnvelopes(one, patients, [person('a')], { mode, taken: stale, deadLetters: [LETTER] })
    await expect(loading).rejects.toEqual(lost)
    expect(await written(two)).toEqual(NOTHING)

    await loadEnvelopes(two, patients, [person('a')], { mode, taken: current, deadLetters: [LETTER] })
    expect(Object.values(await written(two))).toEqual([1, 1, 1, 1, 1, 1])
  },
)

test('a worker that is paused during its batch while another claims the slice rolls back completely', async () => {
  await using stranger = await openSession({ url: database.url, purpose: 'stranger' })
  const stale = await takeWhole(one, patients, teamId)
  await stranger.client.query('begin')
  await stranger.client.query('lock table intake_ops.drift in exclusive mode')
  const loading = loadEnvelopes(one, patients, [person('a')], {
    mode: 'merge',
    taken: stale,
    deadLetters: [LETTER],
  })
  const outcome = loading.then(
    () => 'loaded',
    (error: IntakeError) => error.code,
  )
  await waitsForLock(stranger, 'worker one')
  const current = await takeWhole(two, patients, teamId)
  await stranger.client.query('commit')
  expect(await outcome).toBe('slice_lost')
  expect(await written(two)).toEqual(NOTHING)
  expect(await loadEnvelopes(two, patients, [person('a')], { mode: 'merge', taken: current })).toMatchObject({
    changed: 1,
  })
})

test('the next worker continues from a settled cursor', async () => {
  const taken = await takeWhole(one, patients, teamId)
  expect(taken.cursor).toBeNull()
  await settleSlice(one.db, taken, { scanned_at: at(1) })
  expect(await takeWhole(two, patients, teamId, '2')).toMatchObject({
    cursor: { scanned_at: at(1) },
    runId: '2',
  })
})

test('a stale worker does not move the cursor', async () => {
  const stale = await takeWhole(one, patients, teamId)
  await settleSlice(one.db, stale, { place: 1 })
  const current = await takeWhole(two, patients, teamId)
  await expect(settleSlice(one.db, stale, { place: 2 })).rejects.toEqual(lost)
  expect(await takeWhole(one, patients, teamId)).toMatchObject({ cursor: { place: 1 } })
  await expect(settleSlice(two.db, current, { place: 3 })).rejects.toEqual(lost)
})

test('a slice that was never claimed belongs to no worker', async () => {
  const taken: TakenSlice = {
    teamId,
    stream: 'patients',
    slice: '',
    epoch: '1',
    runId: '1',
    cursor: null,
    takenAt: '-infinity',
  }
  await expect(loadEnvelopes(one, patients, [person('a')], { mode: 'merge', taken })).rejects.toEqual(lost)
  expect(await written(one)).toEqual(NOTHING)
})
