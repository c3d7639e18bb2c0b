/** Each step of keeping the days of the inbox, with its limits, and what a failure of one leaves to the next time. */
import { beforeEach, expect, test, vi } from 'vitest'
import { keepInboxDays } from '../../../src/ingest/inbox/days.ts'
import { openSession } from '../../../src/warehouse/connect.ts'
import { scripted } from '../../support/scripted.ts'

vi.mock('../../../src/warehouse/connect.ts')

const NOW = new Date('2026-03-31T10:00:00.000Z')
const BEFORE = '2026-03-01T10:00:00.000Z'

let steps: unknown[][]
/** What each statement about a day results in, or the code that it fails with; `days` are those that are found. */
let made: Record<string, number | string>
let dropped: Record<string, boolean | string>
/** Events that each removal removes. */
let removed: number[]

const daysOf = (all: object) => Object.keys(all).map((day) => ({ day }))
const fail = (code: string) => {
  throw Object.assign(new Error('failed'), { code })
}

beforeEach(() => {
  ;[steps, removed] = [[], []]
  made = { '2026-03-31': 0, '2026-04-01': 7 }
  dropped = { '2026-01-01': true, '2026-01-02': false, '2026-01-03': true }
  const db = scripted((text, parameters) => {
    const step = /add_inbox_day|drop_inbox_day|delete|set_config|set statement|pg_inherits|select day/.exec(
      text,
    )![0]
    steps.push([step, ...parameters])
    if (step === 'select day') return daysOf(made)
    if (step === 'pg_inherits') return daysOf(dropped)
    if (step === 'delete') return removed.shift() ?? 0
    const day = parameters[0] as string
    if (step === 'add_inbox_day') {
      const moved = made[day]!
      return typeof moved === 'string' ? fail(moved) : [{ moved }]
    }
    if (step !== 'drop_inbox_day') return []
    const isDropped = dropped[day]!
    return typeof isDropped === 'string' ? fail(isDropped) : [{ dropped: isDropped }]
  })
  vi.mocked(openSession).mockResolvedValue({
    db,
    [Symbol.asyncDispose]: async () => void steps.push(['closed']),
  } as never)
})

const keep = () => keepInboxDays('postgres://here', { days: 30, now: NOW })

test('days are made within a second each, then old ones dropped, then what is left of others removed, in this order', async () => {
  expect(await keep()).toEqual({ created: 2, dropped: 2, moved: 7 })
  expect(steps).toEqual([
    ['select day', NOW.toISOString(), 2, 50_000],
    ['set_config', '1000'],
    ['add_inbox_day', '2026-03-31', 10_000],
    ['add_inbox_day', '2026-04-01', 10_000],
    ['set statement'],
    ['pg_inherits', BEFORE],
    ['drop_inbox_day', '2026-01-01', BEFORE],
    ['drop_inbox_day', '2026-01-02', BEFORE],
    ['drop_inbox_day', '2026-01-03', BEFORE],
    ['delete', BEFORE, 5_000],
    ['closed'],
  ])
  expect(vi.mocked(openSession).mock.lastCall).toEqual([
    { url: 'postgres://here', purpose: 'inbox days', lockTimeoutMs: 100 },
  ])
})

test.each([
  ['a lock that is taken', '55P03'],
  ['a statement that takes too long', '57014'],
  ['a deadlock', '40P01'],
  ['a table that another process removed', '42P01'],
  ['a table that another process made', '42P07'],
  ['more events than are moved at once', '54000'],
])('%s leaves that day for the next time', async (_, code) => {
  made['2026-03-31'] = code
  dropped['2026-01-02'] = code
  expect(await keep()).toEqual({ created: 1, dropped: 1, moved: 7 })
  // Another day would wait for the same locks; nothing else is left out.
  expect(steps.map(([step]) => step).slice(5)).toEqual([
    ...['pg_inherits', 'drop_inbox_day', 'drop_inbox_day', 'delete', 'closed'],
  ])
})

test.each([
  ['making', '42501', 'privilege'],
  ['making', '53100', 'disk_full'],
  ['dropping', '57P01', 'shutdown'],
])('any other failure of %s ends it (%s), as one of the warehouse', async (what, code, reason) => {
  if (what === 'making') made['2026-03-31'] = code
  else dropped['2026-01-01'] = code
  await expect(keep()).rejects.toMatchObject({ name: 'IntakeError', code: reason })
  expect(steps.at(-1)).toEqual(['closed'])
})

test.each([
  [[5_000, 5_000, 4_999], 3],
  [[5_000, 0], 2],
  [Array<number>(25).fill(5_000), 20],
])(
  'events without a day of their own are removed by portions, until one is not full, or twenty were',
  async (portions, count) => {
    removed = [...portions]
    await keep()
    expect(steps.filter(([step]) => step === 'delete')).toHaveLength(count)
  },
)
