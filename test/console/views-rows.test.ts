/** Templates of the console: each row of a table has its values in the columns of its head, and links where it says. */
import { expect, it } from 'vitest'
import { plain, tableIn } from './support/console.ts'
import { html, marksIn } from './support/views.ts'

const at = (day: number, minute = 4) => `2026-01-0${day}T03:0${minute}:00Z`
const group = { team: 'north', stream: 'patients', reason: 'a & b' }
const titles = (text: string, label: string) =>
  plain(new RegExp(`aria-label="${label}"[\\s\\S]*?<thead>([\\s\\S]*?)</thead>`).exec(text)![1]!)
const links = (text: string) =>
  [...text.matchAll(/<a (?:class="button" )?href="([^"]*)"/g)].map(([, to]) => to)
/** What the form of the page sends; that of the header signs off. */
const fields = (text: string) =>
  [...text.split('<main')[1]!.matchAll(/<input type="hidden" name="(\w+)" value="([^"]*)"/g)].map(
    ([, name, value]) => `${name}=${value}`,
  )

it('dead letters are counted by reason, listed up to a limit, and lead to their records', () => {
  const groups = [
    { ...group, waiting: 1_200, seen: 3_400, first_at: at(1), last_at: at(2) },
    { ...group, stream: 'inbox', reason: ' ', waiting: 1, seen: 2, first_at: at(3), last_at: at(4) },
  ]
  const all = html('dead-letters', { groups })
  expect(titles(all, 'Dead letters by reason')).toBe('team stream reason waiting seen first last')
  expect(tableIn(all, 'Dead letters by reason')).toEqual([
    'north patients a &amp; b 1,200 3,400 2026-01-01 03:04 UTC 2026-01-02 03:04 UTC',
    'north inbox (no reason) 1 2 2026-01-03 03:04 UTC 2026-01-04 03:04 UTC',
  ])
  expect(links(all).filter((to) => to?.includes('group'))).toEqual([
    '/dead-letters/group?team=north&amp;stream=patients&amp;reason=a+%26+b',
    '/dead-letters/group?team=north&amp;stream=inbox&amp;reason=+',
  ])
  const rows = [
    { id: 7, record_id: 'p/1', origin: 'run:1', seen: 1_000, created_at: at(1), last_seen_at: at(2) },
    { id: 8, record_id: null, origin: 'event:e', seen: 1, created_at: at(3), last_seen_at: at(4) },
  ]
  const of = (total: number, more: object = {}, page = {}) =>
    html('dead-letter-group', { group, rows, total, limit: 2, isKnown: true, ...more }, page)
  expect([1, 2, 3, 1_001].map((total) => plain(/<caption>([^<]*)</.exec(of(total))![1]!))).toEqual([
    ...['All 1', 'All 2', 'The oldest 2 of 3', 'The oldest 2 of 1,001'],
  ])
  expect(titles(of(2), 'Dead letters')).toBe('number record origin seen first last')
  expect(tableIn(of(2), 'Dead letters')).toEqual([
    '7 p/1 run:1 1,000 2026-01-01 03:04 UTC 2026-01-02 03:04 UTC',
    '8 no id event:e 1 2026-01-03 03:04 UTC 2026-01-04 03:04 UTC',
  ])
  const record = '/records?team=north&amp;stream=patients&amp;id=p%2F1'
  const preview = (action: string) =>
    `/dead-letters/preview?action=${action}&amp;team=north&amp;stream=patients&amp;reason=a+%26+b`
  const own = (text: string) => links(text).filter((to) => /^\/(?:records\?|dead-letters\/)/.test(to!))
  expect(own(of(2))).toEqual([preview('retry'), preview('discard'), record])
  expect(own(of(2, { isKnown: false }))).toEqual([preview('retry'), preview('discard')])
  expect(own(of(2, {}, { visitor: { login: 'kim', role: 'viewer' } }))).toEqual([record])
  expect(own(of(0))).toEqual([])
  expect(plain(of(0))).toContain('waiting 0 None of them waits any more.')
})

