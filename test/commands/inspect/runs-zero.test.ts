/** `runs` and `runs show`: sums over streams, and figures that are 0, which are not unknown. */
import { expect, test } from 'vitest'
import { runsText, runText, type ShownRun } from '../../../src/commands/inspect/runs.ts'
import { contextOf } from '../output-context.ts'

const RUN: ShownRun = {
  ...{
    run_id: 7,
    kind: 'backfill',
    status: 'running',
    started_at: '2026-01-01T02:03:59Z',
    finished_at: null,
  },
  ...{ seconds: null, error: null, canceled_by: null, is_waiting: false, options: {}, streams: [] },
  ...{ owner: null, progress: [], seconds_left: null, eta: null, slices: [], verification: null, log: [] },
}
const ended = (team: string, fetched: number, changed: number) => ({
  ...{
    team,
    stream: 'forms',
    status: 'succeeded',
    requests: 1,
    throttled: 0,
    fetched,
    changed,
    unchanged: 0,
  },
  ...{ deleted: 0, erased: 0, dead_letters: 0, problems: 0, seconds: 0, note: null },
})
const live = (stream: string, expected: number | null) => ({
  ...{ team: 'a', stream, phase: 'fetch', pages: 0, requests: 1, throttled: 0, fetched: 0, expected },
  ...{ pages_left: null, permitted_rate: null, seconds: 0, rate: 0, seconds_left: null },
})
const linesOf = (text: string) => text.split('\n').map((line) => line.trim().replace(/ {2,}/g, '  '))

test('the list sums up the streams of each run, and a run that took 0 s is not shown as one that is still running', () => {
  const runs = [
    { ...RUN, run_id: 12, status: 'succeeded', seconds: 0, streams: [ended('a', 3, 4), ended('b', 30, 0)] },
    { ...RUN, streams: [ended('a', 0, 5)] },
  ]
  expect(linesOf(runsText(contextOf(), runs as unknown as readonly ShownRun[]))).toEqual([
    'run  kind  status  started (UTC)  took  fetched  changed',
    '12  backfill  succeeded  2026-01-01 02:03  0 s  33  4',
    '7  backfill  running  2026-01-01 02:03  -  0  5',
    '',
  ])
})

test('an expected total of 0 is shown, unlike an unknown one', () => {
  const run = { ...RUN, seconds: 0, seconds_left: 0, progress: [live('forms', 0), live('packets', null)] }
  expect(linesOf(runText(contextOf(), run as unknown as ShownRun))).toEqual([
    'run 7, backfill: running (0 s, about 0 s left)',
    'stream  status  pages  requests  429  fetched  of  changed  deleted',
    'a/forms  fetch  0  1  0  0  0',
    'a/packets  fetch  0  1  0  0',
    '',
  ])
})
