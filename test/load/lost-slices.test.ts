/** Planned runs whose process is gone: who may take a stream from them, and when they end. */
import { setTimeout as sleep } from 'node:timers/promises'
import { sql } from 'kysely'
import { describe, expect, test } from 'vitest'
import { IntakeError } from '../../src/core/errors.ts'
import { goesOn } from '../../src/load/claims.ts'
import {
  cancelSlices,
  closeAbandoned,
  freeAbandoned,
  isAbandoned,
  release,
  releaseLost,
} from '../../src/load/lost-slices.ts'
import { markInterrupted, storeFailure } from '../../src/load/runs.ts'
import { assertOwned, storeEnd } from '../../src/load/slice.ts'
import { openSession } from '../../src/warehouse/connect.ts'
import { tryLock } from '../../src/warehouse/locks.ts'
import { rowsOf } from './loading.ts'
import {
  database,
  keepPlannedRuns,
  north,
  opened,
  plan,
  reports,
  runs,
  session,
  states,
  work,
} from './planned-runs.ts'

keepPlannedRuns()

const KILLED = 'the process ended before the run was complete'

describe('a stream of a run', () => {
  const place = (runId: string) => ({ runId, teamId: north, stream: 'forms' })
  const abandoned = async (runId: string) => [
    await isAbandoned(session.db, place(runId), false),
    await isAbandoned(session.db, place(runId), true),
  ]

  test('is abandoned once its process ended and no living worker has it; a run that replaces it may take it then too', async () => {
    const run = await plan(['north forms', 'south forms'])
    expect(await abandoned(run)).toEqual([true, true])
    const worker = await work('aaaaaaa1')
    // The same stream of another team does not count.
    expect(await worker.claim(1, ['south'])).toHaveLength(1)
    expect(await abandoned(run)).toEqual([true, true])
    expect(await worker.claim(1, ['north'])).toHaveLength(1)
    expect(await abandoned(run)).toEqual([false, true])
    await rowsOf(session, `update intake_ops.slices set owner = 'host:1:gone' where team_id = $1`, [north])
    expect(await abandoned(run)).toEqual([true, true])
    const process = await openSession({ url: database.url, purpose: 'test' })
    opened.push(process)
    expect(await tryLock(process, 'run', run)).toBe(true)
    expect(await abandoned(run)).toEqual([false, false])
  })

  test('is never abandoned where the run is detached', async () => {
    expect(await abandoned(await plan(['north forms'], { is_detached: true }))).toEqual([false, false])
  })

  test('is taken from a run that workers continue, which keeps its other streams', async () => {
    const other = await plan(['south packets'])
    const { claim } = await work('aaaaaaa1')
    await claim(1)
    const run = await plan(['north forms', 'north packets', 'south forms'])
    await claim(1, ['north'])
    await rowsOf(
      session,
      `update intake_ops.slices set heartbeat_at = now() - interval '1 minute' where state = 'claimed'`,
    )
    expect(await freeAbandoned(session, place(run), false)).toBe(false)
    expect(await freeAbandoned(session, place(run), true)).toBe(true)
    expect(await states(run)).toEqual([
      'north forms canceled another run reads it',
      ...['north packets pending', 'south forms pending', 'end pending'],
    ])
    expect(await states(other)).toEqual(['south packets claimed', 'end pending'])
    expect(await runs()).toMatchObject([{ status: 'running' }, { status: 'running' }])
    expect(await reports()).toMatchObject([{ team_id: north, stream: 'forms', status: 'interrupted' }])
  })

  test('is taken from a run that nobody continues, which ends', async () => {
    const run = await plan(['north forms', 'south forms'])
    expect(await goesOn(session.db, run)).toBe(false)
    expect(await freeAbandoned(session, place(run), false)).toBe(true)
    expect(await runs()).toEqual([{ run_id: run, status: 'interrupted', error: KILLED, dated: false }])
    expect(await states(run)).toEqual(['north forms canceled', 'south forms canceled', 'end canceled'])
  })
})

