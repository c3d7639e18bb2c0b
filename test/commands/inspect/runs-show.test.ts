/** `runs show`: how far a running run is, who executes it, and what a verification or replay found. */
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { openWarehouse, query } from '../../e2e/support/scene.ts'
import type { TestDatabase } from '../../support/database.ts'
import { runCommand } from '../../support/run-command.ts'

let warehouse: TestDatabase

beforeAll(async () => {
  warehouse = await openWarehouse()
  await query(warehouse.url, `insert into intake.teams (name) values ('north'), ('south')`)
})
afterAll(async () => {
  await warehouse.drop()
})
beforeEach(() =>
  query(warehouse.url, 'delete from intake_ops.runs; alter sequence intake_ops.runs_run_id_seq restart'),
)

const show = async (id: number, ...words: string[]) => {
  const { code, stdout } = await runCommand(['runs', 'show', String(id), ...words], {
    DATABASE_URL: warehouse.url,
  })
  expect(code).toBe(0)
  return stdout.split('\n').map((line) => line.replace(/ {2,}/g, '  ').trimEnd())
}

const RUN = `insert into intake_ops.runs (kind, status, started_at, options)
  values ('backfill', 'running', now() - interval '10 minutes', '{"is_detached": true}');`

/** Team, stream, state, owner, silent, takeovers, and since when it is claimed, in seconds. */
const slices = (
  ...all: readonly (readonly [number | null, string, string, string | null, number, number])[]
) =>
  query(
    warehouse.url,
    `insert into intake_ops.slices (run_id, team_id, stream, spec, state, owner, heartbeat_at, claimed_at, settled_at, takeovers, result)
     select 1, (slice ->> 0)::smallint, slice ->> 1, '{"kind": "stream"}', slice ->> 2, slice ->> 3,
       case when slice ->> 2 = 'claimed' then now() - (slice ->> 4)::int * interval '1 second' end,
       case when slice ->> 2 <> 'pending' then now() - interval '100 seconds' end,
       case when slice ->> 2 = 'done' then now() end, (slice ->> 5)::int,
       case when slice ->> 2 = 'done' then '{"status": "succeeded", "requests": 10}'::jsonb end
     from jsonb_array_elements($1::jsonb) as slice`,
    [JSON.stringify(all)],
  )

test('a running run shows its streams, live ones first, each once, and the time that is left', async () => {
  await query(
    warehouse.url,
    `${RUN}
     insert into intake_ops.run_streams (run_id, team_id, stream, status, requests, throttled, fetched, changed, deleted)
       values (1, 1, 'forms', 'succeeded', 2, 1, 30, 4, 5);
     insert into intake_ops.run_progress (run_id, team_id, stream, phase, pages, requests, throttled, fetched, expected, pages_left, began_at, updated_at)
       values (1, 1, 'forms', 'ended', 2, 2, 1, 30, 30, 0, now(), now()),
         (1, 2, 'patients', 'fetch', 6, 7, 0, 60, 120, 6, now() - interval '60 s', now()),
         (1, 2, 'packets', 'plan', 0, 0, 0, 0, null, null, now(), now())`,
  )
  await slices(
    [1, 'forms', 'done', 'a', 0, 0],
    [2, 'patients', 'claimed', 'host-1', 3, 2],
    [2, 'packets', 'pending', null, 0, 0],
    [null, 'close', 'pending', null, 0, 0],
  )
  const lines = await show(1)
  expect(lines[0]).toMatch(/^run 1, backfill: running \(10 min \d s\)$/)
  const at = lines.indexOf('stream  status  pages  requests  429  fetched  of  changed  deleted')
  expect(lines.slice(at + 1, at + 4)).toEqual([
    'south/patients  fetch  6  7  0  60  120',
    'south/packets  plan  0  0  0  0',
    'north/forms  succeeded  2  1  30  4  5',
  ])
  expect(lines).toContain('slices: 2 pending, 1 claimed, 1 done')
  const left = lines.find((line) => line.startsWith('left: '))
  expect(left).toMatch(
    /^left: 2 streams; 1 stream read by 1 worker: 6 of about 12 pages; 2\.\d pages per minute; time left: unknown \(1 stream without a count, and no stream of their kind read yet\)$/,
  )
  const open = lines.indexOf('slice  state  worker  heard  taken over')
  expect(lines.slice(open + 1, open + 4)).toEqual([
    expect.stringMatching(/^south\/patients {2}claimed {2}host-1 {2}\d+(?:\.\d)? s ago {2}2$/),
    'south/packets  pending',
    'end of the run  pending',
  ])
})

