/** Everything that is stored about one record, in its order, and nothing of its twins in other streams and teams. */
import { expect, test } from 'vitest'
import { readStoredRecord } from '../../src/operate/explain-queries.ts'
import { forms } from '../../src/streams/forms.ts'
import { openSession } from '../../src/warehouse/connect.ts'
import { createTestDatabase } from '../support/database.ts'

const TWINS = [
  [1, 'forms', 'f'],
  [1, 'packets', 'f'],
  [1, 'forms', 'other'],
  [2, 'forms', 'f'],
] as const

test('states are in the order in which they were superseded, events in that of their arrival, each with its own figures', async () => {
  await using database = await createTestDatabase()
  await using session = await openSession({ url: database.url, purpose: 'test' })
  const { client, db } = session
  await client.query(`
    insert into intake.teams (name) values ('north'), ('south');
    insert into intake_ops.runs (run_id, kind, status, started_at, options) overriding system value values
      (7, 'backfill', 'succeeded', '2026-01-07', '{}'), (8, 'verify', 'succeeded', '2026-01-08', '{}'),
      (9, 'replay', 'succeeded', '2026-01-09', '{}')`)
  for (const [team, stream, id] of TWINS) {
    const whose = `${team}, '${stream}', '${id}'`
    const mark = `${team}${stream}${id}`
    // A later state may have been observed earlier: its version is the time of its update.
    await client.query(`
      insert into intake_raw.record_history (team_id, stream, id, version, observed_at, hash, origin, deleted, superseded_at, payload) values
        (${whose}, '2026-01-03', '2026-01-01T00:00:00.000001', '\\x02', 'event:second ${mark}', false, '2026-01-12', '{"n": 2}'),
        (${whose}, '2026-01-04', '2026-01-03', '', 'run:8 repair', true, '2026-01-13', null),
        (${whose}, '2026-01-02', '2026-01-02', '\\x01', 'run:7 page:1', false, '2026-01-11', '{"n": 1}'),
        (${whose}, '2026-01-01', '2026-01-02', '\\x00', 'event:zero ${mark}', false, '2026-01-11', '{"n": 0}');
      insert into intake_raw.records (team_id, stream, id, version, observed_at, hash, origin, payload)
        values (${whose}, '2026-01-05', '2026-01-01', '\\x04', 'event:now ${mark}', '{"n": 4}');
      insert into intake_ops.refetches (team_id, stream, id, reason, origin, attempts, failures, requested_at, due_at)
        values (${whose}, 'partial', 'of ${mark}', 2, 3, '2026-01-05', '2026-01-06')`)
    for (const [name, days] of [
      ['late', 3],
      ['early', 1],
    ] as const)
      await client.query(
        `insert into intake_raw.inbox (team_id, source, record_id, event_id, event_type, body_hash, received_on, received_at, body, status, attempts)
         values ($1, $2, $3, $4::text, 'form.updated', '\\x00', '2026-01-01', '2026-01-01'::timestamptz + make_interval(days => $5::int), convert_to($4::text, 'UTF8'), 'dead', $5)`,
        [team, stream.slice(0, -1), id, `${name} ${mark}`, days],
      )
    for (const reason of ['first', 'last'])
      await client.query(
        `insert into intake_ops.dead_letters (team_id, stream, record_id, fingerprint, origin, reason, seen, last_run_id)
         values ($1, $2, $3, $4::text, 'page', $4::text, 5, 8)`,
        [team, stream, id, `${reason} ${mark}`],
      )
  }
  const found = await readStoredRecord(db, { teamId: 1, stream: forms, id: 'f' })
  const own = '1formsf'
  // Two that were superseded at the same time are in the order of their versions.
  expect(found.states).toMatchObject([
    { origin: `event:zero ${own}`, hash: '00', payload: '{"n": 0}', deleted: false },
    { origin: 'run:7 page:1', hash: '01', payload: '{"n": 1}', deleted: false },
    { origin: `event:second ${own}`, hash: '02', observedAt: '2026-01-01T00:00:00.000001Z', deleted: false },
    {
      origin: 'run:8 repair',
      hash: '',
      payload: null,
      deleted: true,
      version: '2026-01-04T00:00:00.000000Z',
    },
    { origin: `event:now ${own}`, hash: '04', payload: '{"n": 4}', supersededAt: null },
  ])
  expect(found.states.map(({ supersededAt }) => supersededAt?.slice(0, 10))).toEqual([
    ...['2026-01-11', '2026-01-11', '2026-01-12', '2026-01-13', undefined],
  ])
  expect(found.events).toEqual([
    {
      ...{ eventId: `late ${own}`, eventType: 'form.updated', status: 'dead', attempts: 3 },
      ...{ receivedAt: '2026-01-04T00:00:00.000000Z', body: Buffer.from(`late ${own}`) },
    },
    {
      ...{ eventId: `early ${own}`, eventType: 'form.updated', status: 'dead', attempts: 1 },
      ...{ receivedAt: '2026-01-02T00:00:00.000000Z', body: Buffer.from(`early ${own}`) },
    },
  ])
  expect(found.deadLetters).toMatchObject([
    { reason: `first ${own}`, team: 'north', stream: 'forms', record_id: 'f', seen: 5, last_run_id: 8 },
    { reason: `last ${own}`, team: 'north', stream: 'forms', record_id: 'f', seen: 5, last_run_id: 8 },
  ])
  expect(found.refetch).toEqual({
    ...{ reason: 'partial', origin: `of ${own}`, attempts: 5 },
    requested_at: expect.stringMatching(/^2026-01-05/),
    due_at: expect.stringMatching(/^2026-01-06/),
  })
  // Of the runs that its states name, and no other.
  expect([...found.runs].sort()).toEqual([
    [7, { kind: 'backfill', startedAt: expect.stringMatching(/^2026-01-07/) }],
    [8, { kind: 'verify', startedAt: expect.stringMatching(/^2026-01-08/) }],
  ])
  const nothing = await readStoredRecord(db, { teamId: 2, stream: forms, id: 'other' })
  expect(nothing).toEqual({ states: [], events: [], deadLetters: [], refetch: null, runs: new Map() })
})
