/** How planned runs end, or lose a stream to another run: whoever executes them, and whatever other teams and runs do. */
import { sql } from 'kysely'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { systemClock } from '../../src/core/clock.ts'
import { IntakeError } from '../../src/core/errors.ts'
import { cancelRun, stopRun } from '../../src/load/cancel-run.ts'
import { type ClaimedSlice, claimSlices, goesOn, openWorkSession } from '../../src/load/claims.ts'
import {
  cancelSlices,
  closeAbandoned,
  freeAbandoned,
  isAbandoned,
  release,
  releaseLost,
} from '../../src/load/lost-slices.ts'
import { markInterrupted, storeFailure } from '../../src/load/runs.ts'
import {
  assertOwned,
  insertRun,
  type Planning,
  plannedRunOf,
  settlePending,
  storeEnd,
} from '../../src/load/slice.ts'
import { teamIdOf } from '../../src/load/teams.ts'
import { openSession, type Session } from '../../src/warehouse/connect.ts'
import { tryLock } from '../../src/warehouse/locks.ts'
import { createTestDatabase, type TestDatabase } from '../support/database.ts'
import { rowsOf } from './loading.ts'

let database: TestDatabase
let session: Session
let [north, south] = [0, 0]
const opened: Session[] = []

beforeAll(async () => {
  database = await createTestDatabase()
  session = await openSession({ url: database.url, purpose: 'test' })
  north = await teamIdOf(session.db, 'north')
  south = await teamIdOf(session.db, 'south')
})
afterAll(async () => {
  await session.close()
  await database.drop()
})
beforeEach(() => rowsOf(session, 'delete from intake_ops.runs; delete from intake_ops.checkpoints'))
afterEach(async () => {
  for (const each of opened.splice(0)) await each.close()
  await expect
    .poll(() =>
      rowsOf(
        session,
        `select from pg_stat_activity where application_name like '%worker%' and datname = current_database()`,
      ),
    )
    .toEqual([])
})

/** A run of these streams, each as `team stream`. */
function plan(streams: readonly string[], options: object = {}, planning?: Planning): Promise<string> {
  const parts = streams.map((each) => {
    const [team, stream] = each.split(' ')
    return { teamId: team === 'north' ? north : south, stream: stream! }
  })
  return session.db.transaction().execute((db) => insertRun(db, options, {}, parts, planning))
}

/** A worker that lives until the test ends. */
async function work(worker: string, isOfRun = false) {
  const { session: own, owner } = await openWorkSession(database.url, worker, { isOfRun })
  opened.push(own)
  const claim = (most: number, teams = ['north', 'south'], kinds?: readonly string[]) =>
    claimSlices(own.db, {
      owner,
      teams,
      streams: ['forms', 'packets'],
      most,
      ...(kinds === undefined ? {} : { kinds }),
    })
  return { session: own, owner, claim }
}

const runs = () =>
  rowsOf(
    session,
    'select run_id, status, error, finished_at is not null as dated from intake_ops.runs order by 1',
  )
const states = async (runId: string) =>
  (
    await rowsOf<{ line: string }>(
      session,
      `select concat_ws(' ', coalesce(team.name, 'end'), nullif(stream, ''), state, result ->> 'note') as line
       from intake_ops.slices left join intake.teams team using (team_id) where run_id = $1 order by slice_id`,
      [runId],
    )
  ).map(({ line }) => line)
const reports = () =>
  rowsOf(
    session,
    `select run_id, team_id, stream, status, note, requests + fetched + changed + unchanged + deleted + problems as figures
     from intake_ops.run_streams order by run_id, team_id, stream`,
  )
const INTERRUPTED = { status: 'interrupted', note: 'why' } as const
const KILLED = 'the process ended before the run was complete'

describe('slices that no worker has begun', () => {
  test('are settled with a report, those of their run alone, and its end waits', async () => {
    const other = await plan(['south packets'])
    const run = await plan(['north forms', 'north packets', 'south forms'])
    const { claim } = await work('aaaaaaa1')
    const claimed = await claim(1, ['north'])
    expect(claimed).toMatchObject([{ stream: 'forms' }])
    const onlySouth = { runId: run, which: sql<boolean>`team_id = ${south}` }
    await settlePending(session.db, onlySouth, 'done', { status: 'failed', note: 'first' })
    expect(await states(run)).toEqual([
      'north forms claimed',
      'north packets pending',
      'south forms done first',
      'end pending',
    ])
    await settlePending(session.db, { runId: run }, 'canceled', INTERRUPTED)
    expect(await states(run)).toEqual([
      'north forms claimed',
      'north packets canceled why',
      'south forms done first',
      'end pending',
    ])
    expect(await states(other)).toEqual(['south packets pending', 'end pending'])
    const figures = '0'
    expect(await reports()).toEqual([
      { run_id: run, team_id: north, stream: 'packets', status: 'interrupted', note: 'why', figures },
      { run_id: run, team_id: south, stream: 'forms', status: 'failed', note: 'first', figures },
    ])
    expect(
      await rowsOf(session, `select from intake_ops.slices where settled_at is not null and run_id = $1`, [
        run,
      ]),
    ).toHaveLength(2)
  })

  test('of a verification leave no report of a backfill', async () => {
    const run = await plan(['north forms'], {}, { kind: 'verify', reserves: false })
    await settlePending(session.db, { runId: run }, 'canceled', INTERRUPTED)
    expect([await states(run), await reports()]).toEqual([['north forms canceled why', 'end pending'], []])
  })
})

