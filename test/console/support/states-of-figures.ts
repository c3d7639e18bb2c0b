/** States of screens of records, questions, receipts and teams: nothing yet, being read, one and more of each. */
import { at, figures, north, odd, question, type States, steward, viewer } from './states-of-values.ts'

const hashes = {
  source_hash: 'sh',
  warehouse_hash: 'wh',
  source_content_hash: 'sc',
  warehouse_content_hash: 'wc',
}
const found = (more: object = {}) => ({
  ...{ states: [], events: [], deadLetters: [], refetch: null, ...more },
})
const state = {
  ...{ version: 'v1', observedAt: 'o1', deleted: false, hash: 'abcdefghijklmnop', origin: odd('event:e') },
  ...{ supersededAt: null, wonBy: null, fields: [], run: null },
}

const record = {
  ...{
    teams: [{ name: north }, { name: 'south' }],
    streams: ['forms', 'patients'],
    paths: [],
    why: null,
    found: null,
  },
  asked: { team: north, stream: 'patients', id: odd('p') },
}
const questions = {
  ...{
    asked: { form: odd('f'), text: odd('t'), shows: 'structured' },
    limit: 2,
    total: 2,
    drift: [],
    views: [],
  },
  forms: [
    { team: north, form_id: odd('f'), form: odd('Form'), nothing: 1_001, structured: 2, everything: 3 },
    { team: 'south', form_id: 'g', form: ' ', nothing: 0, structured: 0, everything: 0 },
  ],
  listed: [
    question,
    { ...question, form: ' ', question_text: ' ', question_type: null, shows: 'structured' },
    { ...question, form: null, question_text: null, shows: 'everything', decided_by: odd('ada') },
    { ...question, waits: true, decided_by: 'ada' },
  ],
  visibilities: ['visible', 'structured', 'hidden'],
  keyOf: (each: { question_id: string }) => `key of ${each.question_id}`,
  answersOf: (each: { shows: string }) => (each.shows === 'everything' ? null : 1_234),
}
const insights = {
  forms: [
    { form: odd('Form'), asked: 1_200, submitted: 300, skipped: 200, median_hours: 1.26 },
    { form: ' ', asked: 1, submitted: 0, skipped: 1, median_hours: null },
  ],
  channels: [
    {
      channel: odd('email'),
      sent: 1_200,
      opened: 600,
      answered: 300,
      median_hours: 2,
      due: 1_000,
      no_shows: 250,
    },
    { channel: 'sms', sent: 0, opened: 0, answered: 0, median_hours: null, due: 0, no_shows: 0 },
  ],
  times: [1_001, 2, 0, 4, 5, 6],
  weeks: [{ week: '2026-01-05', asked: 1_001, submitted: 2, messages: 3 }],
  questions: [
    { form: odd('Form'), question: odd('Why'), responses: 1_200, left_out: 300 },
    { form: 'f', question: ' ', responses: 0, left_out: 0 },
  ],
}
const within = ['within an hour', 'b', 'c', 'd', 'e', 'later']
const judged = (mark: string) => ({ mark, text: odd(mark) })
const facts = {
  ...{ run_id: 7, equal: false, status: 'needs_attention', started_at: at(1), finished_at: at(2) },
  teams: {
    [north]: {
      streams: {
        forms: { ...figures, ...hashes, note: odd('note'), error: null },
        packets: { ...figures, ...hashes, note: 'noted', error: odd('error'), source_content_hash: null },
        documents: {
          ...figures,
          ...hashes,
          source_hash: null,
          warehouse_hash: null,
          note: null,
          error: null,
        },
      },
      deep: { rows: 1_001, columns_not_compared: 2 },
    },
    south: { streams: {}, deep: null },
  },
}
export const FIGURES_STATES: States = {
  insights: {
    reading: { data: { found: null, within } },
    none: {
      data: {
        found: { forms: [], channels: [], times: [0, 0, 0, 0, 0, 0], weeks: [], questions: [] },
        within,
      },
    },
    rows: { data: { found: insights, within } },
  },
  login: {
    link: { data: { link: odd('l'), printed: false }, page: { visitor: null, token: '' } },
    plain: { data: { link: null, printed: false }, page: { visitor: null, token: '' } },
    printed: { data: { link: null, printed: true } },
  },
  overview: {
    reading: { data: { teams: null } },
    none: { data: { teams: [] } },
    rows: {
      data: {
        teams: [
          {
            ...{
              team: north,
              fresh: judged('good'),
              equal: judged('unknown'),
              needs: judged('bad'),
              pending: 1_001,
            },
            ...{
              events: [1, 0, 3],
              rows: [4, 5],
              todo: [{ text: odd('do'), hint: odd('hint'), href: '/runs' }],
            },
          },
          {
            ...{
              team: 'south',
              fresh: judged('bad'),
              equal: judged('good'),
              needs: judged('good'),
              pending: 0,
            },
            ...{ events: [], rows: [0], todo: [] },
          },
        ],
      },
    },
  },
  questions: {
    reading: { data: { ...questions, forms: null, listed: null } },
    none: { data: { ...questions, forms: [], listed: [] } },
    noneListed: { data: { ...questions, listed: [], total: 0 } },
    rows: {
      data: {
        ...questions,
        drift: [
          { team: north, stream: 'forms', path: odd('p'), type: 'string', count: 1_001, last_seen: at(1) },
        ],
        views: [
          { team: north, view: odd('v'), kind: 'form', subject: odd('f'), columns: 1_001, made_at: at(2) },
        ],
      },
    },
    more: { data: { ...questions, total: 1_001, asked: { form: '', text: '', shows: '' } }, page: steward },
    viewer: { data: questions, page: viewer },
  },
  receipt: {
    different: { data: { facts, key: odd('key'), version: '1', at: at(3) } },
    equal: {
      data: { facts: { ...facts, equal: true, status: 'succeeded' }, key: 'k', version: '1', at: at(3) },
      page: viewer,
    },
  },
  record: {
    reading: { data: { ...record, teams: null } },
    nothing: { data: { ...record, asked: { team: '', stream: '', id: '' } } },
    unknown: { data: { ...record, why: odd('why') } },
    empty: { data: { ...record, found: found() } },
    rows: {
      data: {
        ...{ ...record, paths: ['city', odd('path')] },
        found: found({
          states: [
            {
              ...{
                ...state,
                origin: 'run:12 page:3',
                run: { kind: 'backfill', startedAt: at(1) },
                wonBy: odd('won'),
              },
              fields: ['city', odd('f')],
            },
            { ...state, supersededAt: at(2), deleted: true },
          ],
          events: [
            { receivedAt: at(1), eventType: null, eventId: odd('e'), outcome: odd('outcome') },
            { receivedAt: at(2), eventType: odd('updated'), eventId: 'f', outcome: 'x' },
          ],
          deadLetters: [{ id: 9, status: 'waiting', seen: 2, last_seen_at: at(3), reason: odd('r') }],
          refetch: { reason: odd('partial'), due_at: at(4), attempts: 1 },
        }),
      },
      page: steward,
    },
    deleted: { data: { ...record, found: found({ states: [{ ...state, deleted: true }] }) } },
  },
}
