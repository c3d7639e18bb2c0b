/** The figures of a backfill, summed over its teams. */
import { expect, test } from 'vitest'
import { backfillDocument } from '../../../src/commands/run/backfill-report.ts'
import type { StreamReport } from '../../../src/load/runs.ts'

const report = (seconds: number): StreamReport => ({
  status: 'succeeded',
  requests: 1,
  throttled: 0,
  fetched: 2,
  changed: 2,
  unchanged: 0,
  deleted: 0,
  erased: 0,
  deadLetters: 0,
  problems: 0,
  seconds,
  note: null,
})

test('seconds of several teams have at most three decimals', () => {
  const teams = [0.1, 0.2, 0.4].map((seconds, at) => ({
    name: `team ${at}`,
    streams: [{ stream: 'patients' as const, report: report(seconds) }],
    waiting: 0,
    failure: null,
  }))
  const said = backfillDocument({ runId: '1', status: 'succeeded', teams, waitingQuestions: [] })
  expect(said).toMatchObject({ streams: { patients: { seconds: 0.7, fetched: 6, requests: 3 } } })
})
