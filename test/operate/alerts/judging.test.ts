/** What findings become alerts, to the second and the count; which are judged, and which wait because a run or a query does. */
import { beforeEach, expect, test, vi } from 'vitest'
import { waitingQuestions } from '../../../src/analytics/classify.ts'
import { CAUSES, type Cause, type Condition } from '../../../src/operate/alerts/causes.ts'
import { type ConditionOptions, findConditions } from '../../../src/operate/alerts/conditions.ts'
import { readRunsNow } from '../../../src/operate/alerts/runs-now.ts'
import { readWaitingSlices } from '../../../src/operate/health/runs.ts'
import { readInbox } from '../../../src/operate/health/team-status.ts'
import { withinBudget } from '../../../src/warehouse/connect.ts'
import { scripted } from '../../support/scripted.ts'

vi.mock('../../../src/analytics/classify.ts')
vi.mock('../../../src/operate/alerts/runs-now.ts')
vi.mock('../../../src/operate/health/team-status.ts')
vi.mock('../../../src/operate/health/runs.ts')
vi.mock('../../../src/warehouse/connect.ts')

const NAMES = ['inbox', 'runs', 'dead_letters', 'drift', 'defects', 'questions', 'slices'] as const
const LIMITS = [3_000, 3_000, 2_000, 2_000, 2_000, 1_000, 2_000]

/** The one query that takes too long. */
let slow: (typeof NAMES)[number] | null
let limits: number[]
let webhooks: { team: string; verdict: string; events_last_day: number }[]

beforeEach(() => {
  slow = null
  limits = []
  webhooks = ['north', 'south'].map((team) => ({ team, verdict: 'flowing', events_last_day: 9 }))
  vi.mocked(withinBudget).mockImplementation(async (db, milliseconds, read) => {
    limits.push(milliseconds)
    return NAMES[limits.length - 1] === slow ? null : await read(db)
  })
  vi.mocked(readRunsNow).mockResolvedValue({ conditions: [], busy: new Set() })
  vi.mocked(readInbox).mockResolvedValue([])
  vi.mocked(readWaitingSlices).mockResolvedValue([])
  vi.mocked(waitingQuestions).mockResolvedValue([])
})

async function find(more: Partial<ConditionOptions> = {}, db = scripted(() => [])) {
  const checked: unknown[] = []
  const check = async (_: unknown, teams: unknown) => {
    checked.push(teams)
    return webhooks as never
  }
  const found = await findConditions(db, {
    ...{ teams: ['north', 'south'], inboxSeconds: 300, maxAgeHours: 26, thorough: true, raised: new Set() },
    webhookChecks: { check },
    ...more,
  })
  return {
    ...found,
    checked,
    /** Causes that are judged for a team and stream. */
    judged: (team: string, stream: string) =>
      CAUSES.filter((cause) => found.isJudged({ team, cause, stream })),
  }
}
const without = (...left: readonly Cause[]) => CAUSES.filter((cause) => !left.includes(cause))

/** Causes whose findings come from each query. */
const OF_QUERY: Record<(typeof NAMES)[number], readonly Cause[]> = {
  inbox: ['inbox_old'],
  runs: [
    ...(['backfill_failed', 'backfill_needs_attention', 'backfill_overdue', 'verify_failed'] as const),
    ...(['verify_differs', 'replay_failed', 'dead_letters', 'drift'] as const),
  ],
  dead_letters: ['dead_letters'],
  drift: ['drift'],
  defects: ['defect'],
  questions: ['questions_waiting'],
  slices: ['slices_waiting'],
}

test.each(NAMES)(
  'a query of %s that takes too long is named, and leaves only its own causes as they are',
  async (name) => {
    slow = name
    const { late, judged } = await find()
    expect(late).toEqual([name])
    expect(judged('north', 'forms')).toEqual(without(...OF_QUERY[name]))
    expect(limits).toEqual(name === 'runs' ? LIMITS.toSpliced(2, 2) : LIMITS)
  },
)

test('a round that is not thorough looks at the inbox alone', async () => {
  const { late, judged, checked } = await find({ thorough: false })
  expect([late, judged('north', ''), checked, limits]).toEqual([[], ['inbox_old'], [], [3_000]])
})

test('a run in progress keeps the findings of its own stream waiting, and none that it cannot change', async () => {
  vi.mocked(readRunsNow).mockResolvedValue({
    conditions: [
      { team: 'north', cause: 'backfill_failed', stream: 'forms', mark: null, figures: {} },
      { team: 'north', cause: 'backfill_failed', stream: 'packets', mark: null, figures: {} },
    ],
    busy: new Set(['north forms', 'north ']),
  })
  const { conditions, judged } = await find()
  const free = ['questions_waiting', 'slices_waiting', 'defect', 'inbox_old', 'webhooks_silent']
  for (const stream of ['forms', '']) expect(judged('north', stream)).toEqual(free)
  expect([judged('north', 'packets'), judged('south', 'forms')]).toEqual([CAUSES, CAUSES])
  expect(conditions.map(({ stream }) => stream)).toEqual(['packets'])
})

