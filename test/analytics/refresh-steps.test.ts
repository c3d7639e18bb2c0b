/** The steps of a refresh after a run: their order, which depend on others, and what a failure of each says. */
import pg from 'pg'
import { beforeEach, expect, test, vi } from 'vitest'
import { refreshAnalytics } from '../../src/analytics/refresh.ts'
import { IntakeError } from '../../src/core/errors.ts'
import { scripted } from '../support/scripted.ts'

const world = vi.hoisted(() => ({
  steps: [] as string[],
  failing: {} as Record<string, unknown>,
  isAhead: false,
  views: [] as string[],
  tables: [] as { name: string }[],
}))
const step = (name: string) => {
  world.steps.push(name)
  if (name in world.failing) throw world.failing[name]
}

vi.mock('../../src/warehouse/migrations.ts', async (original) => ({
  ...(await original<object>()),
  isAhead: async () => world.isAhead,
  ensureRoles: async () => step('roles'),
}))
vi.mock('../../src/analytics/classify.ts', () => ({ noteQuestions: async () => step('questions') }))
vi.mock('../../src/analytics/views.ts', async (original) => ({
  ...(await original<object>()),
  syncViews: async () => {
    step('views')
    return world.views
  },
}))
vi.mock('../../src/analytics/wide/wide-views.ts', () => ({
  refreshWideViews: async () => step('wide views'),
}))

const db = scripted((statement) => {
  const [word] = statement.split(' ')
  step(statement.includes('restart_changes') ? 'changes' : word === 'analyze' ? statement : 'tables')
  return statement.includes('reltuples') ? world.tables : []
})

beforeEach(() => {
  Object.assign(world, { steps: [], failing: {}, isAhead: false, views: [], tables: [] })
})

const ALL = ['changes', 'questions', 'views', 'wide views', 'tables']

test('views are made before those that are built on them, and roles get their grants on new ones', async () => {
  expect(await refreshAnalytics(db)).toBeNull()
  expect(world.steps).toEqual(ALL)
  Object.assign(world, { steps: [], views: ['intake_analytics.patients'] })
  world.tables = [{ name: 'intake.patients' }, { name: 'intake_raw.records' }]
  expect(await refreshAnalytics(db)).toBeNull()
  expect(world.steps).toEqual([
    ...['changes', 'questions', 'views', 'roles', 'wide views', 'tables'],
    'analyze "intake"."patients", "intake_raw"."records"',
  ])
})

test('the views of a newer version are left alone; all else is done', async () => {
  Object.assign(world, { isAhead: true, views: ['intake_analytics.patients'] })
  expect(await refreshAnalytics(db)).toBeNull()
  expect(world.steps).toEqual(ALL.filter((name) => name !== 'views'))
})

const state = (code: string) => Object.assign(new pg.DatabaseError('of a value', 0, 'error'), { code })
const inUse = new IntakeError('the columns changed', {
  ...{ code: 'views_in_use', verdict: 'stop', hint: 'drop what was built on them' },
})
const NOT_OWNER =
  'the wide views are not up to date: only who owns the schemas may make them; run intake-sync migrate as the owner'

test.each([
  ['views', inUse, 'the views are not up to date: the columns changed; drop what was built on them'],
  ['wide views', state('42501'), NOT_OWNER],
  ['questions', state('42501'), NOT_OWNER],
  [
    'wide views',
    state('55P03'),
    'the wide views are not up to date (SQLSTATE 55P03); the next run tries again',
  ],
  ['views', state('EPIPE'), 'the wide views are not up to date (EPIPE); the next run tries again'],
  ['views', state('ECONNRESET'), 'the wide views are not up to date (ECONNRESET); the next run tries again'],
  ['tables', state('57014'), 'the wide views are not up to date (SQLSTATE 57014); the next run tries again'],
])('a failure of the %s fails no run: what is said contains no value', async (name, failure, message) => {
  world.failing = { [name]: failure }
  expect(await refreshAnalytics(db)).toBe(message)
  expect(world.steps.at(-1)).toBe(name)
})

test('a fault of ours is thrown', async () => {
  const failure = new TypeError('of ours')
  world.failing = { views: failure }
  await expect(refreshAnalytics(db)).rejects.toBe(failure)
})
