/** Each column of slices and their checkpoints, after each step that a run or a worker takes; and who claims next. */
import { sql } from 'kysely'
import { expect, test } from 'vitest'
import { systemClock } from '../../src/core/clock.ts'
import { cancelRun } from '../../src/load/cancel-run.ts'
import { beat, type ClaimedSlice, claimSlices, goesOn, settleClaimed } from '../../src/load/claims.ts'
import { cancelSlices, closeAbandoned, release, releaseLost } from '../../src/load/lost-slices.ts'
import { insertRun, settleSlice } from '../../src/load/slice.ts'
import { rowsOf } from './loading.ts'
import { database, keepPlannedRuns, north, plan, session, south, work } from './planned-runs.ts'

keepPlannedRuns()

/** `now` for a time that the step has set, `old` for one from before it. */
const age = (column: string) =>
  `case when ${column} is null then '-' when ${column} < (select min(at) from step) then 'old' else 'now' end`

/** All slices and checkpoints after the step, whose times are of five seconds ago unless it sets them. */
async function after(step: () => Promise<unknown>): Promise<readonly string[]> {
  const [{ at }] = (await rowsOf<{ at: string }>(
    session,
    `with aged as (
       update intake_ops.slices set planned_at = planned_at - interval '5 s', heartbeat_at = heartbeat_at - interval '5 s',
         claimed_at = claimed_at - interval '5 s', settled_at = settled_at - interval '5 s',
         pending_since = pending_since - interval '5 s')
     update intake_ops.checkpoints set updated_at = updated_at - interval '5 s' returning 1`,
  ).then(() => rowsOf(session, 'select clock_timestamp()::text as at'))) as [{ at: string }]
  await step()
  const lines = await rowsOf<{ line: string }>(
    session,
    `with step as (select $1::timestamptz as at)
     select format('%s %s by %s epoch %s, %s takeovers, times %s %s %s %s %s, %s', coalesce(team.name || '/' || stream, 'end'),
       state, coalesce(owner, 'nobody'), epoch, takeovers, ${age('planned_at')}, ${age('pending_since')},
       ${age('claimed_at')}, ${age('heartbeat_at')}, ${age('settled_at')}, coalesce(result::text, 'no result')) as line
     from intake_ops.slices left join intake.teams team using (team_id) order by slice_id`,
    [at],
  )
  const checkpoints = await rowsOf<{ line: string }>(
    session,
    `with step as (select $1::timestamptz as at)
     select format('checkpoint %s/%s%s epoch %s, %s, cursor %s', team.name, stream, nullif(slice, ''), epoch,
       ${age('updated_at')}, cursor) as line
     from intake_ops.checkpoints join intake.teams team using (team_id) order by team.name, stream, slice`,
    [at],
  )
  return [...lines, ...checkpoints].map(({ line }) => line.replace(/by \S+:(\w{8})/, 'by $1'))
}

