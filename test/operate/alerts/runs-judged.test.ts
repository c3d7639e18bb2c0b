/** What the newest run of each kind means for its team and stream: a failure, differences, or a backfill that is overdue. */
import { expect, test } from 'vitest'
import { readRunsNow } from '../../../src/operate/alerts/runs-now.ts'
import { scripted } from '../../support/scripted.ts'

const RUN = {
  ...{ team: 'north', kind: 'backfill', stream: 'forms', run_id: 7, outcome: 'succeeded', hours: 1 },
  ...{ is_busy: false, missing: null, extra: null, different: null },
}
const judged = async (rows: readonly object[], maxAgeHours: number | null = 26) =>
  await readRunsNow(
    scripted(() => rows.map((row) => ({ ...RUN, ...row }))),
    ['north'],
    maxAgeHours,
  )

test.each<[kind: string, outcome: string | null, cause: string | null]>([
  ['backfill', null, null],
  ['backfill', 'succeeded', null],
  ['backfill', 'failed', 'backfill_failed'],
  ['backfill', 'needs_attention', 'backfill_needs_attention'],
  ['backfill', 'differs', null],
  ['verify', 'succeeded', null],
  ['verify', 'failed', 'verify_failed'],
  ['verify', 'needs_attention', null],
  ['verify', 'differs', 'verify_differs'],
  ['replay', 'succeeded', null],
  ['replay', 'failed', 'replay_failed'],
  ['replay', 'needs_attention', 'replay_failed'],
])('a %s that ended as %s is %s', async (kind, outcome, cause) => {
  const { conditions } = await judged([{ kind, outcome, missing: 1, extra: 2, different: 3 }])
  const counts = outcome === 'differs' ? { missing: 1, extra: 2, different: 3 } : {}
  const condition = { team: 'north', cause, stream: 'forms', mark: null, figures: { run_id: 7, ...counts } }
  expect(conditions).toEqual(cause === null ? [] : [condition])
})

test('counts of a verification that has none are 0', async () => {
  const { conditions } = await judged([{ kind: 'verify', outcome: 'differs', run_id: null }])
  expect(conditions.map(({ figures }) => figures)).toEqual([
    { run_id: 0, missing: 0, extra: 0, different: 0 },
  ])
})

test.each<[kind: string, hours: number | null, limit: number | null, shown: number | null]>([
  ['backfill', 26, 26, null],
  ['backfill', 26.01, 26, 26],
  ['backfill', 49.9, 26, 49],
  ['backfill', 1_000, null, null],
  ['backfill', null, 26, null],
  ['backfill', 0.5, 0, 0],
  ['verify', 1_000, 26, null],
  ['replay', 1_000, 26, null],
])(
  'a %s that ended %s hours ago, with a limit of %s, is overdue for %s hours',
  async (kind, hours, limit, shown) => {
    const { conditions } = await judged([{ kind, hours }], limit)
    const condition = { team: 'north', cause: 'backfill_overdue', stream: 'forms', mark: null }
    expect(conditions).toEqual(shown === null ? [] : [{ ...condition, figures: { hours: shown } }])
  },
)

test('a backfill that failed long ago is both, and a stream is busy for its own team', async () => {
  const { conditions, busy } = await judged([
    { outcome: 'failed', hours: 30, is_busy: true },
    { team: 'south', kind: 'replay', stream: '', is_busy: true },
    { team: 'south', stream: 'packets' },
  ])
  expect(conditions.map(({ cause }) => cause)).toEqual(['backfill_failed', 'backfill_overdue'])
  expect([...busy]).toEqual(['north forms', 'south '])
})