test('of a team that others look after, only its waiting slices are judged', async () => {
  const { judged } = await find()
  expect(judged('elsewhere', '')).toEqual(['slices_waiting'])
})

test('the webhooks of a team that could not be checked stay as they are, and the team is named', async () => {
  webhooks = [{ team: 'south', verdict: 'silent', events_last_day: 3 }]
  const { late, judged, checked, conditions } = await find()
  expect([late, checked]).toEqual([['webhooks of north'], [['north', 'south']]])
  expect([judged('north', ''), judged('south', '')]).toEqual([without('webhooks_silent'), CAUSES])
  expect(conditions).toEqual([
    { team: 'south', cause: 'webhooks_silent', stream: '', mark: null, figures: { events_last_day: 3 } },
  ])
  webhooks = []
  expect((await find()).late).toEqual(['webhooks of north', 'webhooks of south'])
})

test.each<[seconds: number | null, raised: boolean, minutes: number | null]>([
  [null, false, null],
  [300, false, null],
  [300.5, false, 5],
  [419, false, 6],
  [150, true, null],
  [150.5, true, 2],
  [300, true, 5],
])(
  'an inbox that is %s seconds old, raised before: %s, is raised with %s minutes',
  async (seconds, raised, minutes) => {
    const inbox = { team: 'north', pending: 7, oldest_pending_seconds: seconds }
    vi.mocked(readInbox).mockResolvedValue([inbox as never])
    const { conditions } = await find({
      raised: new Set(raised ? ['north inbox_old '] : ['south inbox_old ']),
    })
    const condition = { team: 'north', cause: 'inbox_old', stream: '', mark: null }
    expect(conditions).toEqual(minutes === null ? [] : [{ ...condition, figures: { pending: 7, minutes } }])
  },
)

test.each([
  [59.9, null],
  [60, 1],
  [179, 2],
])(
  'slices that wait for %s seconds for a worker are raised with %s minutes, of every team',
  async (seconds, minutes) => {
    const waiting = { team: 'elsewhere', run_id: 7, slices: 3, workers: 2, seconds }
    vi.mocked(readWaitingSlices).mockResolvedValue([waiting])
    const figures = { run_id: 7, slices: 3, minutes, workers: 2 }
    const condition = { team: 'elsewhere', cause: 'slices_waiting', stream: '', mark: null, figures }
    expect((await find()).conditions).toEqual(minutes === null ? [] : [condition])
  },
)

test('what is counted is raised with its count; what is posted again for more of it has that as its mark', async () => {
  vi.mocked(waitingQuestions).mockResolvedValue(
    ['north', 'south', 'south', 'elsewhere'].map((team, at) => ({
      team,
      form_id: 'f',
      question_id: `${at}`,
    })),
  )
  const rows: readonly [table: string, rows: readonly object[]][] = [
    ['dead_letters', ['inbox', 'forms'].map((stream) => ({ team: 'north', stream, waiting: 4 }))],
    ['drift', ['forms', 'packets'].map((stream) => ({ team: 'south', stream, fields: 5 }))],
    ['defects', ['north', 'south'].map((team) => ({ team, kinds: 2, count: 6 }))],
  ]
  const db = scripted((text) => rows.find(([table]) => text.includes(`from intake_ops.${table}`))?.[1] ?? [])
  expect((await find({}, db)).conditions).toEqual<Condition[]>([
    { team: 'north', cause: 'dead_letters', stream: 'inbox', mark: null, figures: { waiting: 4 } },
    { team: 'north', cause: 'dead_letters', stream: 'forms', mark: null, figures: { waiting: 4 } },
    { team: 'south', cause: 'drift', stream: 'forms', mark: 5, figures: { fields: 5 } },
    { team: 'south', cause: 'drift', stream: 'packets', mark: 5, figures: { fields: 5 } },
    { team: 'north', cause: 'defect', stream: '', mark: 2, figures: { kinds: 2, count: 6 } },
    { team: 'south', cause: 'defect', stream: '', mark: 2, figures: { kinds: 2, count: 6 } },
    { team: 'north', cause: 'questions_waiting', stream: '', mark: 1, figures: { questions: 1 } },
    { team: 'south', cause: 'questions_waiting', stream: '', mark: 2, figures: { questions: 2 } },
  ])
})