describe('a run that its process leaves', () => {
  test('ends if no worker has a slice of it, with the reason and the time if these are known; others do not', async () => {
    const [other, killed, failed, over] = [
      await plan(['south packets']),
      await plan(['north forms']),
      await plan(['south forms']),
      await plan([]),
    ]
    await storeEnd(session.db, over, 'succeeded')
    expect(await closeAbandoned(session.db, killed)).toBe(true)
    expect(await closeAbandoned(session.db, failed, { status: 'failed', error: 'no disk' })).toBe(true)
    expect(await closeAbandoned(session.db, over)).toBe(true)
    expect(await runs()).toEqual([
      { run_id: other, status: 'running', error: null, dated: false },
      { run_id: killed, status: 'interrupted', error: KILLED, dated: false },
      { run_id: failed, status: 'failed', error: 'no disk', dated: true },
      { run_id: over, status: 'succeeded', error: null, dated: true },
    ])
    expect(await states(other)).toEqual(['south packets pending', 'end pending'])
  })

  test('goes on while workers have a stream of it, or close it', async () => {
    const run = await plan(['north forms', 'south forms'])
    const { claim } = await work('aaaaaaa1')
    const [claimed] = await claim(1, ['north'])
    // Postgres may have kept both waiting, so that silence means nothing here.
    await rowsOf(
      session,
      `update intake_ops.slices set heartbeat_at = now() - interval '1 minute' where state = 'claimed'`,
    )
    expect(await closeAbandoned(session.db, run)).toBe(false)
    expect(await states(run)).toEqual(['north forms claimed', 'south forms canceled', 'end canceled'])
    await rowsOf(session, `update intake_ops.slices set state = 'done' where slice_id = $1`, [
      claimed!.sliceId,
    ])
    await rowsOf(session, `update intake_ops.slices set state = 'pending' where stream = ''`)
    expect(await claim(1)).toMatchObject([{ kind: 'close' }])
    expect(await closeAbandoned(session.db, run)).toBe(true)
    expect(await runs()).toMatchObject([{ status: 'running' }])
  })

  test('ends also if a worker that is gone had a stream of it', async () => {
    const run = await plan(['north forms', 'south forms'])
    const { claim } = await work('aaaaaaa1')
    await claim(1)
    await rowsOf(session, `update intake_ops.slices set owner = 'host:1:gone' where state = 'claimed'`)
    expect(await closeAbandoned(session.db, run)).toBe(true)
    expect(await states(run)).toEqual(['north forms canceled', 'south forms canceled', 'end canceled'])
    expect(await runs()).toMatchObject([{ status: 'interrupted' }])
  })

  test('is executed by workers if it is detached, or any worker lives, even one that executes nothing of it', async () => {
    const [detached, left] = [await plan(['north forms'], { is_detached: true }), await plan(['south forms'])]
    const both = async () => [await goesOn(session.db, detached), await goesOn(session.db, left)]
    const elsewhere = new URL(database.url)
    elsewhere.pathname = '/postgres'
    opened.push(await openSession({ url: elsewhere.href, purpose: 'work', worker: 'eeeeeee1' }))
    // One that executes a run of its own, and one of another database, are none.
    await work('aaaaaaa1', true)
    expect(await both()).toEqual([true, false])
    await work('aaaaaaa2')
    expect(await both()).toEqual([true, true])
    await rowsOf(session, `update intake_ops.slices set state = 'done'`)
    expect(await both()).toEqual([false, false])
  })

  test('and that failed says why, with the hint, unless workers continue it', async () => {
    const failure = new IntakeError('no disk', { code: 'internal', verdict: 'stop', hint: 'make room' })
    const [detached, left] = [await plan(['north forms'], { is_detached: true }), await plan(['south forms'])]
    for (const run of [detached, left]) await storeFailure(database.url, run, 'failed', failure)
    expect(await runs()).toEqual([
      { run_id: detached, status: 'running', error: null, dated: false },
      { run_id: left, status: 'failed', error: 'no disk — make room', dated: true },
    ])
    await storeFailure(
      database.url,
      detached,
      'interrupted',
      new IntakeError('stopped', { code: 'internal', verdict: 'stop' }),
    )
    expect((await runs())[0]).toEqual({
      run_id: detached,
      status: 'interrupted',
      error: 'stopped',
      dated: true,
    })
  })

  test('and that failed ends although Postgres still has the session on which it read a stream', async () => {
    const run = await plan(['north forms', 'south forms'])
    const { claim } = await work('aaaaaaa1', true)
    await claim(1, ['north'])
    const failure = new IntakeError('no disk', { code: 'internal', verdict: 'stop' })
    await storeFailure(database.url, run, 'failed', failure)
    expect(await runs()).toEqual([{ run_id: run, status: 'failed', error: 'no disk', dated: true }])
    expect(await states(run)).toEqual([
      'north forms canceled no disk',
      'south forms canceled',
      'end canceled',
    ])
  })

  test('is marked by the next run, but not a detached one, nor one whose process lives', async () => {
    const [detached, lives, left] = [
      await plan(['north forms'], { is_detached: true }),
      await plan(['south forms']),
      await plan([]),
    ]
    const process = await openSession({ url: database.url, purpose: 'test' })
    opened.push(process)
    await tryLock(process, 'run', lives)
    await markInterrupted(session)
    expect(await runs()).toMatchObject([
      { run_id: detached, status: 'running' },
      { run_id: lives, status: 'running' },
      { run_id: left, status: 'interrupted' },
    ])
    // Its lock is free again.
    expect(await tryLock(process, 'run', left)).toBe(true)
  })
})

