/** `runs`: the runs, how they ended and why; exact as JSON, readable at 80 columns. */
import { stripVTControlCharacters } from 'node:util'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openWarehouse, query } from '../../e2e/support/scene.ts'
import type { TestDatabase } from '../../support/database.ts'
import { runCommand } from '../../support/run-command.ts'

let warehouse: TestDatabase

beforeAll(async () => {
  warehouse = await openWarehouse()
})
afterAll(async () => {
  await warehouse.drop()
})

const runs = (columns?: number, ...words: string[]) =>
  runCommand(['runs', ...words], { DATABASE_URL: warehouse.url }, columns === undefined ? {} : { columns })

test('without a run it says so, and prints an empty list as JSON', async () => {
  expect((await runs()).stdout).toBe('no run yet\n')
  expect(JSON.parse((await runs(undefined, '--json')).stdout)).toEqual({ runs: [] })
})

test('each run is shown with its streams, newest first; one whose process is gone is interrupted', async () => {
  const note = `${'a reason that is quite long '.repeat(6)}and ends here`
  await query(
    warehouse.url,
    `insert into intake.teams (name) values ('clinic');
     insert into intake_ops.runs (kind, status, started_at, finished_at, options) values
       ('backfill', 'succeeded', '2026-01-01T02:00:00Z', '2026-01-01T02:01:05Z', '{"streams": ["patients"]}'),
       ('backfill', 'needs_attention', '2026-01-02T02:00:00Z', '2026-01-02T02:00:04Z', '{}'),
       ('verify', 'running', '2026-01-03T02:00:00Z', null, '{}');
     insert into intake_ops.run_streams (run_id, team_id, stream, status, fetched, changed, note)
       values (1, 1, 'patients', 'succeeded', 1200, 7, null), (2, 1, 'forms', 'needs_attention', 3, 1, '${note}')`,
  )
  const { runs: all } = JSON.parse((await runs(undefined, '--json')).stdout)
  expect(all.map(({ run_id, status }: { run_id: number; status: string }) => [run_id, status])).toEqual([
    [3, 'interrupted'],
    [2, 'needs_attention'],
    [1, 'succeeded'],
  ])
  expect(all[2]).toMatchObject({
    ...{ kind: 'backfill', seconds: 65, options: { streams: ['patients'] } },
    streams: [{ team: 'clinic', stream: 'patients', fetched: 1200, changed: 7, note: null }],
  })

  const piped = await runs()
  expect(piped.stdout).toContain(`forms: ${note}\n`)
  expect(piped.stdout).not.toContain('\u001b')

  const shown = await runs(80)
  const plain = stripVTControlCharacters(shown.stdout)
  expect(plain).not.toBe(shown.stdout)
  for (const line of plain.split('\n')) expect(line.length).toBeLessThanOrEqual(80)
  expect(plain.replace(/\s+/g, ' ')).toContain(note)

  expect((await runs(undefined, '--limit', '1', '--json')).stdout).not.toContain('succeeded')
  expect((await runs(undefined, '--limit', '0')).code).toBe(2)
})

test('the reason of a failed run is printed once, on lines of its own, whatever is in it', async () => {
  await query(
    warehouse.url,
    `insert into intake_ops.runs (kind, status, started_at, finished_at, error)
       values ('backfill', 'failed', '2026-01-04T02:00:00Z', '2026-01-04T02:01:05Z', E'GET /v2/patients: the service\nfailed');
     insert into intake_ops.run_streams (run_id, team_id, stream, status, note)
       select max(run_id), 1, 'patients', 'failed', E'GET /v2/patients: the service\nfailed' from intake_ops.runs`,
  )
  const { stdout } = await runs(undefined, '--limit', '1')
  expect(stdout.split('\n').slice(2)).toEqual(['    patients: GET /v2/patients: the service failed', ''])
})

test('show prints the end of the log, the newest line last, each with its place; as JSON the whole log', async () => {
  await query(
    warehouse.url,
    `insert into intake_ops.run_log (run_id, line, at, level, team_id, stream, message)
       select 2, line, '2026-01-02T02:00:00Z'::timestamptz + line * interval '1 second', 'info',
         case when line <> 30 then 1 end, case when line < 29 then 'forms' end, 'line number ' || line
       from generate_series(1, 30) as line`,
  )
  const { stdout } = await runs(undefined, 'show', '2')
  const lines = stdout.split('log (UTC):\n')[1]!.trimEnd().split('\n')
  expect(lines.map((line) => line.trim())).toEqual([
    ...Array.from({ length: 18 }, (_, at) => `02:00:${at + 11} info clinic/forms: line number ${at + 11}`),
    '02:00:29 info line number 29',
    '02:00:30 info line number 30',
  ])
  const { log } = JSON.parse((await runs(undefined, 'show', '2', '--json')).stdout)
  expect(log.map(({ message }: { message: string }) => message)).toEqual(
    Array.from({ length: 30 }, (_, at) => `line number ${at + 1}`),
  )
})

