/** Questions and runs of the warehouse that wait, and looks of doctor that fail: each is one check, and the others run. */
import { afterAll, beforeAll, beforeEach, expect, test, vi } from 'vitest'
import { IntakeError } from '../../../src/core/errors.ts'
import { type Check, failed, ok, warning } from '../../../src/operate/doctor/check.ts'
import { checkWarehouse } from '../../../src/operate/doctor/warehouse.ts'
import { createTestDatabase, type TestDatabase } from '../../support/database.ts'

const world = vi.hoisted(() => ({
  opened: [] as unknown[],
  refused: 0,
  questions: [] as unknown,
  slices: [] as unknown,
}))
const found = async (given: unknown) => {
  if (given instanceof Error) throw given
  return given
}

vi.mock('../../../src/warehouse/connect.ts', async (original) => {
  const real = await original<typeof import('../../../src/warehouse/connect.ts')>()
  return {
    ...real,
    openSession: async (options: Parameters<typeof real.openSession>[0]) => {
      world.opened.push({ ...options, url: '' })
      if (world.opened.length === world.refused) throw new Error('refused')
      return real.openSession(options)
    },
  }
})
vi.mock('../../../src/analytics/classify.ts', async (original) => ({
  ...(await original<object>()),
  waitingQuestions: () => found(world.questions),
}))
vi.mock('../../../src/operate/health/runs.ts', async (original) => ({
  ...(await original<object>()),
  readWaitingSlices: () => found(world.slices),
}))

let database: TestDatabase
beforeAll(async () => {
  database = await createTestDatabase()
})
afterAll(() => database.drop())
beforeEach(() => void Object.assign(world, { opened: [], refused: 0, questions: [], slices: [] }))

async function checks(): Promise<Readonly<Record<string, Check>>> {
  const { checks: all, session } = await checkWarehouse(database.url)
  await session?.close()
  return Object.fromEntries(all.map((check) => [check.name, check]))
}

test('reworded questions are named up to five, and the slices of each team that wait, with what to do', async () => {
  world.questions = ['a', 'b', 'c', 'd', 'e', 'f', 'g'].map((id) => ({
    ...{ team: 'north', form_id: 'form-1', question_id: id },
  }))
  const waiting = { run_id: 7, slices: 1, seconds: 179, workers: 0 }
  world.slices = [
    { team: 'north', ...waiting },
    { team: 'south', ...waiting, slices: 12, workers: 2 },
  ]
  const { questions, slices } = await checks()
  expect(questions).toEqual(
    warning(
      'questions',
      `7 reworded question(s) wait for a decision: ${['a', 'b', 'c', 'd', 'e'].map((id) => `${id} of form form-1`).join(', ')}, and 2 more`,
      'intake-sync classify list --waiting, then classify set',
    ),
  )
  expect(slices).toEqual(
    warning(
      'slices',
      'north: 1 slice of run 7 waiting, and no worker is running; ' +
        'south: 12 slices of run 7 waiting for 2 minutes, and claimed by none of the running workers (2)',
      'start intake-sync work, or serve, with the team in its configuration',
    ),
  )
})

test('a look that fails is a failed check with its hint, and ends no other', async () => {
  const hint = 'end or wait for the session that holds it (pg_locks, pg_stat_activity), then run again'
  world.questions = Object.assign(new Error('of a value'), { code: '55P03' })
  world.slices = new IntakeError('not now', { code: 'schema', verdict: 'retry' })
  const { questions, slices, roles } = await checks()
  expect(questions).toEqual(
    failed('questions', 'a table of the warehouse is locked by another session', hint),
  )
  expect(slices).toEqual(failed('slices', 'not now', 'run doctor again; report the error if it persists'))
  expect(roles).toMatchObject({ status: 'ok' })
})

test('a second connection that is refused is a warning; without the first, nothing else is looked at', async () => {
  world.refused = 2
  const { 'database sessions': sessions, slices } = await checks()
  expect(sessions).toEqual(
    warning('database sessions', 'a second connection was refused', 'allow at least ten connections'),
  )
  expect(slices).toEqual(ok('slices', 'no planned run waits for a worker'))
  // The first one waits for locks as those of a load do.
  expect(world.opened.slice(0, 2)).toEqual([
    { url: '', purpose: 'doctor', lockTimeoutMs: 2_000 },
    { url: '', purpose: 'doctor' },
  ])
  Object.assign(world, { opened: [], refused: 1 })
  expect(await checkWarehouse(database.url)).toEqual({
    checks: [failed('database', expect.any(String), expect.any(String))],
    ...{ session: null, migrated: false },
  })
})
