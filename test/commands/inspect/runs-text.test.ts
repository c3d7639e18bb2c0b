/** `runs show` as text, whole: a running run, one that workers execute, a verification, a replay, and one that failed. */
import { expect, test } from 'vitest'
import { etaText, runsText, runText, type ShownRun } from '../../../src/commands/inspect/runs.ts'
import { contextOf } from '../output-context.ts'

const RUN: ShownRun = {
  ...{
    run_id: 7,
    kind: 'backfill',
    status: 'running',
    started_at: '2026-01-01T02:03:59Z',
    finished_at: null,
  },
  ...{ seconds: 65, error: null, canceled_by: null, is_waiting: false, options: {}, streams: [] },
  ...{ owner: null, progress: [], seconds_left: null, eta: null, slices: [], verification: null, log: [] },
}

const ended = (team: string, stream: string, more: object = {}) => ({
  ...{ team, stream, status: 'succeeded', requests: 1, throttled: 2, fetched: 3, changed: 4, unchanged: 5 },
  ...{ deleted: 6, erased: 7, dead_letters: 8, problems: 9, seconds: 10, note: null, ...more },
})
const live = (team: string, stream: string, more: object = {}) => ({
  ...{ team, stream, phase: 'fetch', pages: 11, requests: 12, throttled: 13, fetched: 14, expected: 15 },
  ...{ pages_left: 1, permitted_rate: null, seconds: 20, rate: 1, seconds_left: 2, ...more },
})
const slice = (team: string | null, stream: string, state: string, more: object = {}) => ({
  ...{
    team,
    stream,
    state,
    owner: null,
    silent_seconds: null,
    settled_at: null,
    seconds: null,
    takeovers: 0,
  },
  ...{ pages: null, fetched: null, expected: null, result: null, ...more },
})

/** The lines, with two blanks between columns. */
const shown = (more: object, columns?: number) =>
  runText(contextOf(columns), { ...RUN, ...more } as ShownRun)
    .split('\n')
    .map((line) => line.trimEnd().replace(/(?<=\S) {2,}/g, '  '))

const HEAD = 'stream  status  pages  requests  429  fetched  of  changed  deleted'

test('a running run: who executes it, its time and what is left, streams that run and those that ended, and its log', () => {
  const line = { at: '2026-01-01T02:04:05.6Z', level: 'warn', message: 'two\n  lines' }
  expect(
    shown({
      ...{ owner: 'pid 9 on host', seconds_left: 130 },
      progress: [
        ...[live('a', 'forms'), live('a', 'packets', { expected: null })],
        ...[live('b', 'forms'), live('b', 'packets')],
      ],
      streams: [ended('b', 'forms', { status: 'failed', note: 'it is away' }), ended('b', 'packets')],
      log: [
        { ...line, team: 'a', stream: 'forms' },
        { ...line, team: null, stream: 'packets' },
        { ...line, team: 'a', stream: null },
      ],
    }),
  ).toEqual([
    'run 7, backfill: running (1 min 5 s, about 2 min 10 s left)',
    '  executed by pid 9 on host',
    '    forms: it is away',
    HEAD,
    'a/forms  fetch  11  12  13  14  15',
    'a/packets  fetch  11  12  13  14',
    'b/forms  failed  1  2  3  4  6',
    'b/packets  succeeded  1  2  3  4  6',
    'log (UTC):',
    '  02:04:05 warn a/forms: two lines',
    '  02:04:05 warn -/packets: two lines',
    '  02:04:05 warn two lines',
    '',
  ])
})