test('a run that workers execute is running, and shows how far each of its slices is', async () => {
  const [{ run }] = (await query<{ run: number }>(
    warehouse.url,
    `insert into intake_ops.runs (kind, started_at, options)
     values ('backfill', now() - interval '1 hour', '{"is_detached": true}') returning run_id::int as run`,
  )) as [{ run: number }]
  await query(
    warehouse.url,
    `insert into intake_ops.slices
       (run_id, team_id, stream, spec, state, owner, claimed_at, heartbeat_at, settled_at, takeovers, result)
     select $1, team_id, stream, '{"version": 1}', state, owner, now() - claimed * interval '1 second',
       now() - beat * interval '1 second', now() - settled * interval '1 second', takeovers, result::jsonb
     from (values
       (1, 'patients', 'done', 'a', 90, 40, 30, 0, '{"status": "succeeded", "requests": 12}'),
       (1, 'forms', 'claimed', 'b', 60, 5, null, 1, null),
       (1, 'packets', 'done', 'a', 90, 40, 30, 0, '{"status": "failed", "requests": 4}'),
       (1, 'documents', 'pending', null, 60, 50, null, 2, null),
       (77, 'forms', 'pending', null, null, null, null, 0, null),
       (null, '', 'pending', null, null, null, null, 0, null)
     ) as slice (team_id, stream, state, owner, claimed, beat, settled, takeovers, result)`,
    [run],
  )
  await query(
    warehouse.url,
    `insert into intake_ops.run_progress
       (run_id, team_id, stream, phase, pages, requests, throttled, fetched, expected, pages_left, permitted_rate, began_at, updated_at)
     select coalesce(run, $1), 1, stream, phase, pages, 1, 0, fetched, 900, 6, 20, now() - began * interval '1 second', now()
     from (values (null, 'forms', 'fetch', 3, 300, 20), (1, 'forms', 'fetch', 99, 99, 20), (null, 'packets', 'ended', 2, 200, 90),
       (null, 'messages', 'fetch', 1, 100, 40)) as row (run, stream, phase, pages, fetched, began)`,
    [run],
  )
  const shown = JSON.parse((await runs(undefined, 'show', String(run), '--json')).stdout)
  expect(shown).toMatchObject({ run_id: run, status: 'running', owner: null })
  expect(shown.progress).toMatchObject([
    { team: 'clinic', stream: 'messages', phase: 'fetch', pages: 1, fetched: 100, seconds: 40 },
    { team: 'clinic', stream: 'forms', phase: 'fetch', pages: 3, fetched: 300, seconds: 20 },
    { team: 'clinic', stream: 'packets', phase: 'ended', pages: 2, fetched: 200, seconds: 90 },
  ])
  const unread = {
    owner: null,
    silent_seconds: null,
    settled_at: null,
    seconds: null,
    pages: null,
    fetched: null,
  }
  expect(shown.slices).toMatchObject([
    {
      team: 'clinic',
      stream: 'patients',
      state: 'done',
      owner: 'a',
      pages: 12,
      seconds: 60,
      silent_seconds: null,
    },
    { team: 'clinic', stream: 'forms', state: 'claimed', owner: 'b', pages: 3, expected: 900, takeovers: 1 },
    {
      team: 'clinic',
      stream: 'packets',
      state: 'done',
      pages: null,
      fetched: 200,
      result: { status: 'failed' },
    },
    { team: 'clinic', stream: 'documents', state: 'pending', takeovers: 2, ...unread },
    { team: '77', stream: 'forms', state: 'pending', ...unread },
    { team: null, stream: '', state: 'pending', ...unread },
  ])
  const { silent_seconds, seconds } = shown.slices[1]
  expect([silent_seconds >= 5, silent_seconds < 500, seconds >= 60, seconds < 500]).toEqual(
    Array(4).fill(true),
  )
  expect(shown.eta).toMatchObject({ slices_left: 3, slices_claimed: 1, pages: 3, expected_pages: 9 })
})
