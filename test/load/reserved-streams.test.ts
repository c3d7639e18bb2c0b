/** Streams and slices of unfinished runs: who may take them from a run or a worker, and who may not. */
import { sql } from 'kysely'
import { expect, test } from 'vitest'
import { assertClaimed, beat, claimSlices, openWorkSession, settleClaimed } from '../../src/load/claims.ts'
import { cancelSlices } from '../../src/load/lost-slices.ts'
import { lockStreams } from '../../src/load/runs.ts'
import { takeSlice } from '../../src/load/slice.ts'
import { forms } from '../../src/streams/forms.ts'
import { packets } from '../../src/streams/packets.ts'
import { openSession } from '../../src/warehouse/connect.ts'
import { rowsOf, waitsForLock } from './loading.ts'
import {
  database,
  keepPlannedRuns,
  north,
  opened,
  plan,
  runs,
  session,
  south,
  states,
  work,
} from './planned-runs.ts'

keepPlannedRuns()

// Their numbers are known once the tests run.
const NORTH = () => ({ teamId: north, name: 'north' })
const SOUTH = () => ({ teamId: south, name: 'south' })

/** Locks streams of the teams as a run that begins. */
async function begin(
  streams: Parameters<typeof lockStreams>[1],
  replaces: boolean,
  teams: readonly (() => { readonly teamId: number; readonly name: string })[] = [NORTH],
) {
  const own = await openSession({ url: database.url, purpose: 'beginning' })
  opened.push(own)
  return await lockStreams(
    own,
    streams,
    teams.map((team) => team()),
    { replaces },
  )
}

test('a run that cannot have one of its streams takes none of the others from the runs that left them', async () => {
  const left = await plan(['north forms'])
  const read = await plan(['north packets'])
  const { claim } = await work('aaaaaaa1')
  await rowsOf(session, `update intake_ops.slices set state = 'canceled' where run_id = $1`, [left])
  expect(await claim(1)).toMatchObject([{ stream: 'packets' }])
  await rowsOf(session, `update intake_ops.slices set state = 'pending' where run_id = $1`, [left])
  await expect(begin([forms, packets], false)).rejects.toMatchObject({
    message: 'another run holds packets of north; nothing was started',
    hint: `wait for the other run to end, or stop it: intake-sync runs cancel ${read}`,
  })
  expect(await states(left)).toEqual(['north forms pending', 'end pending'])
  expect(await states(read)).toEqual(['north packets claimed', 'end pending'])
  await begin([forms, packets], true)
  expect(await states(left)).toEqual(['north forms canceled another run reads it', 'end pending'])
  expect(await states(read)).toEqual(['north packets canceled another run reads it', 'end pending'])
})

test('streams that a worker claims while another run begins stay with the worker, and the first run is named', async () => {
  const run = await plan(['north forms'])
  const second = await plan(['north packets'])
  const { session: own, owner } = await work('aaaaaaa1')
  await takeSlice(session.db, { teamId: north, stream: 'forms', slice: '' }, run)
  // What a run does before it takes a stream waits for this table.
  await own.client.query('begin; lock table intake_ops.checkpoints in access exclusive mode')
  const beginning = begin([forms, packets], false, [SOUTH, NORTH])
  beginning.catch(() => {})
  await waitsForLock(session, 'beginning')
  await rowsOf(
    own,
    `update intake_ops.slices set state = 'claimed', owner = $1, heartbeat_at = now() where team_id is not null`,
    [owner],
  )
  await own.client.query('commit')
  await expect(beginning).rejects.toMatchObject({
    message: 'another run holds forms of north, packets of north; nothing was started',
    hint: `wait for the other run to end, or stop it: intake-sync runs cancel ${run}`,
  })
  expect(await states(run)).toEqual(['north forms claimed', 'end pending'])
  expect(await states(second)).toEqual(['north packets claimed', 'end pending'])
  expect(await runs()).toMatchObject([run, second].map((run_id) => ({ run_id, status: 'running' })))
})

test('of several runs that have streams of several teams, each stream is named with its team, and the first run', async () => {
  const first = await plan(['south forms'], { is_detached: true })
  const second = await plan(['north packets', 'south packets'], { is_detached: true })
  const beginning = begin([forms, packets], true, [SOUTH, NORTH])
  await expect(beginning).rejects.toMatchObject({
    message: 'another run holds forms of south, packets of south, packets of north; nothing was started',
    hint: `wait for the other run to end, or stop it: intake-sync runs cancel ${first}`,
  })
  await rowsOf(session, `update intake_ops.runs set options = '{}' where run_id = $1`, [second])
  await expect(begin([forms, packets], true, [NORTH, SOUTH])).rejects.toMatchObject({
    message: 'another run holds forms of south; nothing was started',
  })
  // A refused run leaves no lock, and takes nothing.
  expect(await states(second)).toEqual(['north packets pending', 'south packets pending', 'end pending'])
  await begin([packets], true, [NORTH, SOUTH])
  expect(await states(second)).toEqual(['north packets canceled', 'south packets canceled', 'end canceled'])
})

test('a slice that its worker is just settling is taken by nobody, also one that reserves nothing', async () => {
  const run = await plan(['north forms'], {}, { kind: 'verify', reserves: false })
  const { session: own, owner } = await work('aaaaaaa1')
  const [claimed] = await claimSlices(own.db, {
    ...{ owner, teams: ['north'], streams: ['forms'], kinds: ['verify'], most: 1 },
  })
  await own.client.query('begin')
  await assertClaimed(own.db, claimed!)
  expect(await cancelSlices(session.db, run, sql`true`, 'why')).toBe(false)
  await settleClaimed(own.db, claimed!, 'done', { note: 'settled' })
  await own.client.query('commit')
  expect(await states(run)).toEqual(['north forms done settled', 'end pending'])
})

test('a worker says that it lives for the slices that it knows: one whose claim it never heard of goes to another', async () => {
  await plan(['north forms', 'south forms'])
  const { session: own, owner, claim } = await work('aaaaaaa1')
  const [known] = await claim(2)
  await rowsOf(
    session,
    `update intake_ops.slices set heartbeat_at = now() - interval '1 hour' where state = 'claimed'`,
  )
  expect([...(await beat(own.db, owner, [known!.sliceId]))]).toEqual([known!.sliceId])
  expect(
    await rowsOf(
      session,
      `select slice_id as "sliceId" from intake_ops.slices where heartbeat_at > now() - interval '1 minute'`,
    ),
  ).toEqual([{ sliceId: known!.sliceId }])
})

test('a worker whose name is taken does not begin, and leaves no session behind', async () => {
  await work('aaaaaaa1')
  await expect(openWorkSession(database.url, 'aaaaaaa1')).rejects.toMatchObject({ code: '55P03' })
  const sessions = `select from pg_stat_activity where application_name like '%worker aaaaaaa1' and datname = current_database()`
  await expect.poll(() => rowsOf(session, sessions)).toHaveLength(1)
})
