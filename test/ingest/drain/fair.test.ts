/** Teams share a drain: pending events of one cost another only its part of a batch, and those of other teams nothing. */
import { afterEach, beforeEach, expect, test } from 'vitest'
import { TAKE_SHARES, takeDue } from '../../../src/ingest/drain/inbox-rows.ts'
import { teamIdOf } from '../../../src/load/teams.ts'
import { openScene, patientEvent, type Scene } from './scene.ts'

let scene: Scene
let other: number

beforeEach(async () => {
  scene = await openScene()
  other = await teamIdOf(scene.session.db, 'other')
})

afterEach(async () => {
  await scene[Symbol.asyncDispose]()
})

/** Takes a batch and gives it back; returns the number of events per team. */
async function take(most: number): Promise<readonly number[]> {
  await scene.session.client.query('begin')
  const rows = await takeDue(scene.session, [scene.teamId, other], most)
  await scene.session.client.query('rollback')
  const seqs = rows.map((row) => Number(row.seq))
  expect(seqs).toEqual([...seqs].sort((a, b) => a - b))
  return [scene.teamId, other].map((teamId) => rows.filter((row) => row.teamId === teamId).length)
}

const events = (count: number, bytes = 0) =>
  Array.from({ length: count }, (_, at) => patientEvent(`p${at}`, at, { city: 'x'.repeat(bytes) }))

test('a batch contains each team’s earliest events, and an unused share goes to the other team', async () => {
  await scene.store(events(60))
  await scene.store(events(60), { teamId: other })
  expect(await take(20)).toEqual([10, 10])
  expect(await take(200)).toEqual([60, 60])
  await scene.session.client.query('delete from intake_raw.inbox where team_id = $1 and seq % 20 <> 0', [
    other,
  ])
  expect(await take(40)).toEqual([37, 3])
})

test('large events of one team leave room for later events of another', async () => {
  await scene.store(events(6, 3_000_000))
  await scene.store(events(1), { teamId: other })
  expect(await take(1_000)).toEqual([3, 1])
})

test('a record does not conflict because later events of it wait for the next batch', async () => {
  await scene.store(Array.from({ length: 40 }, (_, at) => patientEvent('p1', at, { city: `${at}` })))
  await scene.store([patientEvent('p1', 50)], { teamId: other })
  await scene.drain({
    batch: 10,
    teams: [
      { name: 'default', teamId: scene.teamId },
      { name: 'other', teamId: other },
    ],
  })
  expect(await scene.inbox()).toEqual({ done: 41 })
  expect(await scene.asked()).toEqual([])
})

test('pending events of a team that is being removed are not touched, and those of the others are drained', async () => {
  await scene.store(events(5))
  await scene.store(events(5), { teamId: other })
  await scene.session.client.query(
    `insert into intake_ops.removed_teams (team_id, name, data) values ($1, 'other', 'kept')`,
    [other],
  )
  const teams = [
    { name: 'default', teamId: scene.teamId },
    { name: 'other', teamId: other },
  ]
  await scene.drain({ teams })
  expect(await scene.inbox()).toEqual({ done: 5, pending: 5 })
  expect(await takeDue(scene.session, [other], 10)).toEqual([])
  expect(await scene.rows('select from intake.patients where team_id = $1', [other])).toEqual([])
})

test('events are read through the index of their team, whatever statistics the planner has', async () => {
  const planOf = async () => {
    const rows = await scene.rows<{ 'QUERY PLAN': string }>(
      `explain (costs off) execute take ('{1,2}', '{0,0}', 500, 8000000)`,
    )
    return rows.map((row) => row['QUERY PLAN']).join('\n')
  }
  await scene.session.client.query('set enable_seqscan = off; set enable_bitmapscan = off')
  await scene.session.client.query(`prepare take (smallint[], bigint[], int, bigint) as ${TAKE_SHARES}`)
  await scene.session.client.query(
    `insert into intake_raw.inbox (team_id, event_id, body_hash, received_on, received_at, body)
     select n % 5, 'e' || n, sha256(n::text::bytea), '2026-01-01', now(), '' from generate_series(1, 20000) n`,
  )
  for (const known of ['nothing', 'all'] as const) {
    if (known === 'all') await scene.session.client.query('analyze intake_raw.inbox')
    for (const mode of ['force_custom_plan', 'force_generic_plan']) {
      await scene.session.client.query(`set plan_cache_mode = ${mode}`)
      const plan = await planOf()
      const [scan] = plan.split('placed')
      expect(scan, `${known} known, ${mode}`).toMatch(
        /Index Cond: \(\(team_id = \(?team\.id\)?.*\) AND \(seq > \(?team\.after\)?.*\)\)/,
      )
      expect(plan).not.toMatch(/Seq Scan|Bitmap/)
    }
  }
})
