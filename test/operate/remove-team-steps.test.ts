/** The steps of the removal of a team: their order, what each is given, how it is tried again, and what is left. */
import { beforeEach, expect, test, vi } from 'vitest'
import { refreshAnalytics } from '../../src/analytics/refresh.ts'
import { wideViewsOf } from '../../src/analytics/wide/wide-views.ts'
import { deleteRows } from '../../src/operate/delete-team-rows.ts'
import { refreshStatistics } from '../../src/operate/erase/refresh-statistics.ts'
import { removeTeam } from '../../src/operate/remove-team.ts'
import { lockAlone, tryLock } from '../../src/warehouse/locks.ts'
import { scripted } from '../support/scripted.ts'

const world = vi.hoisted(() => ({
  steps: [] as string[],
  failures: {} as Record<string, unknown[]>,
  /** Events that each statement settles. */
  events: [] as number[],
  step(name: string) {
    world.steps.push(name)
    const failure = world.failures[name]?.shift()
    if (failure !== undefined) throw failure
  },
}))

vi.mock('../../src/warehouse/connect.ts', () => ({
  openSession: async (options: object) => {
    world.step(`open ${JSON.stringify(options)}`)
    return { db: scripted(answers), [Symbol.asyncDispose]: async () => world.step('close') }
  },
}))
vi.mock('../../src/warehouse/teams.ts', () => ({
  readTeams: async () => ['south', 'north'].map((name, at) => ({ name, teamId: at + 6, isRemoved: false })),
}))
vi.mock('../../src/warehouse/locks.ts', async (original) => ({
  ...(await original<object>()),
  tryLock: vi.fn(),
  lockAlone: vi.fn(),
}))
vi.mock('../../src/load/runs.ts', () => ({
  lockStreams: async (
    _: unknown,
    streams: readonly unknown[],
    teams: readonly { teamId: number; name: string }[],
  ) =>
    world.step(
      `lock ${streams.length > 5 ? 'all' : 'some'} streams of ${teams.map(({ teamId, name }) => `${teamId} ${name}`)}`,
    ),
}))
vi.mock('../../src/analytics/refresh.ts', () => ({ refreshAnalytics: vi.fn() }))
vi.mock('../../src/analytics/wide/wide-views.ts', () => ({ wideViewsOf: vi.fn() }))
vi.mock('../../src/operate/delete-team-rows.ts', () => ({ deleteRows: vi.fn() }))
vi.mock('../../src/operate/erase/refresh-statistics.ts', () => ({ refreshStatistics: vi.fn() }))

function answers(statement: string, values: readonly unknown[]) {
  const [word] = /^(?:update|insert into|delete from|drop view if exists|select run_id) ?\S*/.exec(
    statement,
  ) ?? [statement]
  world.step(`${word} [${values}]`)
  if (word === 'update intake_raw.inbox') return world.events.shift() ?? 0
  return []
}

const failing = (code: string) => Object.assign(new Error('of the server'), { code })
const pauses: unknown[] = []
const { signal } = new AbortController()
const clock = {
  now: () => 0,
  sleep: async (milliseconds: number, given?: AbortSignal) =>
    void pauses.push([milliseconds, given === signal]),
}
const remove = (data: 'kept' | 'deleted' = 'kept', stop = signal) =>
  removeTeam({ url: 'postgres://there', name: 'north', data, clock, signal: stop })

beforeEach(() => {
  Object.assign(world, { steps: [], failures: {}, events: [5_000, 3] })
  pauses.length = 0
  vi.mocked(tryLock).mockImplementation(async (_, kind, name) => {
    world.step(`try ${kind} ${name}`)
    return true
  })
  vi.mocked(lockAlone).mockImplementation(async (_, kind, name) => world.step(`lock ${kind} ${name}`))
  vi.mocked(wideViewsOf).mockImplementation(async (_, team) => {
    world.step(`views of ${team}`)
    return ['intake_analytics.one', 'intake_analytics.two']
  })
  let pass = 0
  vi.mocked(deleteRows).mockImplementation(async (_, team, __, given) => {
    world.step(`rows of ${team}, ${given === signal}`)
    pass += 1
    return pass === 1 ? { rows: 10, tables: ['b', 'c'] } : { rows: 2, tables: ['a', 'b'] }
  })
  vi.mocked(refreshAnalytics).mockImplementation(async () => {
    world.step('refresh')
    return null
  })
  vi.mocked(refreshStatistics).mockImplementation(async () => {
    world.step('statistics')
    return true
  })
})