test('a run of workers: what is not settled, by whom and since when, and what all of them still need', () => {
  const eta = {
    ...{ slices_left: 2, slices_claimed: 1, slices_unknown: 0, workers: 1, pages: 3, expected_pages: 8.6 },
    ...{ rate: 2.04, seconds_left: 3 },
  }
  const slices = [
    slice('a', 'forms', 'done'),
    slice('a', 'packets', 'claimed', { owner: 'w1', silent_seconds: 2, takeovers: 1 }),
    slice('b', 'forms', 'claimed', { owner: 'w2', silent_seconds: 0 }),
    slice('b', 'packets', 'pending'),
    slice(null, 'close', 'pending'),
    slice('b', 'messages', 'canceled'),
  ]
  const lines = [
    'slices: 2 pending, 2 claimed, 1 done',
    'left: 2 streams; 1 stream read by 1 worker: 3 of about 9 pages; 2 pages per second; time left: about 3 s',
    'slice  state  worker  heard  taken over',
    'a/packets  claimed  w1  2 s ago  1',
    'b/forms  claimed  w2  0 s ago',
    'b/packets  pending',
    'end of the run  pending',
    '',
  ]
  expect(shown({ slices, eta, seconds: null })).toEqual(['run 7, backfill: running', ...lines])
  expect(shown({ slices, seconds: null, kind: 'verify' }).slice(1)).toEqual(
    lines.filter((line) => !line.startsWith('left')),
  )
  // What ended has no open slice, whatever their rows say; neither has a run whose slices are all settled.
  const ended = 'run 7, backfill: interrupted (1 min 5 s)'
  expect(shown({ slices, eta, status: 'interrupted' })).toEqual([ended, ''])
  expect(shown({ slices: slices.filter(({ state }) => state === 'done'), eta }).slice(1)).toEqual([''])
})

test('what a verification found of each stream, and what workers rebuilt; a backfill has no results of slices', () => {
  const facts = { source: 1, warehouse: 2, missing: 3, extra: 4, different: 5, repaired: 6 }
  const verification = {
    ...{ kind: 'verification', run_id: 7 },
    teams: {
      a: { streams: { forms: facts, packets: { error: 'it is away' } } },
      b: { streams: { forms: { ...facts, repaired: 0 } } },
    },
  }
  const table = [
    'stream  source  warehouse  missing  extra  different  repaired',
    'a/forms  1  2  3  4  5  6',
    'a/packets  -  -  -  -  -  -  it is away',
    'b/forms  1  2  3  4  5  0',
    '',
  ]
  const result = { status: 'failed', records: 10, rewritten: 11, removed: 12 }
  const slices = [
    slice('a', 'forms', 'done', { result }),
    slice('b', 'forms', 'done', { result: { status: 'ok' } }),
    slice('b', 'messages', 'done', { result: { status: 'ok', records: 0, rewritten: 0, removed: 0 } }),
    slice('b', 'packets', 'pending'),
  ]
  const about = { status: 'succeeded', seconds: 1 }
  expect(shown({ ...about, kind: 'verify', verification, slices })).toEqual([
    'run 7, verify: succeeded (1 s)',
    ...table,
  ])
  expect(shown({ ...about, kind: 'replay', slices })).toEqual([
    'run 7, replay: succeeded (1 s)',
    'stream  status  records  rewritten  removed',
    'a/forms  failed  10  11  12',
    'b/forms  ok  -  -  -',
    'b/messages  ok  0  0  0',
    '',
  ])
  expect(shown({ ...about, kind: 'replay', slices: slices.slice(3) }).slice(1)).toEqual([''])
  expect(shown({ ...about, slices }).slice(1)).toEqual([''])
})

