/** The report of a replay. */
import { expect, test } from 'vitest'
import { inboxDocument, inboxText, replayDocument, replayText } from '../../../src/commands/run/replay.ts'
import type { ReplayReport, ReplaySummary } from '../../../src/reconcile/replay.ts'

const output = { write: () => true }
const context = {
  ...{ env: {}, stdout: output, stderr: output, signal: new AbortController().signal, version: '' },
}

const report = (more: Partial<ReplayReport> = {}): ReplayReport => ({
  ...{ status: 'succeeded', records: 1, rewritten: 2, removed: 3, refused: 4, seconds: 0.1, note: null },
  ...more,
})
const summaryOf = (...reports: readonly ReplayReport[]): ReplaySummary => ({
  ...{ runId: '5', status: 'needs_attention' },
  teams: reports.map((each, at) => ({ name: `t${at}`, streams: [{ stream: 'patients', report: each }] })),
})

test('figures of the teams are summed up; the worst status and all notes count', () => {
  const ends = ['succeeded', 'needs_attention', 'interrupted', 'failed'] as const
  for (const [at, worst] of ends.entries()) {
    const reports = ends.slice(0, at + 1).map((status) => report({ status }))
    for (const order of [reports, reports.toReversed()])
      expect(replayDocument(summaryOf(...order))).toMatchObject({ streams: { patients: { status: worst } } })
  }
  const three = summaryOf(report({ seconds: 0.2 }), report({ note: 'a' }), report({ note: 'b' }))
  expect(replayDocument(three)).toEqual({
    ...{ run_id: 5, status: 'needs_attention' },
    streams: {
      patients: {
        ...{
          status: 'succeeded',
          records: 3,
          rewritten: 6,
          removed: 9,
          refused: 12,
          seconds: 0.4,
          note: 'a; b',
        },
      },
    },
    teams: Object.fromEntries(
      three.teams.map(({ name, streams }) => [name, { streams: { patients: streams[0]!.report } }]),
    ),
  })
  expect(replayDocument(summaryOf(report(), report()))).toMatchObject({
    streams: { patients: { note: null } },
  })
})

test('the text names the team only where there are several, and every note', () => {
  const one = replayText(context, summaryOf(report({ records: 10, seconds: 1.26, note: 'odd' })))
  expect(one).toBe(
    'stream    records  rewritten  removed  seconds\npatients       10          2        3      1.3\n\nrun 5: needs attention\npatients: odd\n',
  )
  const two = replayText(context, summaryOf(report(), report({ note: 'odd' })))
  expect(two).toMatch(/^t0\/patients +1 +2 +3 +0\.1$/m)
  expect(two).toContain('\nrun 5: needs attention\nt1/patients: odd\n')
  expect(replayText(context, { ...summaryOf(), status: 'succeeded' })).toBe(
    'no team yet: run intake-sync backfill\n\nrun 5: succeeded\n',
  )
})

test('of stored events it says how many were loaded, how many not, and how many come again', () => {
  const replayed = { runId: '6', status: 'succeeded', events: 9, done: 6, dead: 2, waiting: 1 } as const
  expect(inboxText(replayed)).toBe(
    'events  loaded  dead letters  to be retried\n     9       6             2              1\n\nrun 6: succeeded\n',
  )
  expect(inboxDocument(replayed)).toEqual({
    ...{ run_id: 6, status: 'succeeded', inbox: { events: 9, done: 6, dead: 2, waiting: 1 } },
  })
})

test('every stream of a team is in its sums, its own figures and the text', () => {
  const streams = [
    { stream: 'patients', report: report({ records: 4 }) },
    { stream: 'forms', report: report({ records: 5, note: 'odd' }) },
    { stream: 'packets', report: report({ records: 6, note: 'even' }) },
  ] as const
  const summary: ReplaySummary = { runId: '5', status: 'succeeded', teams: [{ name: 'only', streams }] }
  const own = Object.fromEntries(streams.map((each) => [each.stream, each.report]))
  expect(replayDocument(summary)).toMatchObject({ streams: own, teams: { only: { streams: own } } })
  const [table, notes] = replayText(context, summary).split('\n\n')
  expect(table!.split('\n').map((line) => line.split(/ +/).slice(0, 2))).toEqual([
    ...[
      ['stream', 'records'],
      ['patients', '4'],
      ['forms', '5'],
      ['packets', '6'],
    ],
  ])
  expect(notes).toBe('run 5: succeeded\nforms: odd\npackets: even\n')
})