test('each step of a slice changes its own columns, those of its checkpoint, and no others', async () => {
  const [a, b] = [await work('aaaaaaa1'), await work('aaaaaaa2')]
  const end = (state = 'pending by nobody epoch 0, 0 takeovers, times old old - - -') =>
    `end ${state}, no result`
  expect(await after(() => plan(['north forms', 'south forms', 'north packets']))).toEqual([
    'north/forms pending by nobody epoch 0, 0 takeovers, times now now - - -, no result',
    'south/forms pending by nobody epoch 0, 0 takeovers, times now now - - -, no result',
    'north/packets pending by nobody epoch 0, 0 takeovers, times now now - - -, no result',
    end('pending by nobody epoch 0, 0 takeovers, times now now - - -'),
  ])
  const packets = 'north/packets pending by nobody epoch 0, 0 takeovers, times old old - - -, no result'
  let [forms, others] = [] as unknown as [ClaimedSlice, ClaimedSlice]
  expect(
    await after(async () => {
      ;[forms, others] = [(await a.claim(1, ['north']))[0]!, (await b.claim(1, ['south']))[0]!]
    }),
  ).toEqual([
    'north/forms claimed by aaaaaaa1 epoch 1, 0 takeovers, times old old now now -, no result',
    'south/forms claimed by aaaaaaa2 epoch 1, 0 takeovers, times old old now now -, no result',
    ...[packets, end()],
    'checkpoint north/forms epoch 1, now, cursor ',
    'checkpoint south/forms epoch 1, now, cursor ',
  ])
  expect(await after(() => beat(session.db, forms.owner, [forms.sliceId, others.sliceId]))).toEqual([
    'north/forms claimed by aaaaaaa1 epoch 1, 0 takeovers, times old old old now -, no result',
    'south/forms claimed by aaaaaaa2 epoch 1, 0 takeovers, times old old old old -, no result',
    ...[packets, end()],
    'checkpoint north/forms epoch 1, old, cursor ',
    'checkpoint south/forms epoch 1, old, cursor ',
  ])
  const south1 = 'south/forms claimed by aaaaaaa2 epoch 1, 0 takeovers, times old old old old -, no result'
  const southAt1 = 'checkpoint south/forms epoch 1, old, cursor '
  expect(await after(() => release(session.db, forms))).toEqual([
    'north/forms pending by nobody epoch 2, 0 takeovers, times old now old - -, no result',
    ...[south1, packets, end()],
    ...['checkpoint north/forms epoch 2, old, cursor ', southAt1],
  ])
  forms = (await b.claim(1, ['north']))[0]!
  expect(await after(() => release(session.db, forms, 1))).toEqual([
    'north/forms pending by nobody epoch 4, 1 takeovers, times old now old - -, no result',
    ...[south1, packets, end()],
    ...['checkpoint north/forms epoch 4, old, cursor ', southAt1],
  ])
  forms = (await a.claim(1, ['north']))[0]!
  expect(forms).toMatchObject({ takeovers: 1, epoch: '5' })
  const gone = `update intake_ops.slices set owner = 'host:1:gone' where team_id = ${south} and state = 'claimed'`
  expect(await after(() => rowsOf(session, gone).then(() => releaseLost(session.db)))).toEqual([
    'north/forms claimed by aaaaaaa1 epoch 5, 1 takeovers, times old old old old -, no result',
    'south/forms pending by nobody epoch 2, 1 takeovers, times old now old - -, no result',
    ...[packets, end()],
    'checkpoint north/forms epoch 5, old, cursor ',
    'checkpoint south/forms epoch 2, old, cursor ',
  ])
  others = (await b.claim(1, ['south']))[0]!
  const settle = () =>
    session.db.transaction().execute(async (db) => {
      if (forms.kind === 'stream') await settleSlice(db, forms.taken, { place: 1 })
      await settleClaimed(db, forms, 'done', { fetched: 3 })
      await settleClaimed(db, others, 'canceled', null)
    })
  const settled = [
    'north/forms done by aaaaaaa1 epoch 5, 1 takeovers, times old old old old now, {"fetched": 3}',
    'south/forms canceled by aaaaaaa2 epoch 3, 1 takeovers, times old old old old now, no result',
    ...[packets, end()],
  ]
  const checkpoints = ['checkpoint south/forms epoch 3, old, cursor ']
  expect(await after(settle)).toEqual([
    ...settled,
    ...['checkpoint north/forms epoch 5, now, cursor {"place": 1}', ...checkpoints],
  ])
  // A settled slice is in no hand.
  const late = () => beat(session.db, forms.owner, [forms.sliceId])
  expect([...(await late())]).toEqual([])
  const done = [
    settled[0]!.replace('now', 'old'),
    settled[1]!.replace('now', 'old'),
    ...['checkpoint north/forms epoch 5, old, cursor {"place": 1}', ...checkpoints],
  ]
  expect(await after(late)).toEqual([...done.slice(0, 2), packets, end(), ...done.slice(2)])
  // Neither is the end of the run, which has no checkpoint.
  await rowsOf(session, `update intake_ops.slices set state = 'canceled' where stream = 'packets'`)
  const [closing] = (await b.claim(1)) as [ClaimedSlice]
  const last = async (step: () => Promise<unknown>) =>
    (await after(step)).filter((line) => line.startsWith('end'))
  expect(await last(() => release(session.db, closing, 1))).toEqual([
    end('pending by nobody epoch 2, 1 takeovers, times old now old - -'),
  ])
  const [again] = (await a.claim(1)) as [ClaimedSlice]
  expect(again).toMatchObject({ kind: 'close', epoch: '3', takeovers: 1, stream: '' })
  const close = () => session.db.transaction().execute((db) => settleClaimed(db, again, 'done', null))
  expect(await last(close)).toEqual([end('done by aaaaaaa1 epoch 3, 1 takeovers, times old old old old now')])
})

test('a stream that is canceled is no takeover; a run without a process settles what nobody has, with the time', async () => {
  const run = await plan(['north forms', 'south forms'])
  const { claim } = await work('aaaaaaa1')
  await claim(2)
  const which = sql<boolean>`team_id = ${north}`
  const report = /\{.*"note": "why".*\}/
  const south1 = 'south/forms claimed by aaaaaaa1 epoch 1, 0 takeovers, times old old old old -, no result'
  const canceled = (await after(() => cancelSlices(session.db, run, which, 'why'))).map((line) =>
    line.replace(report, 'why'),
  )
  expect(canceled).toEqual([
    'north/forms canceled by nobody epoch 2, 0 takeovers, times old now old - now, why',
    south1,
    'end pending by nobody epoch 0, 0 takeovers, times old old - - -, no result',
    'checkpoint north/forms epoch 2, old, cursor ',
    'checkpoint south/forms epoch 1, old, cursor ',
  ])
  expect((await after(() => closeAbandoned(session.db, run))).slice(1, 3)).toEqual([
    south1,
    'end canceled by nobody epoch 0, 0 takeovers, times old old - - now, no result',
  ])
})

