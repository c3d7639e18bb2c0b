/** Workers that claim at the same time, and what one of them gets in one claim. */
import { expect, test } from 'vitest'
import { type ClaimedSlice, claimSlices } from '../../src/load/claims.ts'
import { lockAlone } from '../../src/warehouse/locks.ts'
import { rowsOf, waitsForLock } from './loading.ts'
import { keepPlannedRuns, north, plan, session, south, work } from './planned-runs.ts'

keepPlannedRuns()

const nameOf = (slice: ClaimedSlice) => `${slice.kind === 'stream' ? slice.team : 'end'} ${slice.stream}`

test('claims take turns: one begins when the one before it has ended, so that their counts of what a team has are right', async () => {
  await plan(['north forms'])
  const [one, other] = [await work('aaaaaaa1'), await work('aaaaaaa2')]
  await other.session.client.query('begin')
  await lockAlone(other.session.db, 'claims', 'claims')
  const claiming = one.claim(1)
  await waitsForLock(session, 'work worker aaaaaaa1')
  // Whoever has nothing to claim does not wait for its turn.
  await rowsOf(session, `update intake_ops.slices set state = 'canceled'`)
  const { claim: idle } = await work('aaaaaaa3')
  expect(await idle(1)).toEqual([])
  await rowsOf(session, `update intake_ops.slices set state = 'pending'`)
  await other.session.client.query('commit')
  expect((await claiming).map(nameOf)).toEqual(['north forms'])
})

test('the only free place goes to a team that was never served, before one that waits since it was', async () => {
  await plan(['south packets', 'south forms', 'north forms', 'north packets'])
  await rowsOf(
    session,
    `insert into intake_ops.slices (run_id, team_id, stream, spec, state, claimed_at)
     select run_id, $1, 'patients', '{}', 'done', now() - interval '1 day' from intake_ops.runs`,
    [south],
  )
  const { claim } = await work('aaaaaaa1')
  expect((await claim(1)).map(nameOf)).toEqual(['north forms'])
  // Now south has fewer; then both have as many, and south has waited longer.
  expect((await claim(2)).map(nameOf).sort()).toEqual(['south forms', 'south packets'])
  expect((await claim(9)).map(nameOf)).toEqual(['north packets'])
})

test('a comparison that is claimed together with a backfill of its stream keeps an epoch of its own', async () => {
  await rowsOf(
    session,
    `insert into intake_ops.checkpoints (team_id, stream, slice, epoch, cursor) values ($1, 'forms', '', 7, '{"place": 1}')`,
    [north],
  )
  const loads = await plan(['north forms'])
  const compares = await plan(['north forms'], {}, { kind: 'verify', reserves: false })
  const { session: own, owner } = await work('aaaaaaa1')
  const claimed = await claimSlices(own.db, {
    ...{ owner, teams: ['north'], streams: ['forms'], kinds: ['stream', 'verify'], most: 2 },
  })
  const key = { teamId: north, stream: 'forms', slice: '' }
  const same = {
    kind: 'stream',
    owner,
    takeovers: 0,
    team: 'north',
    stream: 'forms',
    sliceId: expect.any(String),
  }
  const [load, comparison] = [...claimed].sort((a, b) => Number(a.runId) - Number(b.runId))
  expect(load).toEqual({
    ...{
      ...same,
      runId: loads,
      work: 'stream',
      epoch: '8',
      reserves: true,
      spec: { kind: 'stream', version: 1 },
    },
    taken: { ...key, epoch: '8', runId: loads, cursor: { place: 1 }, takenAt: expect.any(String) },
  })
  expect(comparison).toEqual({
    ...{ ...same, runId: compares, work: 'verify', epoch: '1', reserves: false },
    spec: { kind: 'verify', version: 2 },
    taken: { ...key, epoch: '0', runId: compares, cursor: null, takenAt: '-infinity' },
  })
})
