/** What the pages of streams read: the last runs of each stream, its problems and its drift. */
import { afterAll, beforeAll, expect, it } from 'vitest'
import { readFindings, readHistory } from '../../../src/console/pages/streams.ts'
import { openSession, type Session } from '../../../src/warehouse/connect.ts'
import { openWarehouse } from '../../e2e/support/scene.ts'
import type { TestDatabase } from '../../support/database.ts'

let warehouse: TestDatabase
let session: Session

beforeAll(async () => {
  warehouse = await openWarehouse()
  session = await openSession({ url: warehouse.url, purpose: 'streams' })
  await session.client.query(
    `insert into intake.teams (name) values ('north'), ('south');
     insert into intake_ops.runs (kind, status, started_at, finished_at)
       select case when nth = 20 then 'verify' else 'backfill' end, 'succeeded', '2026-01-01', now() from generate_series(1, 33) nth;
     insert into intake_ops.run_streams (run_id, team_id, stream, status, fetched, changed, deleted, seconds)
       select run_id, 1, 'forms', case when run_id = 33 then 'failed' else 'succeeded' end, run_id * 10, run_id, 100, 4
       from intake_ops.runs;
     insert into intake_ops.run_streams (run_id, team_id, stream, status, fetched, changed, deleted, seconds) values
       (7, 2, 'forms', 'succeeded', 9, 1, 0, 3), (8, 2, 'forms', 'succeeded', 0, 0, 0, 3), (7, 1, 'packets', 'succeeded', 5, 0, 0, 0);
     insert into intake_ops.problems (team_id, stream, path, reason, count, first_seen, last_seen) values
       (1, 'forms', 'a', 'no date', 3, '2026-01-01', '2026-01-05'), (1, 'forms', 'b', 'no number', 4, '2026-01-02', '2026-01-06'),
       (2, 'forms', 'a', 'no date', 50, now(), now()), (1, 'documents', 'a', 'no date', 60, now(), now());
     insert into intake_ops.drift (team_id, stream, path, type, count, first_seen, last_seen) values
       (1, 'forms', 'z', 'string', 1, '2026-01-01', '2026-01-03'), (1, 'forms', 'y', 'array', 2, '2026-01-02', '2026-01-03'),
       (2, 'forms', 'x', 'array', 2, now(), now()), (1, 'patients', 'x', 'array', 2, now(), now())`,
  )
})
afterAll(async () => {
  await session?.[Symbol.asyncDispose]()
  await warehouse?.drop()
})

it('a stream has its last thirty backfills, the newest last, and the speed of the newest', async () => {
  const history = await readHistory(session.db)
  expect(
    history.map(({ team, stream, problems, throughput }) => [team, stream, problems, throughput]),
  ).toEqual([
    ['north', 'documents', 60, null],
    ['north', 'forms', 7, 83],
    ['north', 'packets', 0, null],
    ['south', 'forms', 50, null],
  ])
  const [none, forms, packets, others] = history
  const ids = Array.from({ length: 31 }, (_, nth) => nth + 3).filter((id) => id !== 20)
  expect(forms!.runs.map(({ run_id }) => run_id)).toEqual(ids)
  expect(forms!.runs.at(-1)).toMatchObject({ status: 'failed', changed: 133, fetched: 330, seconds: 4 })
  expect([none!.runs, packets!.runs.length, others!.runs.map(({ run_id }) => run_id)]).toEqual([
    [],
    1,
    [7, 8],
  ])
})

it('problems and drift are those of the stream and team, the last seen first', async () => {
  const { problems, drift } = await readFindings(session.db, 'north', 'forms')
  expect(problems.map(({ path, what, count }) => [path, what, count])).toEqual([
    ['b', 'no number', 4],
    ['a', 'no date', 3],
  ])
  expect(drift.map(({ path, what, count }) => [path, what, count])).toEqual([
    ['y', 'array', 2],
    ['z', 'string', 1],
  ])
  expect([problems[0]!.first_seen.slice(0, 10), problems[0]!.last_seen.slice(0, 10)]).toEqual([
    '2026-01-02',
    '2026-01-06',
  ])
})

it('runs are those of the newest five hundred backfills, so that the history costs no more; problems stay', async () => {
  const more = (count: number) =>
    session.client.query(
      `insert into intake_ops.runs (kind, status, options) select kind, 'succeeded', '{}'
       from generate_series(1, $1::int), unnest(array['backfill', 'verify']) kind`,
      [count],
    )
  const forms = async () =>
    (await readHistory(session.db)).find(({ team, stream }) => team === 'north' && stream === 'forms')!
  await more(499)
  const { runs, throughput } = await forms()
  expect([runs.map(({ run_id }) => run_id), throughput]).toEqual([[33], 83])
  await more(1)
  expect(await forms()).toEqual({ team: 'north', stream: 'forms', runs: [], problems: 7, throughput: null })
})