test('a run that is canceled before a worker began it settles its streams and its end, with the time', async () => {
  const run = await plan(['north forms', 'south forms'])
  await rowsOf(
    session,
    `insert into intake_ops.checkpoints (team_id, stream, slice, epoch) values ($1, 'forms', 'part', 7)`,
    [north],
  )
  const cancel = () => cancelRun({ url: database.url, clock: systemClock, forMs: 0 }, Number(run))
  const lines = (await after(cancel)).map((line) => line.replace(/\{.*/, 'a report'))
  const canceled = 'canceled by nobody epoch 0, 0 takeovers, times old old - - now'
  expect(lines).toEqual([
    ...[
      `north/forms ${canceled}, a report`,
      `south/forms ${canceled}, a report`,
      `end ${canceled}, no result`,
    ],
    'checkpoint north/formspart epoch 7, old, cursor ',
  ])
})

test('the checkpoint of a part of a stream is not that of a slice, which is of the whole', async () => {
  await plan(['north forms'])
  const { claim } = await work('aaaaaaa1')
  const [forms] = (await claim(1)) as [ClaimedSlice]
  await rowsOf(
    session,
    `insert into intake_ops.checkpoints (team_id, stream, slice, epoch) values ($1, 'forms', 'part', 7)`,
    [north],
  )
  expect((await after(() => release(session.db, forms))).slice(2)).toEqual([
    'checkpoint north/forms epoch 2, old, cursor ',
    'checkpoint north/formspart epoch 7, old, cursor ',
  ])
})

test('a run is executed while a worker lives and its last stream is claimed, not only while one waits', async () => {
  const run = await plan(['north forms'])
  const { claim } = await work('aaaaaaa1')
  await claim(1)
  await rowsOf(session, `delete from intake_ops.slices where stream = ''`)
  expect(await goesOn(session.db, run)).toBe(true)
})

test('each kind of run is planned with its slices in their order, each as that version of a worker reads it', async () => {
  const parts = [
    { teamId: south, stream: 'packets', source: 'here' },
    { teamId: north, stream: 'forms' },
  ]
  const spec = { repair: true }
  const planned = async (planning?: Parameters<typeof insertRun>[4]) => {
    const runId = await session.db
      .transaction()
      .execute((db) => insertRun(db, { full: true }, spec, parts, planning))
    return await rowsOf(
      session,
      `select kind, options, status, error, team_id as team, stream, reserves, spec
       from intake_ops.runs join intake_ops.slices using (run_id) where run_id = $1 order by slice_id`,
      [runId],
    )
  }
  const rows = (kind: string, version: number, [each, closing]: readonly string[], reserves: boolean) => {
    const run = { kind, options: { full: true }, status: 'running', error: null }
    const own = { ...spec, version, kind: each }
    return [
      { ...run, team: south, stream: 'packets', reserves, spec: { ...own, source: 'here' } },
      { ...run, team: north, stream: 'forms', reserves, spec: own },
      { ...run, team: null, stream: '', reserves: true, spec: { version, kind: closing } },
    ]
  }
  expect(await planned()).toEqual(rows('backfill', 1, ['stream', 'close'], true))
  await rowsOf(session, `update intake_ops.slices set state = 'done'`)
  const comparing = { kind: 'verify', reserves: false } as const
  expect(await planned(comparing)).toEqual(rows('verify', 2, ['verify', 'verify'], false))
  const replaying = { kind: 'replay', reserves: true } as const
  expect(await planned(replaying)).toEqual(rows('replay', 2, ['replay', 'replay'], true))
})

test('the end of a run comes first, and of the teams with equally few the one that waited longest has the next place', async () => {
  const over = await plan(['south packets'])
  await rowsOf(
    session,
    `update intake_ops.slices set state = 'done', claimed_at = now() where team_id is not null`,
  )
  await plan(['south packets'])
  await plan(['north forms', 'north packets', 'south forms'])
  const { claim, owner, session: own } = await work('aaaaaaa1')
  expect(await claim(1)).toMatchObject([{ kind: 'close', runId: over }])
  // South was served just now, north never.
  const claiming = { owner, teams: ['south', 'north'], streams: ['forms', 'packets'] }
  const claimed = await claimSlices(own.db, { ...claiming, most: 3 })
  const places = claimed.map((each) => `${each.kind === 'stream' && each.team} ${each.stream}`)
  expect(places.sort()).toEqual(['north forms', 'north packets', 'south packets'])
})
