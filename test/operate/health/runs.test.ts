/** The history of runs: which are listed, in which order, and how one ended whose process is gone. */
import { expect, test } from 'vitest'
import { readRuns } from '../../../src/operate/health/runs.ts'
import { connect, openWarehouse, query } from '../../e2e/support/scene.ts'

test('runs are listed newest first up to a number, each with its streams by team and name', async () => {
  await using warehouse = await openWarehouse()
  const { url } = warehouse
  await query(
    url,
    `insert into intake.teams (name) values ('south'), ('north');
     insert into intake_ops.runs (kind, status, started_at, finished_at, error, canceled_by, options) values
       ('backfill', 'succeeded', '2026-01-01T00:00:00Z', '2026-01-01T00:01:30Z', null, null, '{"full": true}'),
       ('verify', 'interrupted', '2026-01-02', '2026-01-02', 'why', 'somebody', '{}'),
       ('replay', 'running', now() - interval '1 minute', null, null, null, '{}'),
       ('backfill', 'running', now() - interval '1 minute', null, 'its own reason', null, '{}'),
       ('backfill', 'running', now() - interval '1 minute', null, null, null, '{}');
     insert into intake_ops.run_streams (run_id, team_id, stream, status, requests, throttled, fetched, changed, unchanged,
       deleted, erased, dead_letters, problems, seconds, note)
     values (1, 1, 'packets', 'failed', 1, 2, 3, 4, 5, 6, 7, 8, 9, 10.5, 'why'), (1, 1, 'forms', 'succeeded', 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, null),
       (1, 2, 'patients', 'succeeded', 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, null), (1, 9, 'forms', 'succeeded', 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, null)`,
  )
  // The process of the last run lives.
  const process = await connect(url)
  await process.query('select pg_advisory_lock(intake_ops.lock_key(7204312, $1))', ['5'])
  try {
    const numbers = async (limit: number, upTo?: number) =>
      (await readRuns(url, limit, upTo)).map(({ run_id }) => run_id)
    expect(await numbers(2)).toEqual([5, 4])
    expect(await numbers(9, 3)).toEqual([3, 2, 1])
    expect(await numbers(1, 2)).toEqual([2])
    const [live, failing, killed, canceled, first] = await readRuns(url, 9)
    expect(live).toMatchObject({ status: 'running', error: null, finished_at: null })
    expect(live!.seconds).toBeGreaterThan(59)
    expect(failing).toMatchObject({ status: 'interrupted', error: 'its own reason', seconds: null })
    expect(killed).toMatchObject({
      ...{ status: 'interrupted', error: 'the process ended before the run was complete', seconds: null },
    })
    expect(canceled).toMatchObject({ status: 'interrupted', error: 'why', canceled_by: 'somebody' })
    expect(first).toMatchObject({ kind: 'backfill', seconds: 90, options: { full: true } })
    expect(first!.streams.map(({ team, stream }) => `${team}/${stream}`)).toEqual([
      ...['north/patients', 'south/forms', 'south/packets', '9/forms'],
    ])
    expect(first!.streams[2]).toEqual({
      ...{ team: 'south', stream: 'packets', status: 'failed', requests: 1, throttled: 2, fetched: 3 },
      ...{ changed: 4, unchanged: 5, deleted: 6, erased: 7, dead_letters: 8, problems: 9, seconds: 10.5 },
      note: 'why',
    })
  } finally {
    await process.end()
  }
})

test('a run waits while workers are to execute it and none has claimed a slice, not once it has ended', async () => {
  await using warehouse = await openWarehouse()
  const { url } = warehouse
  const planned = `'{"is_detached": true}'`
  await query(
    url,
    `insert into intake.teams (name) values ('north');
     insert into intake_ops.runs (kind, status, options) values
       ('backfill', 'running', ${planned}), ('backfill', 'running', ${planned}), ('backfill', 'running', ${planned}),
       ('backfill', 'running', ${planned}), ('backfill', 'running', '{}'), ('backfill', 'succeeded', ${planned});
     insert into intake_ops.slices (run_id, team_id, stream, spec, state)
     values (1, 1, 'forms', '{}', 'done'), (1, 1, 'packets', '{}', 'pending'), (1, null, '', '{}', 'pending'),
       (2, 1, 'forms', '{}', 'claimed'), (2, 1, 'documents', '{}', 'pending'), (2, null, '', '{}', 'pending'),
       (3, 1, 'forms', '{}', 'done'), (3, 1, 'packets', '{}', 'canceled'), (3, null, '', '{}', 'claimed'),
       (5, 1, 'messages', '{}', 'pending'), (6, 1, 'exports', '{}', 'pending')`,
  )
  const shown = (await readRuns(url, 9)).map((run) => [run.run_id, run.status, run.is_waiting])
  expect(shown).toEqual([
    [6, 'succeeded', false],
    // Its process, which was to execute its slices itself, is gone, as is that of a run without slices.
    [5, 'interrupted', false],
    [4, 'interrupted', false],
    [3, 'running', false],
    [2, 'running', false],
    [1, 'running', true],
  ])
})