it('a preview counts what an action will do, and sends the group up to the newest that it counted', () => {
  const data = {
    group,
    total: 5,
    count: 5,
    upTo: 99,
    ways: [
      ['fetched by id', 3],
      ['loaded again', 2],
    ],
  }
  const retry = html('dead-letter-preview', { ...data, action: 'retry' })
  expect(fields(retry)).toEqual([
    ...['token=a-token', 'team=north', 'stream=patients', 'reason=a &amp; b', 'upTo=99'],
  ])
  expect(plain(retry)).toContain(
    '3: fetched by id 2: loaded again One that fails again becomes a new dead letter.',
  )
  expect(plain(retry)).toMatch(/Retry 5 dead letters( |$)/)
  expect(retry).toContain('action="/dead-letters/retry"')
  expect(plain(retry)).not.toContain('There are')
  const discard = html('dead-letter-preview', { ...data, action: 'discard', total: 1_500, count: 1_000 })
  expect(plain(discard)).toContain('There are 1,500; the oldest 1,000 are done at once.')
  expect(plain(discard)).toMatch(/Discard 1,000 dead letters( |$)/)
  expect(discard).toContain('action="/dead-letters/discard"')
  expect(plain(discard)).not.toContain('fetched by id')
  expect(html('dead-letter-preview', { ...data, action: 'retry', count: 0, total: 0 })).not.toContain(
    '<form method="post" action="/dead-letters',
  )
  const done = (count: number, outcomes: readonly (readonly [string, number])[]) =>
    html('dead-letter-done', { group, count, outcomes })
  expect(plain(done(2, [['loaded', 2]]))).toContain('2 dead letters of north/patients: 2: loaded')
  expect(plain(done(0, []))).toContain('None of them was waiting any more.')
  expect([done(2, []), done(0, [])].map((text) => /class="notice (\w*)" role/.exec(text)![1])).toEqual([
    'good',
    '',
  ])
})

it('actions, decisions and findings are in the columns of their heads', () => {
  const detail = { retried: 3, failed: 1 }
  const rows = [
    { at: at(1), login: 'ada', action: 'retry', object: 'north/patients', detail },
    { at: at(2), login: 'kim', action: 'receipt', object: 'verification 7', detail: {} },
  ]
  const audit = html('audit', { rows, made: null, roles: ['viewer', 'admin'] })
  expect(titles(audit, 'Actions')).toBe('time login action object detail')
  expect(tableIn(audit, 'Actions')).toEqual([
    '2026-01-01 03:04 UTC ada retry north/patients retried 3, failed 1',
    '2026-01-02 03:04 UTC kim receipt verification 7',
  ])
  const made = html('audit', {
    rows: [],
    made: { login: 'kim', role: 'viewer', link: 'http://h/x' },
    roles: [],
  })
  expect(plain(made)).toContain(
    'Send this link to kim. It is shown once, works once, for an hour, with the role viewer: http://h/x',
  )
  expect(plain(made)).toContain('No action yet.')
  const question = { form: ' ', form_id: 'f1', question_text: 'Sleep?', shows: 'nothing' }
  const other = { ...question, form: 'Intake', question_text: null, shows: 'everything' }
  const decided = [
    { question, now: 'structured', restore: 'r1' },
    { question: other, now: 'nothing', restore: 'r2' },
  ]
  const undo = html('decided', { decided, isUndo: true })
  expect(titles(undo, 'Decisions')).toBe('form question showed decided')
  expect(tableIn(undo, 'Decisions')).toEqual([
    ...['f1 Sleep? nothing structured', 'Intake (no text) everything nothing'],
  ])
  expect(fields(undo)).toEqual(['token=a-token', 'restore=r1', 'restore=r2'])
  expect(plain(undo)).toContain('2 questions as before.')
  expect(plain(html('decided', { decided: [decided[0]], isUndo: false }))).toContain('1 question decided on.')
  const found = { path: 'a.b', what: 'not a date', count: 1_000, first_seen: at(1), last_seen: at(2) }
  const runs = [
    { run_id: 8, started_at: at(3), status: 'needs_attention', fetched: 1_500, changed: 20, seconds: 90 },
    { run_id: 7, started_at: at(2), status: 'succeeded', fetched: 10, changed: 0, seconds: 2 },
  ]
  const stream = html('stream', { runs, problems: [found], drift: [{ ...found, what: 'text', count: 2 }] })
  expect(titles(stream, 'Last runs')).toBe('run started status fetched changed seconds')
  expect(tableIn(stream, 'Last runs')).toEqual([
    '8 2026-01-03 03:04 UTC needs attention 1,500 20 90 s',
    '7 2026-01-02 03:04 UTC succeeded 10 0 2 s',
  ])
  expect(marksIn(stream)).toEqual(['bad: needs attention', 'good: succeeded'])
  expect(['Problems', 'Drift'].map((label) => [titles(stream, label), ...tableIn(stream, label)])).toEqual([
    [
      'field reason count first seen last seen',
      'a.b not a date 1,000 2026-01-01 03:04 UTC 2026-01-02 03:04 UTC',
    ],
    ['field type count first seen last seen', 'a.b text 2 2026-01-01 03:04 UTC 2026-01-02 03:04 UTC'],
  ])
  const clean = plain(html('stream', { runs: [], problems: [], drift: [] }))
  for (const text of ['No run has read', 'Every field could be read', 'No unknown field'])
    expect(clean).toContain(text)
})

