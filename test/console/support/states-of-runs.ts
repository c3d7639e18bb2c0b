/** States of screens of runs, streams and verifications: nothing yet, being read, one and more of each. */
import { at, figures, north, odd, type States, steward, viewer } from './states-of-values.ts'

const run = {
  ...{ run_id: 7, kind: 'backfill', status: 'succeeded', started_at: at(1), seconds: 90, error: null },
  streams: [] as object[],
}
const part = (stream: string, more: object = {}) => ({
  ...{ team: north, stream, status: 'succeeded', requests: 1_001, throttled: 2, fetched: 3_003, changed: 4 },
  ...{
    unchanged: 5,
    deleted: 6,
    problems: 7,
    dead_letters: 8,
    seconds: 9,
    note: null,
    why: '',
    before: null,
    ...more,
  },
})
const live = (phase: string, more: object = {}) => ({
  ...{
    team: north,
    stream: 'forms',
    phase,
    pages: 1_001,
    requests: 2,
    throttled: 3,
    fetched: 4,
    expected: null,
  },
  ...{ rate: null, seconds_left: null, ...more },
})
const row = (more: object = {}) => ({
  ...{
    team: north,
    stream: 'forms',
    rows: 1_001,
    deleted: 2,
    newest_record_at: at(1),
    inbox: 3,
    dead_letters: 4,
  },
  ...{ drift: 5, last_success_at: at(2), lag_seconds: 90, last_run_status: 'needs_attention', ...more },
})
const verified = (more: object = {}) => ({
  ...{
    team: north,
    stream: 'forms',
    run_id: 8,
    is_equal: false,
    ...figures,
    verified_at: at(1),
    note: odd('n'),
    ...more,
  },
})
const none = { missing: 0, extra: 0, different: 0, repaired: 0 }
const verify = {
  rows: [],
  runs: [],
  job: null as object | null,
  seconds: 90,
  teams: [north, 'south'],
  all: '*',
}
const job = {
  team: '*',
  repair: true,
  login: odd('ada'),
  outcome: null as object | null,
  progress: new Map(),
}
export const RUNS_STATES: States = {
  run: {
    succeeded: {
      data: {
        ...{ run, options: [[odd('since'), odd('then')]], progress: null, lines: [], before: { run_id: 6 } },
        rows: [
          part('forms', { before: { fetched: 1_000, changed: 2 }, note: odd('note'), why: odd('why') }),
          part('packets', { status: 'needs_attention', note: null, why: 'why' }),
          part('documents', { status: 'failed', note: 'note' }),
        ],
      },
    },
    failed: {
      data: {
        ...{
          run: { ...run, status: 'needs_attention', error: odd('away'), seconds: null },
          options: [],
          progress: null,
        },
        ...{ lines: [], before: null, rows: [] },
      },
    },
    running: {
      data: {
        ...{ run: { ...run, status: 'running' }, options: [], before: null, rows: [] },
        progress: {
          streams: [
            ...['plan', 'fetch', 'merge', 'delete check', 'compare', 'ended'].map((phase) => live(phase)),
            live('fetch', { expected: 1_001, rate: 2_002.6, seconds_left: 90 }),
          ],
          teams: [
            { team: north, requests: 1_001, throttled: 2, rate: 3.456, permitted_rate: 10, share: 0.3456 },
            { team: 'south', requests: 1, throttled: 0, rate: 0, permitted_rate: null, share: null },
          ],
          seconds_left: 90,
        },
        lines: [
          { at: at(1), level: 'info', team: north, stream: null, message: odd('m') },
          { at: at(2), level: 'warn', team: 'south', stream: 'forms', message: 'm' },
          { at: at(3), level: 'error', team: null, stream: null, message: 'm' },
        ],
      },
    },
    begun: {
      data: {
        ...{ run: { ...run, status: 'running' }, options: [], before: null, rows: [], lines: [] },
        progress: { streams: [], teams: [], seconds_left: null },
      },
    },
    unknown: {
      data: {
        ...{ run: { ...run, status: 'running' }, options: [], before: null, rows: [], lines: [] },
        progress: { streams: [live('fetch')], teams: [], seconds_left: null },
      },
    },
  },
  runs: {
    reading: { data: { runs: null } },
    none: { data: { runs: [] } },
    rows: {
      data: {
        runs: [
          { ...run, kind: odd('kind'), streams: [part('forms'), part('packets')] },
          { ...run, run_id: 6, status: 'running', seconds: null },
          { ...run, run_id: 5, status: 'needs_attention' },
        ],
      },
    },
  },
  stream: {
    none: { data: { runs: [], problems: [], drift: [] } },
    rows: {
      data: {
        runs: [
          {
            run_id: 8,
            started_at: at(1),
            status: 'needs_attention',
            fetched: 1_001,
            changed: 2,
            seconds: 90,
          },
          { run_id: 7, started_at: at(2), status: 'succeeded', fetched: 3, changed: 4, seconds: 5 },
        ],
        problems: [{ path: odd('a'), what: odd('w'), count: 1_001, first_seen: at(1), last_seen: at(2) }],
        drift: [{ path: 'b', what: 'string', count: 2, first_seen: at(3), last_seen: at(4) }],
      },
    },
  },
  streams: {
    reading: { data: { status: null, teams: [], parts: [] } },
    none: { data: { status: { streams: [] }, teams: [], parts: [] } },
    rows: {
      data: {
        ...{ teams: [north, 'south'], parts: [north, 'west'], maxAgeSeconds: 90 },
        status: {
          streams: [
            row(),
            row({ stream: 'packets', lag_seconds: 90.5, last_run_status: null }),
            row({ stream: 'documents', last_success_at: null, newest_record_at: null }),
            row({ team: 'south' }),
          ],
        },
        of: (team: string, stream: string) =>
          team === 'south' || stream === 'packets'
            ? null
            : { throughput: 1_001, problems: 2, runs: stream === 'forms' ? [1] : [] },
        runBars: () => [{ value: 1, kind: 'good', title: odd('bar') }],
      },
    },
  },
  tables: { plain: { data: {} } },
  value: {
    value: {
      data: { asked: { team: north, stream: 'forms', id: odd('f') }, path: odd('path'), value: odd('value') },
    },
  },
  verify: {
    reading: { data: { ...verify, rows: null } },
    none: { data: { ...verify, teams: [] } },
    oneTeam: {
      data: {
        ...verify,
        teams: [north],
        job: {
          ...job,
          team: north,
          repair: false,
          progress: new Map([
            [odd('a'), { fetched: 1_001, expected: 2_002 }],
            ['b', { fetched: 1, expected: null }],
          ]),
        },
      },
    },
    ended: { data: { ...verify, job: { ...job, outcome: { mark: 'bad', text: odd('t'), runId: null } } } },
    rows: {
      data: {
        ...{ ...verify, runs: [8, 7], job: { ...job, outcome: { mark: 'good', text: 'equal', runId: '7' } } },
        rows: [
          verified(),
          verified({ ...none, is_equal: true, note: null }),
          verified({ ...none, different: 2, repaired: 2 }),
        ],
      },
      page: steward,
    },
    viewer: { data: { ...verify, rows: [] }, page: viewer },
  },
}
