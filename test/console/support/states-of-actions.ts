/** States of screens of what operators act on, and of what they look up: nothing yet, being read, one and more of each. */
import { at, figures, north, odd, question, type States, steward, viewer } from './states-of-values.ts'

const group = { team: north, stream: 'patients', reason: odd('reason') }
const sample = { at: 1, received: 2, stored: 3.26, drained: 4, p50: 0.25, p99: 125 }
const waiting = (oldest: number | null, more: object = {}) => ({
  ...{
    team: north,
    pending: 1_001,
    oldest_pending_seconds: oldest,
    pending_by_stream: {},
    refetches: 2_002,
    ...more,
  },
})
const check = (status: string) => ({ name: odd(status), status, detail: odd('detail'), hint: odd('hint') })
const server = {
  ...{
    postgres: '18.4',
    migration: '0042',
    bytes: 9_999e6,
    inbox_days: 1_001,
    first: { bytes: 4_000.6e6, at: at(1) },
  },
  tables: [{ name: odd('t'), bytes: 1_250_000, rows: 1_001.6 }],
  oldest: { events: at(1), runs: null },
}
const health = {
  settings: [{ name: 'A', value: odd('v'), from: odd('file') }],
  version: '1.2.3',
  node: 'v24',
}
const kept = [
  { what: odd('events'), name: 'events', how: '30 days', setting: 'INTAKE_DAYS' },
  { what: 'runs', name: 'runs', how: 'for ever', setting: null },
]
const decided = [
  { question, now: 'structured', restore: odd('r1') },
  { question: { ...question, form: ' ', question_text: ' ' }, now: 'hidden', restore: 'r2' },
]
const event = {
  ...{
    received_at: at(1),
    source: odd('patient'),
    event_type: odd('updated'),
    body_hash: 'abcdefghijklmnop',
  },
  ...{ status: 'done', settled_at: at(2), attempts: 0, record_id: odd('p') },
}
const breakages = [
  { name: 'glass', title: odd('Glass'), heals: odd('itself') },
  { name: 'stone', title: 'Stone', heals: 'nothing' },
]
const watched = ['broken', 'healed', 'failed'].map((each, n) => ({
  ...{
    name: n === 0 ? 'glass' : 'stone',
    title: odd(each),
    text: odd('damage'),
    state: each,
    seen: n === 2 ? null : n,
  },
  seconds: 90,
}))
const listed = [
  { id: 7, record_id: odd('p'), origin: odd('run:1'), seen: 1_001, created_at: at(1), last_seen_at: at(2) },
  { id: 8, record_id: null, origin: 'event:e', seen: 1, created_at: at(3), last_seen_at: at(4) },
]

export const ACTIONS_STATES: States = {
  audit: {
    reading: { data: { rows: null, made: null, roles: ['viewer'] } },
    empty: { data: { rows: [], made: { login: odd('kim'), role: 'viewer', link: odd('http') }, roles: [] } },
    rows: {
      data: {
        rows: [
          {
            at: at(1),
            login: odd('ada'),
            action: odd('act'),
            object: odd('o'),
            detail: { [odd('a')]: odd('b'), c: 2 },
          },
        ],
        ...{ made: null, roles: ['viewer', 'operator'] },
      },
    },
  },
  break: {
    empty: { data: { breakages, watched: [] } },
    rows: { data: { breakages, watched } },
    viewer: { data: { breakages, watched: watched.slice(0, 1) }, page: viewer },
  },
  'dead-letter-done': {
    none: { data: { group, count: 0, outcomes: [] } },
    one: { data: { group, count: 1, outcomes: [[odd('loaded'), 1]] } },
    many: {
      data: {
        group,
        count: 1_001,
        outcomes: [
          ['loaded', 1_000],
          ['asked', 1],
        ],
      },
    },
  },
  'dead-letter-group': {
    none: { data: { group, rows: [], total: 0, limit: 2, isKnown: true } },
    all: { data: { group, rows: listed, total: 2, limit: 2, isKnown: true } },
    more: { data: { group, rows: listed, total: 1_001, limit: 2, isKnown: false }, page: steward },
    viewer: { data: { group, rows: listed, total: 2, limit: 2, isKnown: true }, page: viewer },
  },
  'dead-letter-preview': {
    none: { data: { group, action: 'retry', count: 0, total: 0, upTo: 0, ways: [] } },
    retry: { data: { group, action: 'retry', count: 1, total: 1, upTo: 9, ways: [[odd('way'), 1_001]] } },
    discard: { data: { group, action: 'discard', count: 1_000, total: 1_001, upTo: 99, ways: [] } },
  },
  'dead-letters': {
    reading: { data: { groups: null } },
    none: { data: { groups: [] } },
    rows: {
      data: {
        groups: [
          { ...group, waiting: 1_001, seen: 2_002, first_at: at(1), last_at: at(2) },
          { ...group, reason: ' ', waiting: 1, seen: 2, first_at: at(3), last_at: at(4) },
        ],
      },
    },
  },
  decided: {
    decided: { data: { decided, isUndo: false } },
    undone: { data: { decided: decided.slice(0, 1), isUndo: true } },
  },
  differences: {
    rows: {
      data: {
        ...{ team: north, stream: 'forms', limit: 2 },
        found: {
          ...{
            ...figures,
            run_id: 7,
            verified_at: at(1),
            missing: 2,
            missing_ids: [odd('m')],
            extra: 3,
            extra_ids: ['x', 'y'],
          },
          different_ids: [{ id: odd('d'), fields: ['city', odd('f')] }],
        },
      },
    },
  },
  error: {
    hint: { data: { message: odd('m'), hint: odd('h') } },
    plain: { data: { message: 'm', hint: null } },
  },
  event: {
    reading: { data: { asked: { team: north, id: odd('e') }, events: null, streamOf: () => null } },
    none: { data: { asked: { team: north, id: odd('e') }, events: [], streamOf: () => null } },
    rows: {
      data: {
        asked: { team: north, id: odd('e') },
        events: [
          event,
          { ...event, status: 'dead', attempts: 1, record_id: null },
          { ...event, source: null, event_type: null, status: 'pending', settled_at: null, attempts: 2 },
        ],
        streamOf: (source: string | null) => (source === null ? null : 'patients'),
      },
    },
  },
  health: {
    reading: { data: { ...health, settings: [], checked: null, server: null, kept } },
    good: { data: { ...health, checked: { checks: [check('ok')], at: at(1) }, server, kept } },
    bad: {
      data: {
        ...{ ...health, server: null, kept: [] },
        checked: { checks: [check('ok'), check('warning'), { ...check('failed'), hint: null }], at: at(1) },
      },
    },
  },
  inbox: {
    away: { data: { metrics: null, samples: [], waiting: null, days: [] } },
    none: { data: { metrics: { received: 0, drained: 0, refused: [] }, samples: [], waiting: [], days: [] } },
    rows: {
      data: {
        metrics: {
          ...{ received: 1_001, drained: 2_002 },
          refused: [
            { team: '', reason: odd('signature'), count: 1_001 },
            { team: north, reason: 'x', count: 1 },
          ],
        },
        samples: [{ ...sample, stored: 9 }, sample],
        waiting: [
          waiting(null),
          waiting(300, { pending_by_stream: { patients: 1_000, [odd('s')]: 2 } }),
          waiting(300.5),
        ],
        days: [
          { day: 'other days', events: null, bytes: 0 },
          { day: '2026-01-01', events: 1_001, bytes: 1_260_000 },
        ],
      },
    },
  },
}