test('the end of a run is stored once, with the notes of its streams in order, and what failed besides', async () => {
  const [run, plain] = [await plan(['south forms', 'north forms', 'north packets']), await plan([])]
  await rowsOf(
    session,
    `update intake_ops.slices set result = jsonb_build_object('note', case when stream = 'forms' then 'n' || team_id end)
     where team_id is not null`,
  )
  await storeEnd(session.db, run, 'failed', ['a check', 'another'])
  await storeEnd(session.db, plain, 'succeeded')
  const ended = [
    {
      run_id: run,
      status: 'failed',
      error: `south/forms: n${south}\nnorth/forms: n${north}\na check\nanother`,
      dated: true,
    },
    { run_id: plain, status: 'succeeded', error: null, dated: true },
  ]
  expect(await runs()).toEqual(ended)
  await storeEnd(session.db, run, 'succeeded')
  expect(await runs()).toEqual(ended)
})

test('a stream is reserved by the unfinished slice of its own team, not by a comparison', async () => {
  const run = await plan(['north forms'])
  await plan(['north packets'], {}, { kind: 'verify', reserves: false })
  const by = async (team: number, stream: string) => await plannedRunOf(session.db, team, stream)
  expect([await by(north, 'forms'), await by(south, 'forms'), await by(north, 'packets')]).toEqual([
    run,
    null,
    null,
  ])
  const { claim } = await work('aaaaaaa1')
  await claim(1)
  expect(await by(north, 'forms')).toBe(run)
  for (const state of ['done', 'canceled']) {
    await rowsOf(session, `update intake_ops.slices set state = '${state}' where stream = 'forms'`)
    expect(await by(north, 'forms')).toBe(null)
  }
})

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

test('a process that stops settles what it does not execute itself; without a name it ends the run', async () => {
  const other = await plan(['north packets'])
  const mine = await work('aaaaaaa1')
  const theirs = await work('aaaaaaa2')
  await theirs.claim(1)
  const run = await plan(['north forms', 'south forms', 'south packets'])
  await mine.claim(1, ['north'])
  await theirs.claim(1, ['south'])
  await stopRun(session.db, run, mine.owner)
  const note = 'stopped by a signal; the next run continues'
  expect(await states(run)).toEqual([
    'north forms claimed',
    `south forms canceled ${note}`,
    `south packets canceled ${note}`,
    'end pending',
  ])
  expect(await states(other)).toEqual(['north packets claimed', 'end pending'])
  expect((await runs())[1]).toMatchObject({ status: 'running' })
  await stopRun(session.db, run, null)
  expect(await states(run)).toEqual([
    ...[
      `north forms canceled ${note}`,
      `south forms canceled ${note}`,
      `south packets canceled ${note}`,
      'end canceled',
    ],
  ])
  expect(await runs()).toEqual([
    { run_id: other, status: 'running', error: null, dated: false },
    {
      ...{ run_id: run, status: 'interrupted', dated: true },
      error: ['north/forms', 'south/forms', 'south/packets'].map((each) => `${each}: ${note}`).join('\n'),
    },
  ])
})

test('a canceled run stays running while a worker loads a stream of it, and its other streams end', async () => {
  const run = await plan(['north forms', 'south forms'], { is_detached: true })
  const { claim } = await work('aaaaaaa1')
  await claim(1, ['north'])
  const cancel = () => cancelRun({ url: database.url, clock: systemClock, forMs: 0 }, Number(run))
  expect(await cancel()).toEqual({ status: 'running', canceled: true })
  const [{ me }] = (await rowsOf<{ me: string }>(session, 'select session_user as me')) as [{ me: string }]
  const note = `canceled by ${me}; the next run continues`
  expect(await states(run)).toEqual(['north forms claimed', `south forms canceled ${note}`, 'end pending'])
  await rowsOf(session, `update intake_ops.slices set state = 'done' where state = 'claimed'`)
  expect(await cancelRun({ url: database.url, clock: systemClock, forMs: 60_000 }, Number(run))).toEqual({
    ...{ status: 'interrupted', canceled: true },
  })
  expect(await runs()).toMatchObject([{ status: 'interrupted', error: `south/forms: ${note}`, dated: true }])
  expect(await cancel()).toEqual({ status: 'interrupted', canceled: false })
})

test('the end of a run that a worker gave back and claimed again is not settled for its first time', async () => {
  await plan([])
  const { claim, session: own } = await work('aaaaaaa1')
  const [first] = (await claim(1)) as [ClaimedSlice]
  await release(own.db, first)
  const [again] = (await claim(1)) as [ClaimedSlice]
  expect([again.sliceId, again.owner]).toEqual([first.sliceId, first.owner])
  await release(own.db, first, 1)
  expect(await rowsOf(session, 'select state, takeovers from intake_ops.slices')).toEqual([
    { state: 'claimed', takeovers: 0 },
  ])
  await release(own.db, again, 1)
  expect(
    await rowsOf(session, 'select state, owner, heartbeat_at, takeovers from intake_ops.slices'),
  ).toEqual([{ state: 'pending', owner: null, heartbeat_at: null, takeovers: 1 }])
})
