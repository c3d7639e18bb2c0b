/** Which alerts are read, and in which order they are posted; how they are counted, and when a post is tried again. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import {
  type AlertRow,
  countRaised,
  readAlerts,
  recordFailure,
} from '../../../src/operate/alerts/alert-rows.ts'
import { openSession, type Session } from '../../../src/warehouse/connect.ts'
import { createTestDatabase, type TestDatabase } from '../../support/database.ts'

let database: TestDatabase
let session: Session
beforeAll(async () => {
  database = await createTestDatabase()
  session = await openSession({ url: database.url, purpose: 'test' })
  // The first team by number is not the first by name.
  await session.client.query(`
    insert into intake.teams (name) values ('south'), ('north'), ('elsewhere');
    insert into intake_ops.alerts (team_id, cause, stream, raised_at, cleared_at, attempts, due_at) values
      (1, 'drift', 'forms', '2026-01-02', null, 0, now() - interval '1 minute'),
      (2, 'inbox_old', '', '2026-01-02', null, 5, now() + interval '1 hour'),
      (2, 'drift', 'packets', '2026-01-02', '2026-01-09', 6, now() - interval '1 minute'),
      (1, 'defect', '', '2026-01-02', null, 0, now() - interval '1 minute'),
      (2, 'drift', 'forms', '2026-01-02', null, 1, now() - interval '1 minute'),
      (2, 'dead_letters', 'forms', '2026-01-03', null, 0, now() - interval '1 minute'),
      (1, 'verify_failed', 'forms', '2026-01-01', null, 9, now() - interval '1 minute'),
      (3, 'drift', 'forms', '2026-01-02', null, 0, now() - interval '1 minute'),
      (3, 'slices_waiting', '', '2026-01-02', null, 0, now() - interval '1 minute'),
      (2, 'of_a_newer_version', '', '2026-01-02', null, 0, now() - interval '1 minute')`)
})
afterAll(async () => {
  await session?.close()
  await database?.drop()
})

const short = ({ team, cause, stream }: AlertRow) => `${team} ${cause} ${stream}`.trim()

test('alerts are read from the oldest to the newest, those of the same time by team, cause and stream; from other teams only alerts about waiting slices', async () => {
  const rows = await readAlerts(session.db, ['south', 'north'])
  expect(rows.map(short)).toEqual([
    'south verify_failed forms',
    'elsewhere slices_waiting',
    ...['north drift forms', 'north drift packets', 'north inbox_old'],
    ...['south defect', 'south drift forms'],
    'north dead_letters forms',
  ])
  expect(rows.filter(({ cleared_at }) => cleared_at !== null).map(short)).toEqual(['north drift packets'])
  expect(rows.filter(({ is_due }) => !is_due).map(short)).toEqual(['north inbox_old'])
  expect((await readAlerts(session.db, [])).map(short)).toEqual(['elsewhere slices_waiting'])
})

test('raised alerts of every team are counted by team and cause, including causes that only newer versions know', async () => {
  const counts = (await countRaised(session.db)).map(({ team, cause, count }) => `${team} ${cause} ${count}`)
  expect(counts.toSorted()).toEqual([
    ...['elsewhere drift 1', 'elsewhere slices_waiting 1'],
    ...['north dead_letters 1', 'north drift 1', 'north inbox_old 1', 'north of_a_newer_version 1'],
    ...['south defect 1', 'south drift 1', 'south verify_failed 1'],
  ])
})

test('a post is tried again after half a minute, twice as long after each failure, and half an hour at most', async () => {
  const rows = (await readAlerts(session.db, ['south', 'north'])).filter(({ team }) => team === 'north')
  const { client, db } = session
  // The time of a transaction stands still.
  await client.query('begin')
  const waits: unknown[] = []
  for (let failures = 0; failures < 8; failures += 1) {
    await recordFailure(db, rows)
    const { rows: stored } = await client.query(
      `select concat_ws(' ', cause, stream, attempts, extract(epoch from due_at - now())::int) as line
       from intake_ops.alerts where team_id = 2 order by 1`,
    )
    waits.push(stored.map(({ line }) => line))
  }
  const { rows: others } = await client.query<{ count: number }>(
    'select count(*)::int as count from intake_ops.alerts where due_at > now() and team_id <> 2',
  )
  await client.query('rollback')
  const seconds = [30, 60, 120, 240, 480, 960, 1_800, 1_800, 1_800, 1_800, 1_800, 1_800, 1_800, 1_800]
  const after = (attempts: number) => `${attempts} ${seconds[attempts - 1]}`
  expect(waits).toEqual(
    [1, 2, 3, 4, 5, 6, 7, 8].map((more) => [
      ...[`dead_letters forms ${after(more)}`, `drift forms ${after(more + 1)}`],
      ...[`drift packets ${after(more + 6)}`, `inbox_old  ${after(more + 5)}`],
      'of_a_newer_version  0 -60',
    ]),
  )
  expect(others).toEqual([{ count: 0 }])
})
