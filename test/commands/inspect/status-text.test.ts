/** `status` as text: teams, streams, what waits, and what is stale. */
import { expect, it } from 'vitest'
import { isStale, statusText } from '../../../src/commands/inspect/status.ts'
import type { Status } from '../../../src/operate/health/status.ts'
import { contextOf } from '../output-context.ts'

const stream = (team: string, more: object = {}) => ({
  ...{
    team,
    stream: 'forms',
    rows: 10,
    deleted: 2,
    newest_record_at: '2026-01-01T00:00:00Z',
    last_success_at: null,
  },
  ...{
    last_run_at: null,
    last_run_status: null,
    lag_seconds: null,
    inbox: 3,
    dead_letters: 4,
    drift: 5,
    ...more,
  },
})
const team = (name: string, more: object = {}) => ({
  ...{ team: name, refetches: 6, questions_waiting: [], ...more },
  inbox: { pending: 7, oldest_pending_at: 'x', oldest_pending_seconds: 89.6, dead_letters: 8, drift: 0 },
  webhooks: { verdict: 'silent', reason: 'no event for a day', last_event_at: '2026-01-03T00:00:00Z' },
})
const status = (more: object) =>
  ({ streams: [], teams: [], slices_waiting: [], ...more }) as unknown as Status

it('each stream and team is a line; null is not zero', () => {
  const one = status({
    streams: [
      stream('north', {
        last_run_at: '2026-01-02T00:00:00Z',
        last_run_status: 'failed',
        newest_record_at: null,
      }),
    ],
    teams: [team('north'), team('south', {})],
  })
  const lines = statusText(contextOf(), one, [])
    .split('\n')
    .map((line) => line.replace(/ {2,}/g, '  '))
  expect(lines).toEqual([
    'team  stream  rows  deleted  newest record  last run  status  inbox  dead letters  drift',
    'north  forms  10  2  -  2026-01-02 00:00  failed  3  4  5',
    '',
    'team  inbox  oldest  refetches  dead letters  last event  webhooks',
    'north  7  90 s  6  8  2026-01-03 00:00  silent  no event for a day',
    'south  7  90 s  6  8  2026-01-03 00:00  silent  no event for a day',
    '',
  ])
  expect(statusText(contextOf(), status({}), [])).toBe('no team yet: run intake-sync backfill\n')
})

it('in a pipe the only team is in each line; an event of this second is not none', () => {
  const inbox = {
    pending: 0,
    oldest_pending_at: null,
    oldest_pending_seconds: null,
    dead_letters: 0,
    drift: 0,
  }
  const ages = [null, 0, 0.4, 89.5].map((oldest_pending_seconds) => {
    const teams = [team('north', {})].map((each) => ({
      ...each,
      inbox: { ...inbox, oldest_pending_seconds },
    }))
    const lines = statusText(contextOf(), status({ streams: [stream('north')], teams }), []).split('\n')
    expect(lines[0]).toMatch(/^team +stream +rows/)
    return lines[4]!.split(/ {2,}/)[2]
  })
  expect(ages).toEqual(['-', '0 s', '0 s', '90 s'])
})

it('on a terminal the only team is not repeated, and reasons are lines of their own', () => {
  const one = statusText(contextOf(120), status({ streams: [stream('north')], teams: [team('north')] }), [])
  expect(one).toMatch(/^stream +rows/)
  expect(one).toContain('\nnorth: no event for a day\n')
  const two = status({ streams: [stream('north'), stream('south')], teams: [team('north'), team('south')] })
  expect(statusText(contextOf(120), two, [])).toMatch(/^team +stream +rows/)
})

it('what waits for somebody follows the tables: reworded questions, slices, and stale streams', () => {
  const question = { form_id: 'f', form: 'Form', question_id: 'q', question_text: 'Why?' }
  const waiting = status({
    streams: [stream('north'), stream('south')],
    teams: [team('north', { questions_waiting: [question] }), team('south')],
    slices_waiting: [{ team: 'south', run_id: 9, slices: 2, seconds: 400, workers: 1 }],
  })
  const text = statusText(contextOf(), waiting, [stream('south') as never])
  expect(text).toMatch(/\nnorth: 1 [^\n]*\n/)
  expect(text).not.toMatch(/\nsouth: 0/)
  expect(text).toContain('\nsouth: 2 slices of run 9 waiting for 6 minutes')
  expect(text).toMatch(/\n {2}hint: start intake-sync work[^\n]*\nstale: south\/forms\n$/)
  expect(statusText(contextOf(), { ...waiting, slices_waiting: [] }, [])).not.toContain('hint:')
})

it.each([
  [90, 'rows newest record last run status inbox dead letters drift', 'refetches dead letters last event'],
  [76, 'rows newest record last run status dead letters', 'refetches dead letters last event'],
  [70, 'rows last run status dead letters', 'dead letters last event'],
  [50, 'rows last run status', 'dead letters last event'],
])('of %i characters, a terminal shows the columns that matter most', (columns, ofStreams, ofTeams) => {
  const last = { last_run_at: '2026-01-02T00:00:00Z', last_run_status: 'succeeded' }
  const one = status({ streams: [stream('north', last)], teams: [team('north')] })
  const text = statusText(contextOf(columns), one, []).replace(/ +/g, ' ')
  expect(text).toMatch(new RegExp(`^stream ${ofStreams}\n`))
  expect(text).toMatch(new RegExp(`^team inbox oldest ${ofTeams} `, 'm'))
})

it.each<[string, string, object, boolean]>([
  ['as old as allowed', 'forms', { last_success_at: 'x', lag_seconds: 60 }, false],
  ['older than allowed', 'forms', { last_success_at: 'x', lag_seconds: 60.1 }, true],
  ['that never succeeded', 'forms', { last_success_at: null, lag_seconds: null }, true],
  ['whose age is not known', 'forms', { last_success_at: 'x', lag_seconds: null }, true],
  ['that only webhooks load', 'packet_responses', { last_success_at: null, lag_seconds: null }, false],
  ['of webhooks, and old', 'packet_responses', { last_success_at: 'x', lag_seconds: 9_999 }, false],
])('a stream %s: whether it is stale', (_, name, more, expected) => {
  expect(isStale({ ...stream('north'), stream: name, ...more } as never, 60)).toBe(expected)
})