it('the inbox has what waits, since when, and marks what waits for more than five minutes', () => {
  const of = (team: string, seconds: number | null, streams: object) => ({
    ...{ team, pending: 1_200, oldest_pending_seconds: seconds, pending_by_stream: streams, refetches: 3 },
  })
  const waiting = [of('a', null, {}), of('b', 300, { patients: 1_000, forms: 2 }), of('c', 301, {})]
  const sample = { at: 1, received: 5, stored: 4.25, drained: 3, p50: 0.1, p99: 1 }
  const refused = [
    { team: '', reason: 'signature', count: 2 },
    { team: 'north', reason: 'too_large', count: 1_000 },
  ]
  const metrics = { received: 12_000, drained: 11_000, refused, visible: [] }
  const days = [{ day: '2026-01-01', events: 12_000, bytes: 1_960_000 }]
  const text = html('inbox', { metrics, samples: [{ ...sample, stored: 9 }, sample], waiting, days })
  expect(tableIn(text, 'Waiting events')).toEqual([
    ...['a 1,200 – 3', 'b 1,200 5 min patients 1,000, forms 2 3', 'c 1,200 5 min 3'],
  ])
  expect(marksIn(text)).toEqual(['good: 5 min', 'bad: 5 min'])
  expect(tableIn(text, 'Refused requests')).toEqual(['unknown signature 2', 'north too_large 1,000'])
  expect(tableIn(text, 'Days of the inbox')).toEqual(['2026-01-01 12,000 2.0'])
  expect(plain(text)).toContain(
    'stored since its start 12,000 drained since its start 11,000 events a second 4.3 half visible within 0.1 s 99 % visible within 1 s',
  )
  const none = plain(
    html('inbox', { metrics: { ...metrics, refused: [] }, samples: [], waiting: [], days: [] }),
  )
  expect(none).toContain('events a second – half visible within – 99 % visible within –')
  for (const part of ['None since its start.', 'There is no team yet.']) expect(none).toContain(part)
  const away = plain(html('inbox', { metrics: null, samples: [], waiting: null, days: [] }))
  for (const part of ['No process that receives events answers', 'Counting the events'])
    expect(away).toContain(part)
})

it('an event has each of its bodies, its state and its record; differences lead to records, up to a limit', () => {
  const streamOf = (source: string | null) => (source === 'patient' ? 'patients' : null)
  const event = {
    ...{ received_at: at(1), source: 'patient', event_type: 'updated', body_hash: 'abcdefghijklmnop' },
    ...{ status: 'done', settled_at: at(2), attempts: 0, record_id: 'p/1' },
  }
  const events = [
    event,
    { ...event, status: 'dead', attempts: 2, record_id: null },
    { ...event, source: null, event_type: null, status: 'pending', settled_at: null, attempts: 1 },
  ]
  const text = html('event', { asked: { team: 'north', id: 'e1' }, events, streamOf })
  const lines = [...text.matchAll(/<li>(received[\s\S]*?)<\/li>/g)].map(([, line]) => plain(line!))
  expect(lines).toEqual([
    'received 2026-01-01 03:04 UTC: patient updated, content abcdefghijkl done since 2026-01-02 03:04 UTC what became of patients p/1, and why',
    'received 2026-01-01 03:04 UTC: patient updated, content abcdefghijkl dead since 2026-01-02 03:04 UTC, 2 failed attempts it is about no record of a stream',
    'received 2026-01-01 03:04 UTC: unknown source of unknown type, content abcdefghijkl pending , 1 failed attempt it is about no record of a stream',
  ])
  expect(marksIn(text)).toEqual(['good: done', 'bad: dead', 'unknown: pending'])
  expect(links(text).filter((to) => to?.includes('?'))).toEqual([
    '/records?team=north&amp;stream=patients&amp;id=p%2F1',
  ])
  expect(plain(html('event', { asked: { team: 'n', id: 'e1' }, events: [], streamOf }))).toContain(
    'The inbox has no event e1 of this team.',
  )
  const found = {
    ...{ run_id: 7, verified_at: at(1), missing: 3, missing_ids: ['m1', 'm2'], extra: 1, extra_ids: ['x'] },
    ...{ different: 2, different_ids: [{ id: 'd', fields: ['city', 'name'] }], repaired: 1_000 },
  }
  const differences = html('differences', { found, team: 'north', stream: 'forms', limit: 2 })
  expect(plain(differences)).toMatch(
    /Missing in the warehouse: 3 The first 2; all are in intake_ops\.verifications ?\. m1 m2 Only in the warehouse: 1 x Different: 2 d ?: city, name Repaired by the same run: 1,000\./,
  )
  expect(links(differences).filter((to) => to?.startsWith('/records?'))).toEqual(
    ['m1', 'm2', 'x', 'd'].map((id) => `/records?team=north&amp;stream=forms&amp;id=${id}`),
  )
})
