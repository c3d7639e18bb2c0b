/** Which records of a batch have earlier events pending, and what finding that out reads. */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { overtaken } from '../../../src/ingest/drain/current.ts'
import { type InboxRow, takeDue } from '../../../src/ingest/drain/inbox-rows.ts'
import { teamIdOf } from '../../../src/load/teams.ts'
import { openSession, PLANNER, type Session } from '../../../src/warehouse/connect.ts'
import { openScene, patientEvent, type Scene } from './scene.ts'

let scene: Scene
let session: Session
let other: number
beforeAll(async () => {
  scene = await openScene()
  // Where events of a scene arrive; days have partitions.
  await scene.rows(`select intake_raw.add_inbox_day('2026-01-01', 0)`)
  session = await openSession({ url: scene.url, purpose: 'test', planner: PLANNER.drain })
  other = await teamIdOf(scene.session.db, 'other')
})
afterAll(async () => {
  await session.close()
  await scene[Symbol.asyncDispose]()
})
beforeEach(() => scene.rows('truncate intake_raw.inbox'))

async function stored(ids: readonly string[], teamId = scene.teamId): Promise<readonly InboxRow[]> {
  await scene.store(
    ids.map((id) => patientEvent(id, 1)),
    { teamId },
  )
  return await takeDue(scene.session, [teamId], 1_000)
}
const passed = async (rows: readonly InboxRow[]) => [...(await overtaken(session, rows))].sort()
const key = (id: string, teamId = scene.teamId) => `${teamId}/patient/${id}`

it('an earlier event counts, a later one and one of the batch do not', async () => {
  const rows = await stored(['a', 'b', 'a', 'c', 'b'])
  expect(await passed(rows)).toEqual([])
  expect(await passed(rows.slice(0, 1))).toEqual([])
  expect(await passed(rows.slice(1))).toEqual([key('a')])
  expect(await passed(rows.slice(3))).toEqual([key('b')])
})

it('events of other teams with the same ids do not count', async () => {
  const theirs = await stored(['a', 'b'], other)
  const mine = await stored(['a', 'b', 'b'])
  expect(await passed(mine)).toEqual([])
  expect(await passed([...theirs.slice(1), ...mine.slice(2)])).toEqual([key('b')])
  expect(await passed([...mine.slice(0, 1), ...(await stored(['a'], other)).slice(2)])).toEqual([
    key('a', other),
  ])
})

it('a record is not mistaken for another whose source and id together read the same', async () => {
  await scene.store([
    patientEvent('x/y', 1),
    patientEvent('y', 1, {}, { source: 'patient/x' }),
    patientEvent('x/y', 2),
  ])
  const rows = await takeDue(scene.session, [scene.teamId], 10)
  expect(rows).toHaveLength(3)
  expect(await passed(rows.slice(1))).toEqual([key('x/y')])
})

describe.each([18, 19])('of a record with %i later events', (later) => {
  it('an earlier event counts', async () => {
    const rows = await stored(['b', 'a', 'b', ...Array<string>(later).fill('b')])
    expect(await passed(rows.slice(0, 3))).toEqual([])
    expect(await passed(rows.slice(1, 3))).toEqual([key('b')])
  })
})

it('an earlier event that was postponed since counts, however many later ones its record has', async () => {
  const rows = await stored(Array<string>(80).fill('b'))
  await scene.rows('update intake_raw.inbox set attempts = attempts + 1 where seq = $1', [rows[0]!.seq])
  expect(await passed(rows.slice(1, 2))).toEqual([key('b')])
})

it('an earlier event that is stored under a later day counts, though only the last of the batch is later than it', async () => {
  await scene.rows(`select intake_raw.add_inbox_day('2026-01-02', 0)`)
  const [first, earlier, last] = await stored(Array<string>(80).fill('b'))
  await scene.rows(`update intake_raw.inbox set received_on = '2026-01-02' where seq = $1`, [earlier!.seq])
  expect(await passed([first!, last!])).toEqual([key('b')])
})

it('an earlier event of another day counts', async () => {
  await scene.rows(`select intake_raw.add_inbox_day('2025-12-30', 0)`)
  const [first, ...rest] = await stored(['a', 'b', 'a'])
  await scene.rows(`update intake_raw.inbox set received_on = '2025-12-30' where seq = $1`, [first!.seq])
  expect(await passed(rest)).toEqual([key('a')])
})

it('events that were settled behind an old snapshot are not read again for each batch', async () => {
  await using reader = await openSession({ url: scene.url, purpose: 'test' })
  await reader.client.query('begin isolation level repeatable read')
  await reader.client.query('select count(*) from intake.teams')
  await scene.rows(
    `insert into intake_raw.inbox (team_id, event_id, body_hash, received_on, received_at, source, record_id, body)
     select $1, 'settled ' || number, '', '2026-01-01', '2026-01-01', 'patient', 'p' || number, ''
     from generate_series(1, 2000) number`,
    [scene.teamId],
  )
  await scene.rows(`update intake_raw.inbox set status = 'done', settled_at = now()`)
  const rows = await stored(['a', 'b', 'p1'])
  await session.client.query('begin')
  const before = await entriesRead()
  expect(await passed(rows)).toEqual([])
  const read = (await entriesRead()) - before
  await session.client.query('rollback')
  expect(read).toBeGreaterThanOrEqual(3)
  expect(read).toBeLessThan(100)
})

/** Index entries of the inbox that the session has read, in this transaction and before. */
async function entriesRead(): Promise<number> {
  const { rows } = await session.client.query<{ entries: number }>(
    `select coalesce(sum(pg_stat_get_xact_tuples_returned(indexrelid)), 0)::int as entries from pg_index
     where indrelid in (select inhrelid from pg_inherits where inhparent = 'intake_raw.inbox'::regclass)`,
  )
  return rows[0]!.entries
}