test('a stream whose worker is just committing a batch is free for another run after that', async () => {
  const other = await plan(['south packets'])
  const run = await plan(['north forms'])
  const { session: own, claim } = await work('aaaaaaa1')
  const claimed = (await claim(2)).find(({ runId }) => runId === run)
  if (claimed?.kind !== 'stream') throw new Error('no stream was claimed')
  await own.client.query('begin')
  await assertOwned(own.db, claimed.taken)
  let isFree = false
  const freeing = freeAbandoned(session, { runId: run, teamId: north, stream: 'forms' }, true).then(
    (free) => {
      isFree = free
    },
  )
  await sleep(250)
  expect(isFree).toBe(false)
  await own.client.query('commit')
  await freeing
  expect(isFree).toBe(true)
  expect(await states(run)).toEqual(['north forms canceled another run reads it', 'end pending'])
  expect(await states(other)).toEqual(['south packets claimed', 'end pending'])
})

test('a worker is woken when a run is planned, and when a slice is free again', async () => {
  const { session: own, claim } = await work('aaaaaaa1')
  let woken = 0
  own.client.on('notification', () => {
    woken += 1
  })
  await plan(['north forms'])
  await expect.poll(() => woken).toBe(1)
  const [claimed] = await claim(1)
  await release(own.db, claimed!)
  await expect.poll(() => woken).toBe(2)
})

test('a worker that is committing a batch keeps its slice until then, and loses it after', async () => {
  const run = await plan(['north forms'])
  const { session: own, claim } = await work('aaaaaaa1')
  const [claimed] = await claim(1)
  if (claimed?.kind !== 'stream') throw new Error('no stream was claimed')
  await own.client.query('begin')
  await assertOwned(own.db, claimed.taken)
  await rowsOf(
    session,
    `update intake_ops.slices set heartbeat_at = now() - interval '1 hour', owner = 'host:1:gone'`,
  )
  expect(await releaseLost(session.db)).toBe(0)
  expect(await cancelSlices(session.db, run, sql`true`, 'why')).toBe(false)
  expect(await states(run)).toEqual(['north forms claimed', 'end pending'])
  await own.client.query('commit')
  expect(await cancelSlices(session.db, run, sql`true`, 'why')).toBe(true)
  expect(await states(run)).toEqual(['north forms canceled why', 'end pending'])
  await expect(assertOwned(own.db, claimed.taken)).rejects.toMatchObject({ code: 'slice_lost' })
  expect(await rowsOf(session, 'select from intake_ops.slices where takeovers > 0')).toEqual([])
})
