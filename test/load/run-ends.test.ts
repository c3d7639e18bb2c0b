/** How planned runs end, whoever executes them, and whatever other runs do. */
import { sql } from 'kysely'
import { describe, expect, test } from 'vitest'
import { systemClock } from '../../src/core/clock.ts'
import { cancelRun, stopRun } from '../../src/load/cancel-run.ts'
import type { ClaimedSlice } from '../../src/load/claims.ts'
import { release } from '../../src/load/lost-slices.ts'
import { plannedRunOf, settlePending, storeEnd } from '../../src/load/slice.ts'
import { openSession } from '../../src/warehouse/connect.ts'
import { rowsOf } from './loading.ts'
import {
  database,
  keepPlannedRuns,
  north,
  plan,
  reports,
  runs,
  session,
  south,
  states,
  work,
} from './planned-runs.ts'

keepPlannedRuns()

const INTERRUPTED = { status: 'interrupted', note: 'why' } as const

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

  test('are settled without waiting for one that another session has locked, which stays as it is', async () => {
    const run = await plan(['north forms', 'north packets'])
    await using other = await openSession({ url: database.url, purpose: 'other' })
    await other.client.query('begin')
    await other.client.query(
      `select from intake_ops.slices where run_id = ${run} and stream = 'forms' for update`,
    )
    await using own = await openSession({ url: database.url, purpose: 'own', lockTimeoutMs: 1_000 })
    await settlePending(own.db, { runId: run }, 'canceled', INTERRUPTED)
    await other.client.query('rollback')
    expect(await states(run)).toEqual(['north forms pending', 'north packets canceled why', 'end pending'])
    expect(await reports()).toMatchObject([{ stream: 'packets' }])
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
  const note = `canceled by database user ${me}, with intake-sync runs cancel; the next run continues`
  expect(await states(run)).toEqual(['north forms claimed', `south forms canceled ${note}`, 'end pending'])
  await rowsOf(session, `update intake_ops.slices set state = 'done' where state = 'claimed'`)
  expect(await cancelRun({ url: database.url, clock: systemClock, forMs: 60_000 }, Number(run))).toEqual({
    ...{ status: 'interrupted', canceled: true },
  })
  expect(await runs()).toMatchObject([{ status: 'interrupted', error: `south/forms: ${note}`, dated: true }])
  expect(await cancel()).toEqual({ status: 'interrupted', canceled: false })
})

test('a stream that is canceled while its worker stands still has the figures that were stored until then', async () => {
  const run = await plan(['north forms', 'north packets', 'south forms'], { is_detached: true })
  const other = await plan(['south packets'])
  const { claim } = await work('aaaaaaa1')
  expect(await claim(2, ['north'])).toHaveLength(2)
  const counts = { requests: 12, throttled: 1, fetched: 300, changed: 250, unchanged: 50, deleted: 2 }
  await rowsOf(
    session,
    `insert into intake_ops.run_progress (run_id, team_id, stream, phase, pages, requests, throttled, fetched, counts, began_at, updated_at)
     select run, $1, 'forms', 'fetch', 1, 12, 1, 300, counts, '2026-01-01T00:00:00Z', '2026-01-01T00:00:02.5Z'
     from (values ($2::bigint, $4::jsonb), ($3, '{"fetched": 9}')) as part (run, counts)`,
    [north, run, other, JSON.stringify({ ...counts, erased: 3, deadLetters: 4, problems: 5 })],
  )
  // The clock of the worker's host was set back while it read.
  await rowsOf(
    session,
    `insert into intake_ops.run_progress (run_id, team_id, stream, phase, pages, requests, throttled, fetched, began_at, updated_at)
     values ($1, $2, 'packets', 'fetch', 0, 0, 0, 0, '2026-01-01T00:10:00Z', '2026-01-01T00:00:00Z')`,
    [run, north],
  )
  await rowsOf(
    session,
    `update intake_ops.slices set heartbeat_at = now() - interval '1 minute' where state = 'claimed'`,
  )
  expect(await cancelRun({ url: database.url, clock: systemClock, forMs: 60_000 }, Number(run))).toEqual({
    ...{ status: 'interrupted', canceled: true },
  })
  const stored = await rowsOf(
    session,
    `select team_id = $2 as north, stream, requests::int, throttled::int, fetched::int, changed::int, unchanged::int, deleted::int,
       erased::int, dead_letters::int as dead, problems::int, seconds::float8, result ->> 'note' = note as noted,
       (result ->> 'deadLetters')::int as "deadLetters", result ->> 'status' as status
     from intake_ops.run_streams join intake_ops.slices using (run_id, team_id, stream) where run_id = $1 order by slice_id`,
    [run, north],
  )
  const none = { requests: 0, throttled: 0, fetched: 0, changed: 0, unchanged: 0, deleted: 0 }
  const ended = { noted: true, status: 'interrupted' }
  expect(stored).toEqual([
    {
      ...{ ...counts, north: true, stream: 'forms', erased: 3, dead: 4, problems: 5, seconds: 2.5, ...ended },
      deadLetters: 4,
    },
    ...[
      { north: true, stream: 'packets' },
      { north: false, stream: 'forms' },
    ].map((place) => ({
      ...{ ...none, ...place, erased: 0, dead: 0, problems: 0, seconds: 0, ...ended, deadLetters: 0 },
    })),
  ])
})

test('a run that a worker is just closing is left to it', async () => {
  const run = await plan(['north forms'])
  await rowsOf(session, `update intake_ops.slices set state = 'done' where team_id is not null`)
  const { claim } = await work('aaaaaaa1')
  expect(await claim(1)).toMatchObject([{ kind: 'close' }])
  expect(await cancelRun({ url: database.url, clock: systemClock, forMs: 0 }, Number(run))).toMatchObject({
    status: 'running',
  })
  expect(await states(run)).toEqual(['north forms done', 'end claimed'])
  expect(await runs()).toMatchObject([{ status: 'running', dated: false }])
})

test('a run that is canceled ends at once where only a worker that is gone had a stream of it', async () => {
  const run = await plan(['north forms'])
  const { claim } = await work('aaaaaaa1')
  await claim(1)
  await rowsOf(session, `update intake_ops.slices set owner = 'host:1:gone' where state = 'claimed'`)
  expect(await cancelRun({ url: database.url, clock: systemClock, forMs: 5_000 }, Number(run))).toEqual({
    ...{ status: 'interrupted', canceled: true },
  })
  expect(await runs()).toMatchObject([{ status: 'interrupted', dated: true }])
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
  // It waits anew: how long nobody continues a run is counted from then.
  expect(
    await rowsOf(
      session,
      'select state, owner, heartbeat_at, takeovers, pending_since > claimed_at as anew from intake_ops.slices',
    ),
  ).toEqual([{ state: 'pending', owner: null, heartbeat_at: null, takeovers: 1, anew: true }])
})
