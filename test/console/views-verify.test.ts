/** The pages of verifications: a receipt that is not of equality, and a verification that runs. */
import { expect, it } from 'vitest'
import { plain } from './support/console.ts'
import { html } from './support/views.ts'

it('a receipt says whether both sides were equal, what was compared of exports, and why a stream was not', () => {
  const row = {
    source: 3,
    warehouse: null,
    missing: 1,
    extra: 0,
    different: 2,
    repaired: 0,
    source_hash: null,
    warehouse_hash: 'wh',
  }
  const streams = {
    forms: { ...row, source_content_hash: 'sc', warehouse_content_hash: 'wc', note: 'noted', error: null },
    packets: {
      ...row,
      source_content_hash: null,
      warehouse_content_hash: null,
      note: 'noted',
      error: 'refused',
    },
  }
  const facts = {
    ...{
      run_id: 7,
      equal: false,
      status: 'needs_attention',
      started_at: '2026-01-01T00:00:00Z',
      finished_at: '2026-01-01T01:00:00Z',
    },
    teams: {
      north: { streams, deep: { rows: 1_000, columns_not_compared: 2 } },
      south: { streams: {}, deep: null },
    },
  }
  const data = { facts, key: 'the-key', version: '1', at: new Date('2026-01-02T00:00:00Z') }
  const text = html('receipt', data)
  expect(text).toContain('<p class="notice bad">The sides were not equal')
  expect(plain(text)).toContain('forms 3 – 1 0 2 0 – wh noted packets 3 – 1 0 2 0 – wh refused')
  expect(plain(text)).toContain('Exports and responses: rows 1,000, columns not compared 2.')
  expect(plain(text)).toContain('forms service sc warehouse wc')
  expect(text.match(/<dt>packets<\/dt>/)).toBeNull()
  expect(text).toContain('action="/verify/7/receipt"')
  expect(html('receipt', { ...data, facts: { ...facts, equal: true } })).toContain(
    '<p class="notice good">Both sides were equal.',
  )
  expect(html('receipt', data, { visitor: { login: 'kim', role: 'viewer' } })).not.toContain(
    'action="/verify',
  )
})

it('a verification that runs cannot be begun again, and a viewer begins none', () => {
  const job = {
    team: '*',
    repair: true,
    login: 'ada',
    outcome: null,
    progress: new Map([
      ['north/forms', { fetched: 5, expected: 10 }],
      ['north/packets', { fetched: 1, expected: null }],
    ]),
  }
  const data = {
    rows: [],
    runs: [],
    job: job as object | null,
    seconds: 5,
    teams: ['north', 'south'],
    all: '*',
  }
  const text = html('verify', data)
  expect(plain(text)).toContain(
    'Verification with repair of all teams Running for 5 s, started by ada. north/forms: 5 of 10 read north/packets: 1 read',
  )
  expect(text).toContain('<button type="submit" disabled>Verify')
  const ended = html('verify', {
    ...data,
    job: { ...job, team: 'north', repair: false, outcome: { mark: 'bad', text: 'failed', runId: '7' } },
  })
  expect(plain(ended)).toContain('Verification of north failed, after 5 s: run 7')
  expect(ended).toContain('<button type="submit">Verify')
  expect(html('verify', { ...data, job: null, teams: ['north'] })).not.toContain('all teams')
  expect(plain(html('verify', { ...data, job: null, teams: [] }))).toContain('No team has credentials')
  expect(html('verify', data, { visitor: { login: 'kim', role: 'viewer' } })).not.toContain(
    '<form method="post" action="/verify"',
  )
})