const by = 'canceled by database user ada, with intake-sync runs cancel; the next run continues'
test.each<[string, object, readonly string[]]>([
  [
    'nobody executes',
    { is_waiting: true, error: 'e' },
    [expect.stringMatching(/^waiting for a worker/) as never, 'e'],
  ],
  [
    'an error of its own',
    { error: 'disk', streams: [ended('a', 'forms', { note: 'n' })] },
    ['disk', 'forms: n'],
  ],
  [
    'the error of its stream',
    { error: 'failed: n', streams: [ended('a', 'forms', { note: 'n' })] },
    ['forms: n'],
  ],
  [
    'streams of several teams',
    { streams: [ended('a', 'forms', { note: 'n' }), ended('b', 'forms')] },
    ['a/forms: n'],
  ],
  [
    'several streams of one team',
    { streams: [ended('a', 'forms'), ended('a', 'packets', { note: 'n\n o' })] },
    ['packets: n o'],
  ],
  ['an error of several lines', { error: 'disk\n\n is full' }, ['disk', 'is full']],
  [
    'an error that quotes why another was canceled',
    { canceled_by: 'ada', error: `${by}, it says` },
    [by, `${by}, it says`],
  ],
  ['workers, which somebody canceled', { canceled_by: 'ada', error: `a/forms: ${by}\nb/forms: ${by}` }, [by]],
  [
    'workers, one of whose streams had failed before somebody canceled it',
    { canceled_by: 'ada', error: `a/forms: it is away\nb/forms: ${by}` },
    [by, 'a/forms: it is away'],
  ],
  [
    'somebody canceled',
    {
      canceled_by: 'ada',
      error: by,
      streams: [ended('a', 'forms', { note: by }), ended('a', 'packets', { note: 'n' })],
    },
    [by, 'packets: n'],
  ],
])('the list and the run itself have the reasons of a run with %s, each once', (_, more, reasons) => {
  const run = { ...RUN, status: 'failed', ...more } as ShownRun
  const lines = (text: string) =>
    text
      .split('\n')
      .filter((line) => line.startsWith('    '))
      .map((line) => line.trim())
  expect(lines(runsText(contextOf(), [run]))).toEqual(reasons)
  expect(lines(runText(contextOf(), run))).toEqual(reasons)
})

test('on a terminal, failed runs of the list are red, those to look at yellow, and others plain', () => {
  const statuses = ['failed', 'needs_attention', 'interrupted', 'succeeded', 'running']
  const runs = statuses.map((status, at) => ({ ...RUN, run_id: at + 1, status, error: null }))
  const lines = runsText(contextOf(100), runs).trimEnd().split('\n').slice(1)
  expect(lines.map((line) => /^\u001b\[(\d+)m/.exec(line)?.[1] ?? '')).toEqual(['31', '33', '33', '', ''])
  expect(runsText(contextOf(), runs)).not.toContain('\u001b')
})

test('of a long log, runs show has the newest twenty lines, in their order', () => {
  const log = Array.from({ length: 23 }, (_, at) => ({
    ...{
      at: `2026-01-01T02:04:${10 + at}.6Z`,
      level: 'info',
      team: null,
      stream: null,
      message: `line ${at}`,
    },
  }))
  const newest = log.slice(3).map(({ message }, at) => `  02:04:${13 + at} info ${message}`)
  expect(shown({ log }).slice(1)).toEqual(['log (UTC):', ...newest, ''])
  expect(shown({ log: log.slice(0, 1) }).slice(1)).toEqual(['log (UTC):', '  02:04:10 info line 0', ''])
})

test.each([
  [0, 'no page yet'],
  [1, '1 stream without a count, and no stream of their kind read yet'],
  [2, '2 streams without a count, and no stream of their kind read yet'],
])('with %i streams of unknown length, the time is unknown because of %s', (slices_unknown, why) => {
  const eta = {
    ...{ slices_left: 3, slices_claimed: 2, slices_unknown, workers: 2, pages: 0, expected_pages: null },
    ...{ rate: null, seconds_left: null },
  }
  expect(etaText(eta)).toBe(
    `left: 3 streams; 2 streams read by 2 workers: 0 of an unknown number pages; time left: unknown (${why})`,
  )
  expect(etaText({ ...eta, slices_left: 1, slices_claimed: 0, seconds_left: 0 })).toBe(
    'left: 1 stream; none being read; time left: about 0 s',
  )
})
