/** How often webhooks are judged, for how long, and for which teams: all together, or one by one where that took too long. */
import { Registry } from 'prom-client'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { type Clock, systemClock } from '../../../src/core/clock.ts'
import { openGauges } from '../../../src/operate/health/gauges.ts'
import { readWebhooks, type WebhookStatus } from '../../../src/operate/health/team-status.ts'
import { openWebhookChecks } from '../../../src/operate/health/webhook-checks.ts'
import { type BoundedQueries, boundedQuery } from '../../../src/warehouse/bounded-queries.ts'
import { withinBudget } from '../../../src/warehouse/connect.ts'
import { readTeams } from '../../../src/warehouse/teams.ts'

vi.mock('../../../src/warehouse/connect.ts', async (original) => ({
  ...(await original()),
  withinBudget: vi.fn(),
}))
vi.mock('../../../src/warehouse/bounded-queries.ts', async (original) => ({
  ...(await original()),
  boundedQuery: vi.fn(),
}))
vi.mock('../../../src/warehouse/teams.ts', async (original) => ({
  ...(await original()),
  readTeams: vi.fn(),
}))
vi.mock('../../../src/operate/health/team-status.ts', async (original) => ({
  ...(await original()),
  readWebhooks: vi.fn(),
}))

/** The looks of a check: at which team, or all; with which limit. */
let looks: string[]
/** Looks that exceed their limit; how many milliseconds each look takes. */
let late: ReadonlySet<string>
let takes: number
let names: readonly string[]

const statusOf = (team: string): WebhookStatus => ({
  ...{
    team,
    verdict: 'ok',
    reason: '',
    last_event_at: null,
    events_last_day: 0,
    events_expected_a_day: null,
  },
  ...{ deliveries_missing: 0, deliveries_failed: 0 },
})

beforeEach(() => {
  looks = []
  late = new Set()
  takes = 0
  names = ['north', 'south', 'west']
  vi.useFakeTimers({ toFake: ['performance', 'setTimeout', 'clearTimeout'] })

  vi.mocked(readTeams).mockImplementation(
    async () => names.map((name, at) => ({ name, teamId: 9 - at })) as never,
  )
  vi.mocked(readWebhooks).mockImplementation(async (_, { inboxDays, team = 'all' }) => {
    looks[looks.length - 1] = `${team} of ${inboxDays} days ${looks.at(-1)}`
    return (team === 'all' ? names : [team]).map(statusOf)
  })
  vi.mocked(withinBudget).mockImplementation(async (_, milliseconds, look) => {
    looks.push(`in ${milliseconds} ms`)
    const result = await look(db)
    vi.advanceTimersByTime(takes)
    return late.has(looks.at(-1)!.split(' ')[0]!) ? null : result
  })
})

afterEach(() => void vi.useRealTimers())

const db = {} as never
const teamsOf = (statuses: readonly WebhookStatus[]) => statuses.map(({ team }) => team)

test('all teams are judged together, within the limit of one, and those that are asked for are returned', async () => {
  const checks = openWebhookChecks({ inboxDays: 11 })
  expect(teamsOf(await checks.check(db, null))).toEqual(['north', 'south', 'west'])
  expect(teamsOf(await checks.check(db, ['west', 'south', 'unknown']))).toEqual(['south', 'west'])
  expect(looks).toEqual(Array(2).fill('all of 11 days in 2000 ms'))
})

test('after a check of all that took too long, this one and nine more are made one by one, then together again', async () => {
  const checks = openWebhookChecks({ inboxDays: 11 })
  late = new Set(['all'])
  // In the order of their numbers.
  expect(teamsOf(await checks.check(db, null))).toEqual(['west', 'south', 'north'])
  const each = ['west', 'south', 'north'].map((team) => `${team} of 11 days in 2000 ms`)
  expect(looks).toEqual(['all of 11 days in 2000 ms', ...each])
  late = new Set()
  looks = []
  for (let round = 0; round < 9; round++) await checks.check(db, null)
  expect(looks).toEqual(Array(9).fill(each).flat())
  looks = []
  await checks.check(db, null)
  expect(looks).toEqual(['all of 11 days in 2000 ms'])
})

test('one by one, each team has its limit and all have one; those that were not reached come first', async () => {
  const checks = openWebhookChecks({ inboxDays: 11 })
  late = new Set(['all', 'south'])
  takes = 1_900
  // 5 seconds for all of them: 2, 2, and what is left.
  expect(teamsOf(await checks.check(db, null))).toEqual(['west', 'north'])
  expect(looks.slice(1)).toEqual([
    ...['west of 11 days in 2000 ms', 'south of 11 days in 2000 ms', 'north of 11 days in 1200 ms'],
  ])
  looks = []
  takes = 2_500
  await checks.check(db, null)
  expect(looks.map((look) => look.split(' ')[0])).toEqual(['west', 'south'])
  looks = []
  await checks.check(db, null)
  expect(looks.map((look) => look.split(' ')[0])).toEqual(['north', 'west'])
  // Of these teams only; one that was removed is forgotten, and is new when it is back.
  names = ['north', 'south']
  takes = 0
  looks = []
  await checks.check(db, ['south', 'west'])
  names = ['north', 'south', 'west']
  await checks.check(db, null)
  expect(looks.map((look) => look.split(' ')[0])).toEqual(['south', 'west', 'north', 'south'])
})

test('metrics judge webhooks each minute, at once after a failure, one look at a time, and wait 1.5 seconds for none', async () => {
  let now = 0
  const clock: Clock = { ...systemClock, now: () => now }
  const bounded = { run: async () => [[], [], [], [], []] } as unknown as BoundedQueries
  const gauges = openGauges({
    ...{ url: 'postgres://of-the-test', bounded, registry: new Registry(), clock, inboxDays: 11 },
    inFlight: () => ({ events: 0, bytes: 0 }),
  })
  const asked = vi.mocked(boundedQuery)
  let answer: (error?: Error) => void = () => {}
  asked.mockImplementation(async (_, work) => {
    await new Promise<void>((resolve, reject) => {
      answer = (error) => (error === undefined ? resolve() : reject(error))
    })
    return await work(db)
  })
  const answered = async (error?: Error) => {
    answer(error)
    await vi.advanceTimersByTimeAsync(1)
  }
  const refreshed = async (seconds: number) => {
    now += seconds * 1_000_000
    let isDone = false
    const refreshing = gauges.refresh().then(() => {
      isDone = true
    })
    await vi.advanceTimersByTimeAsync(1_499)
    const before = isDone
    await vi.advanceTimersByTimeAsync(1)
    await refreshing
    return [asked.mock.calls.length, before]
  }
  expect(await refreshed(0)).toEqual([1, false])
  expect(asked.mock.calls[0]![0]).toEqual({
    ...{ url: 'postgres://of-the-test', purpose: 'webhook metrics', milliseconds: 8_000 },
  })
  // Still under way, however old.
  expect(await refreshed(100)).toEqual([1, false])
  await answered(new Error('of the test'))
  expect(await refreshed(0)).toEqual([2, false])
  await answered()
  expect(await refreshed(59.9)).toEqual([2, true])
  expect(await refreshed(0.1)).toEqual([3, false])
  expect(looks).toEqual(['all of 11 days in 2000 ms'])
  // Nothing is left that would keep the process alive.
  await answered()
  expect(await refreshed(1)).toEqual([3, true])
  expect(vi.getTimerCount()).toBe(0)
})