const BEGUN = [
  'open {url:postgres://there,purpose:teams remove,lockTimeoutMs:2000}',
  ...['try team north', 'lock all streams of 7 north'],
  expect.stringMatching(/^select run_id\S* \[north,/),
]
const settled = (data: string) => [
  `insert into intake_ops.removed_teams [7,north,${data}]`,
  ...['lock loading 7', 'lock receiving 7'],
  // Until a statement finds no event.
  ...Array(3).fill('update intake_raw.inbox [7,7,5000]'),
]
const WORK = ['refetches', 'checkpoints', 'scans', 'missed_once', 'alerts', 'schedule_ticks']
const short = (steps: readonly string[]) =>
  steps.map((step) =>
    step
      .replace(/ \[\]$/, '')
      .replaceAll('"intake_ops"."', '"')
      .replaceAll('"', ''),
  )

test('a team whose data is kept is marked before its locks, then its events are settled and its work goes', async () => {
  expect(await remove()).toEqual({ teamId: 7, events: 5_003, rows: 0, tables: [], notes: [] })
  expect(short(world.steps)).toEqual([
    ...BEGUN,
    ...settled('kept'),
    'begin',
    ...WORK.map((table) => `delete from ${table} [7]`),
    ...['update intake_ops.removed_teams [5003,7]', 'commit', 'update intake_ops.removed_teams [7]', 'close'],
  ])
  expect(pauses).toEqual([])
})

const DROPPED = [
  'views of 7',
  ...['one', 'two'].map((view) => `drop view if exists intake_analytics.${view}`),
]
const DELETED = [
  ...[...DROPPED, 'rows of 7, true', 'refresh', ...DROPPED, 'rows of 7, true'],
  ...['delete from intake.teams [7]', 'statistics', 'update intake_ops.removed_teams [7]', 'close'],
]

test('data is deleted before and after the views are refreshed, then the team itself, and statistics last', async () => {
  expect(await remove('deleted')).toEqual({
    teamId: 7,
    events: 5_003,
    rows: 12,
    tables: ['a', 'b', 'c'],
    notes: [],
  })
  const steps = short(world.steps)
  expect(steps.slice(steps.indexOf('commit') + 1)).toEqual(DELETED)
})

test('what stays is noted: views that are out of date, that others own or build on, and statistics', async () => {
  vi.mocked(refreshAnalytics).mockResolvedValue('views are out of date')
  vi.mocked(refreshStatistics).mockResolvedValue(false)
  const drop = 'drop view if exists "intake_analytics".'
  world.failures[`${drop}"one" []`] = [failing('42501')]
  world.failures[`${drop}"two" []`] = [failing('2BP01')]
  expect((await remove('deleted')).notes).toEqual([
    'views are out of date',
    'views stay, because others own them or build on them; drop them: intake_analytics.one, intake_analytics.two',
    'planner statistics may still contain values of the team; docs/security.md describes what to do',
  ])
  world.failures[`${drop}"one" []`] = [failing('42P01')]
  await expect(remove('deleted')).rejects.toMatchObject({ code: 'other_schema' })
})

const RETRIED = [
  'insert into intake_ops.removed_teams [7,north,deleted]',
  ...['lock loading 7', 'lock receiving 7', 'update intake_raw.inbox [7,7,5000]', 'begin []'],
  ...['drop view if exists "intake_analytics"."one" []', 'delete from intake.teams [7]', 'statistics'],
]

test.each(RETRIED)(
  'a step that finds its lock taken is tried up to sixty times, a second apart: %s',
  async (step) => {
    world.failures[step] = Array.from({ length: 59 }, () => failing('55P03'))
    await remove('deleted')
    expect(pauses).toEqual(Array(59).fill([1_000, true]))
    world.failures[step] = Array.from({ length: 60 }, () => failing('55P03'))
    await expect(remove('deleted')).rejects.toMatchObject({ code: 'table_locked' })
    expect(pauses).toHaveLength(59 + 59)
    expect(world.steps.at(-1)).toBe('close')
  },
)

test('a warehouse that is away, or a refusal, is not waited for; a removal that was stopped says that it was', async () => {
  for (const [code, expected] of [
    ['ECONNREFUSED', 'warehouse_unreachable'],
    ['42501', 'privilege'],
  ] as const) {
    world.failures['lock loading 7'] = [failing(code)]
    await expect(remove()).rejects.toMatchObject({ code: expected })
  }
  expect(pauses).toEqual([])
  const stop = new AbortController()
  stop.abort(new Error('stopped by a person'))
  await expect(remove('kept', stop.signal)).rejects.toThrow('stopped by a person')
  vi.mocked(tryLock).mockResolvedValue(false)
  await expect(remove()).rejects.toMatchObject({
    ...{ code: 'held_by_another_run', verdict: 'stop', hint: 'wait for it to end, or stop it' },
    message: 'team north is being removed already; nothing was started',
  })
})
