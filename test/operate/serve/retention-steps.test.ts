/** Retention in portions: how many of each kind, for which teams, tables and days, without a warehouse. */
import { beforeEach, expect, test, vi } from 'vitest'
import { sumUpCounts } from '../../../src/operate/health/counts.ts'
import { prune } from '../../../src/operate/serve/retention.ts'
import { type Reply, scripted } from '../../support/scripted.ts'

vi.mock('../../../src/operate/health/counts.ts', () => ({ sumUpCounts: vi.fn() }))

beforeEach(() => void vi.clearAllMocks())

const NOW = new Date('2026-03-01T00:00:00Z')
const KINDS: readonly (readonly [name: string, pattern: RegExp])[] = [
  ['scans', /^delete from intake_ops.scans/],
  ['runs', /^delete from intake_ops.runs/],
  ['dead letters', /^delete from intake_ops.dead_letters/],
  ['ticks', /^delete from intake_ops.schedule_ticks/],
  ['teams', /^select "team_id" from "intake"."teams"/],
  ['mark', /^insert into intake_ops.pruned_logs/],
  ['expired', /^select id from intake_raw.records/],
  ['delete', /^delete from "intake(?:_raw)?"."/],
  ['past', /^select .* from intake_raw.record_history past/],
]

/** Each statement with its dates and teams; `replies` has the replies of each kind, one after another. */
async function pruned(replies: Readonly<Record<string, readonly Reply[]>>, days: object = {}) {
  const asked: string[] = []
  const left = new Map(Object.entries(replies).map(([name, own]) => [name, [...own]]))
  const db = scripted((statement, values) => {
    if (/^(begin|commit)$/.test(statement)) return []
    const name = KINDS.find(([, pattern]) => pattern.test(statement))?.[0] ?? statement
    const table = /"(\w+)"\."(\w+)"/.exec(statement)?.[2] ?? ''
    const dates = values.filter((value) => typeof value === 'string' && /^2\d\d\d-/.test(value))
    const place = name === 'mark' || name === 'expired' || name === 'delete' ? [values[0], table] : []
    asked.push([name, ...place, ...new Set(dates)].join(' ').trim())
    return left.get(name)?.shift() ?? []
  })
  const counts = await prune({ db, historyDays: null, runDays: 20, now: NOW, forMs: 60_000, ...days })
  return { counts, asked }
}

test('each kind is removed portion by portion until one is not full, and the portions are summed up', async () => {
  const { counts, asked } = await pruned({
    runs: [1_000, 1_000, 7],
    'dead letters': [1_000, 0],
    ticks: [999],
    teams: [[]],
  })
  expect(counts).toEqual({ history: 0, runs: 2_007, deadLetters: 1_000, ticks: 999, deliveries: 0 })
  const before = '2026-02-09T00:00:00.000Z'
  expect(asked).toEqual([
    ...['scans', `runs ${before}`, `runs ${before}`, `runs ${before}`],
    ...[`dead letters ${before}`, `dead letters ${before}`, `ticks ${before}`, 'teams'],
  ])
})

test('logs of every team are marked first; their entries go with what is stored of them, in every table', async () => {
  const entries = (count: number) => Array.from({ length: count }, (_, at) => ({ id: `d${at}` }))
  const { counts, asked } = await pruned({
    teams: [[{ team_id: 2 }, { team_id: 5 }]],
    expired: [entries(1_000), entries(3), entries(2)],
    delete: [0, 0, 0, 1_000, 0, 0, 0, 3, 0, 0, 0, 2],
  })
  expect(counts.deliveries).toBe(1_005)
  const tables = ['records', 'record_history', 'list_entries', 'webhook_deliveries']
  const portion = (team: number) => [
    `expired ${team} webhook_deliveries`,
    ...tables.map((table) => `delete ${team} ${table}`),
  ]
  const mark = (team: number) => `mark ${team} webhook_deliveries 2026-02-09T00:00:00.000Z`
  expect(asked.slice(5)).toEqual([mark(2), ...portion(2), ...portion(2), mark(5), ...portion(5)])
})

test('what has no limit of days stays, and a time that has passed ends it after a portion', async () => {
  expect((await pruned({}, { runDays: null })).asked).toEqual(['scans'])
  const past = await pruned({ teams: [[]] }, { runDays: null, historyDays: 3 })
  expect(past.asked).toEqual(['scans', 'past 2026-02-26T00:00:00.000Z'])
  const { counts, asked } = await pruned({ runs: [1_000, 5], teams: [[]] }, { forMs: -1 })
  expect([counts.runs, asked]).toEqual([0, ['scans', 'teams']])
  await pruned({ teams: [[]] }, { teams: ['north', 'south'] })
  expect(vi.mocked(sumUpCounts).mock.calls.map(([, teams]) => teams)).toEqual([
    ...[null, null, null],
    ['north', 'south'],
  ])
})