test('where nobody executes the slices it says so; where all counts are known, when the run will end', async () => {
  await query(warehouse.url, RUN)
  await slices([1, 'patients', 'done', 'a', 0, 0], [2, 'patients', 'pending', null, 0, 0])
  const waiting = await show(1)
  expect(waiting).toContain('slices: 1 pending, 0 claimed, 1 done')
  const waits =
    '  waiting for a worker: none has claimed a slice; start intake-sync work, or serve, with its teams in the configuration'
  expect(waiting.slice(0, 2)).toEqual([expect.stringMatching(/^run 1, backfill: running \(/), waits])
  const list = async () => (await runCommand(['runs'], { DATABASE_URL: warehouse.url })).stdout
  expect(await list()).toContain(`\n  ${waits}\n`)
  expect(waiting).toContain('left: 1 stream; none being read; time left: unknown (no page yet)')
  await query(
    warehouse.url,
    `update intake_ops.slices set state = 'claimed', owner = 'b', heartbeat_at = now(), claimed_at = now() - interval '100 s' where team_id = 2;
     insert into intake_ops.run_progress (run_id, team_id, stream, phase, pages, requests, throttled, fetched, expected, pages_left, began_at, updated_at)
       values (1, 2, 'patients', 'fetch', 5, 5, 0, 50, 150, 10, now() - interval '100 s', now())`,
  )
  const reading = await show(1)
  expect(reading.join('\n') + (await list())).not.toContain('waiting')
  expect(reading.find((line) => line.startsWith('left: '))).toMatch(
    /5 of about 15 pages; 4\.\d pages per minute; time left: about 3 min \d+ s$/,
  )
  expect(JSON.parse((await show(1, '--json')).join('\n'))).toMatchObject({
    eta: { slices_left: 1 },
    owner: null,
    verification: null,
  })
})

test('a verification that has ended shows what it found, a replay what it rebuilt, and their reasons', async () => {
  await query(
    warehouse.url,
    `insert into intake_ops.runs (kind, status, started_at, finished_at, error, options) values
       ('verify', 'needs_attention', now() - interval '5 s', now(), 'it is not equal', '{"teams": ["north", "south"], "streams": ["patients"]}'),
       ('replay', 'succeeded', now(), now(), null, '{}'), ('backfill', 'succeeded', now(), now(), null, '{}');
     insert into intake_ops.run_streams (run_id, team_id, stream, status, note)
       values (1, 1, 'patients', 'needs_attention', 'of north'), (1, 2, 'patients', 'succeeded', 'of south');
     insert into intake_ops.verifications (run_id, team_id, stream, is_equal, source, warehouse, missing, extra, different, repaired,
         missing_ids, extra_ids, different_ids)
       values (1, 1, 'patients', false, 10, 9, 1, 2, 3, 4, '{canary}', '{}', '[]'), (1, 2, 'patients', true, 5, 6, 0, 0, 0, 0, '{}', '{}', '[]');
     insert into intake_ops.slices (run_id, team_id, stream, spec, state, settled_at, claimed_at, result)
       select run, 2, 'forms', '{}', 'done', now(), now(), '{"status": "succeeded", "records": 7, "rewritten": 2}' from generate_series(2, 3) run`,
  )
  const verified = await show(1)
  expect(verified.slice(1, 4)).toEqual([
    '  it is not equal',
    '  north/patients: of north',
    '  south/patients: of south',
  ])
  const at = verified.indexOf('stream  source  warehouse  missing  extra  different  repaired')
  expect(verified.slice(at + 1, at + 3)).toEqual([
    'north/patients  10  9  1  2  3  4',
    'south/patients  5  6  0  0  0  0',
  ])
  expect(verified.join()).not.toContain('canary')
  const replayed = await show(2)
  expect(replayed.slice(1, 3)).toEqual([
    'stream  status  records  rewritten  removed',
    'south/forms  succeeded  7  2  -',
  ])
  expect((await show(3)).join('\n')).not.toContain('rewritten')
})

test('the list has the sum of all streams of a run, and names the team of a note where there are several', async () => {
  await query(
    warehouse.url,
    `insert into intake_ops.runs (kind, status, started_at, finished_at, error) values
       ('backfill', 'failed', '2026-01-01T00:00:00Z', '2026-01-01T01:30:00Z', 'away: of south'), ('backfill', 'failed', now(), now(), 'for itself');
     insert into intake_ops.run_streams (run_id, team_id, stream, status, fetched, changed, note)
       values (1, 1, 'forms', 'succeeded', 3, 1, null), (1, 2, 'forms', 'failed', 4, 2, 'of south'), (2, 1, 'forms', 'failed', 0, 0, 'a note')`,
  )
  const { stdout } = await runCommand(['runs'], { DATABASE_URL: warehouse.url })
  const lines = stdout
    .trimEnd()
    .split('\n')
    .map((line) => line.replace(/ {2,}/g, '  '))
  expect(lines.slice(2, 4)).toEqual(['  for itself', '  forms: a note'])
  // What the note says is not said twice.
  expect(lines.slice(4)).toEqual([
    '  1  backfill  failed  2026-01-01 00:00  1 h 30 min  7  3',
    '  south/forms: of south',
  ])
  for (const id of ['0', 'x', '9'])
    expect((await runCommand(['runs', 'show', id], { DATABASE_URL: warehouse.url })).code).toBe(
      id === '9' ? 1 : 2,
    )
})
