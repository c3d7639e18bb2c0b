/** Claims of slices: one worker at a time, fair over teams, and nothing stored by a worker that lost its slice. */
import { hostname } from 'node:os'
import { sql } from 'kysely'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import {
  assertClaimed,
  beat,
  type ClaimedSlice,
  claimSlices,
  openWorkSession,
  settleClaimed,
} from '../../src/load/claims.ts'
import { release, releaseLost } from '../../src/load/lost-slices.ts'
import { assertOwned, insertRun, plannedRunOf, settleSlice } from '../../src/load/slice.ts'
import { teamIdOf } from '../../src/load/teams.ts'
import { STREAMS } from '../../src/streams/catalogue.ts'
import { openSession, type Session } from '../../src/warehouse/connect.ts'
import { lockAlone, lockForSession } from '../../src/warehouse/locks.ts'
import { createTestDatabase, type TestDatabase } from '../support/database.ts'
import { rowsOf } from './loading.ts'

const streams = STREAMS.map(({ name }) => name)
const teams = ['large', 'small', 'tiny']
const spec = {
  window: { lookbackDays: 2, sweepDays: 7, full: false, since: null },
  allow_mass_delete: false,
}

let database: TestDatabase
let one: Session
let two: Session
const ids: number[] = []

beforeAll(async () => {
  database = await createTestDatabase()
  one = await openSession({ url: database.url, purpose: 'work', worker: 'aaaaaaaa' })
  two = await openSession({ url: database.url, purpose: 'work', worker: 'bbbbbbbb' })
  await lockForSession(one.db, 'worker', 'host:1:aaaaaaaa')
  await lockForSession(two.db, 'worker', 'host:2:bbbbbbbb')
  for (const name of teams) ids.push(await teamIdOf(one.db, name))
})

afterAll(async () => {
  await one.close()
  await two.close()
  await database.drop()
})

beforeEach(() => rowsOf(one, 'delete from intake_ops.runs'))

const claim = (session: Session, most: number, from: readonly string[] = teams) =>
  claimSlices(session.db, {
    owner: session === one ? 'host:1:aaaaaaaa' : 'host:2:bbbbbbbb',
    ...{ teams: from, streams, most },
  })

/** Plans a run with so many streams of each team. */
function plan(...counts: readonly number[]): Promise<string> {
  const parts = counts.flatMap((count, at) =>
    streams.slice(0, count).map((stream) => ({ teamId: ids[at]!, stream })),
  )
  return one.db.transaction().execute((db) => insertRun(db, {}, spec, parts))
}

const nameOf = (slice: ClaimedSlice) => (slice.kind === 'close' ? 'close' : slice.team)

async function settle(session: Session, claimed: ClaimedSlice): Promise<void> {
  await session.db.transaction().execute((db) => settleClaimed(db, claimed, 'done', null))
}

/** Made-up streams, so that a team can have many slices. */
const manyStreams = (count: number) =>
  Array.from({ length: count }, (_, place) => `part ${place}` as (typeof streams)[number])

/**
 * Workers share a run of a team with 1,600 slices, planned first, and nine teams with four; each worker settles the
 * slices that it claimed one step ago, except those of the large team if `keepsLarge`. Returns how many claims there were
 * up to the last one of the nine.
 */
async function claimsUntilServed(workers: number, places: number, keepsLarge: boolean): Promise<number> {
  const names = ['large', ...Array.from({ length: 9 }, (_, place) => `small ${place}`)]
  const parts: { teamId: number; stream: (typeof streams)[number] }[] = []
  for (const name of names) {
    const teamId = await teamIdOf(one.db, name)
    for (const stream of manyStreams(name === 'large' ? 1_600 : 4)) parts.push({ teamId, stream })
  }
  await one.db.transaction().execute((db) => insertRun(db, {}, spec, parts))
  const hands = Array.from({ length: workers }, (): ClaimedSlice[] => [])
  let [claims, served, step] = [0, 0, 0]
  while (served < 36 && claims < 100) {
    // Not always the same worker first.
    for (let turn = 0; turn < workers; turn++) {
      const own = (turn * 2 + step) % workers
      const kept = hands[own]!.filter((slice) => keepsLarge && nameOf(slice) === 'large')
      for (const slice of hands[own]!) if (!kept.includes(slice)) await settle(one, slice)
      const claimed = await claimSlices(one.db, {
        ...{
          owner: 'host:1:aaaaaaaa',
          teams: names,
          streams: manyStreams(1_600),
          most: places - kept.length,
        },
      })
      hands[own] = [...kept, ...claimed]
      // Within one claim the order is unknown: the last of the nine counts as the last of all.
      claims += claimed.length
      served += claimed.filter((slice) => nameOf(slice) !== 'large').length
    }
    step += 1
  }
  return claims
}

const states = () =>
  rowsOf<{ state: string; takeovers: number }>(
    one,
    'select state, takeovers from intake_ops.slices order by slice_id',
  )

describe('a claim', () => {
  it('that a worker gives back as it stops does not count as a takeover, however often that happens', async () => {
    await plan(1)
    for (let times = 0; times < 3; times += 1) {
      const [claimed] = await claim(one, 1)
      await release(one.db, claimed!)
    }
    expect(await states()).toEqual([
      { state: 'pending', takeovers: 0 },
      { state: 'pending', takeovers: 0 },
    ])
  })

  it('goes to the team with the fewest claimed, and to none with four, whoever claims', async () => {
    await plan(9, 4, 1)
    expect((await claim(one, 3)).map(nameOf).sort()).toEqual(['large', 'small', 'tiny'])
    expect((await claim(two, 4)).map(nameOf).sort()).toEqual(['large', 'large', 'small', 'small'])
    const last = await claim(one, 100)
    expect(last.map(nameOf).sort()).toEqual(['large', 'small'])
    expect(await claim(two, 100)).toEqual([])
    await settle(one, last.find((slice) => nameOf(slice) === 'large')!)
    expect((await claim(two, 100)).map(nameOf)).toEqual(['large'])
  })

  it('gives each slice to one of many workers, and the end of the run when all others are settled', async () => {
    await plan(4, 4, 4)
    const many = async (session: Session) => [...(await claim(session, 2)), ...(await claim(session, 4))]
    const [mine, others] = await Promise.all([many(one), many(two)])
    expect(new Set([...mine, ...others].map(({ sliceId }) => sliceId)).size).toBe(12)
    for (const claimed of mine) await settle(one, claimed)
    for (const claimed of others.slice(1)) await settle(two, claimed)
    expect(await claim(one, 5)).toEqual([])
    await settle(two, others[0]!)
    expect((await claim(one, 5)).map(nameOf)).toEqual(['close'])
  })

  it('for one run counts what is claimed of it, so that other work of the team does not delay it', async () => {
    await plan(4)
    expect(await claim(two, 4)).toHaveLength(4)
    const part = { teamId: ids[0]!, stream: streams[4]! }
    const runId = await one.db.transaction().execute((db) => insertRun(db, {}, spec, [part]))
    expect(await claim(two, 4)).toEqual([])
    const own = await claimSlices(one.db, { owner: 'host:1:aaaaaaaa', teams, streams, most: 4, runId })
    expect(own).toMatchObject([{ runId, stream: streams[4] }])
  })

  it('leaves slices of another source alone: other credentials, or another address', async () => {
    const parts = ['here', 'there'].map((source, at) => {
      return { teamId: ids[0]!, stream: streams[at]!, source }
    })
    await one.db.transaction().execute((db) => insertRun(db, {}, spec, parts))
    expect(await claim(one, 4)).toEqual([])
    const claiming = { owner: 'host:1:aaaaaaaa', teams, streams, most: 4 }
    expect(await claimSlices(one.db, { ...claiming, sources: ['here'] })).toMatchObject([
      { stream: streams[0] },
    ])
  })

  it('leaves slices of a kind that the worker does not know alone, with the end of their run', async () => {
    await plan(1)
    const comparing = { kind: 'verify', reserves: true } as const
    const part = { teamId: ids[1]!, stream: streams[0]! }
    await one.db.transaction().execute((db) => insertRun(db, {}, {}, [part], comparing))
    expect((await claim(one, 5)).map(nameOf)).toEqual(['large'])
    const knowing = { owner: 'host:2:bbbbbbbb', teams, streams, kinds: ['verify'], most: 5 }
    const [mine] = await claimSlices(two.db, knowing)
    expect(mine).toMatchObject({ team: 'small', work: 'verify' })
    await settle(two, mine!)
    expect(await claim(one, 5)).toEqual([])
    expect((await claimSlices(two.db, knowing)).map(nameOf)).toEqual(['close'])
    // A version from before takes every slice for one of a backfill.
    const { rows } = await sql`
      select from intake_ops.slices where spec ->> 'kind' = 'verify' and (spec ->> 'version')::int <= 1`.execute(
      one.db,
    )
    expect(rows).toEqual([])
  })

  it('of a comparison takes the stream away from nobody, and nobody takes it away from a backfill', async () => {
    await plan(1)
    const [loading] = await claim(one, 1)
    if (loading?.kind !== 'stream') throw new Error('no stream was claimed')
    const comparing = { kind: 'verify', reserves: false } as const
    const part = { teamId: ids[0]!, stream: loading.stream }
    for (const _ of ['two runs', 'of one stream'])
      await one.db.transaction().execute((db) => insertRun(db, {}, {}, [part], comparing))
    const mine = await claimSlices(two.db, {
      ...{ owner: 'host:2:bbbbbbbb', teams, streams, kinds: ['verify'], most: 5 },
    })
    expect(mine.map(nameOf)).toEqual(['large', 'large'])
    expect(mine[0]).toMatchObject({
      reserves: false,
      taken: { epoch: '0', cursor: null, takenAt: '-infinity' },
    })
    await release(two.db, mine[0]!)
    await rowsOf(
      two,
      `update intake_ops.slices set owner = 'host:3:cccccccc' where spec ->> 'kind' = 'verify'`,
    )
    expect(await releaseLost(two.db)).toBe(1)
    await expect(assertClaimed(two.db, mine[1]!)).rejects.toMatchObject({ code: 'slice_lost' })
    await assertOwned(one.db, loading.taken)
    await settle(one, loading)
    await rowsOf(one, `delete from intake_ops.runs where kind = 'backfill'`)
    expect(await plannedRunOf(one.db, ids[0]!, loading.stream)).toBe(null)
  })

  it('begins where the last one settled: under the next epoch, with its cursor, for the run and the time of the claim', async () => {
    const stored = () =>
      rowsOf<Record<string, unknown>>(
        one,
        `select owner, heartbeat_at > now() - interval '1 minute' as lives, claimed_at > now() - interval '1 minute' as claimed,
           settled_at > now() - interval '1 minute' as settled, result from intake_ops.slices order by slice_id limit 1`,
      )
    const take = async () => {
      const runId = await plan(1)
      const [claimed] = await claim(one, 1)
      if (claimed?.kind !== 'stream') throw new Error('no stream was claimed')
      return { runId, claimed }
    }
    const first = await take()
    const key = { teamId: ids[0]!, stream: streams[0], slice: '' }
    expect(first.claimed).toMatchObject({
      ...{ team: 'large', stream: streams[0], reserves: true, spec: { kind: 'stream', ...spec } },
      taken: { ...key, runId: first.runId, epoch: first.claimed.epoch },
    })
    expect(await stored()).toEqual([
      { owner: 'host:1:aaaaaaaa', lives: true, claimed: true, settled: null, result: null },
    ])
    await settleSlice(one.db, first.claimed.taken, { place: 7 })
    await one.db.transaction().execute((db) => settleClaimed(db, first.claimed, 'done', { fetched: 3 }))
    expect(await stored()).toMatchObject([
      { owner: 'host:1:aaaaaaaa', settled: true, result: { fetched: 3 } },
    ])
    await rowsOf(
      one,
      `delete from intake_ops.runs; update intake_ops.checkpoints set updated_at = '2020-01-01'`,
    )
    const { runId, claimed } = await take()
    const epoch = String(Number(first.claimed.epoch) + 1)
    expect(claimed).toMatchObject({ epoch, taken: { ...key, runId, epoch, cursor: { place: 7 } } })
    expect(new Date(claimed.taken.takenAt).getTime()).toBeGreaterThan(Date.now() - 60_000)
    expect(
      await rowsOf(
        one,
        `select run_id, updated_at > '2020-01-02' as touched from intake_ops.checkpoints where (team_id, stream, slice) = ($1, $2, '')`,
        [ids[0], streams[0]],
      ),
    ).toEqual([{ run_id: runId, touched: true }])
  })

  it('takes only slices of teams and streams that the worker knows, and of a form that it knows', async () => {
    await plan(1, 1)
    const narrow = { owner: 'host:1:aaaaaaaa', teams, streams: [streams[1]!], most: 5 }
    expect(await claimSlices(one.db, narrow)).toEqual([])
    await rowsOf(one, `update intake_ops.slices set spec = spec || '{"version": 3}' where team_id = $1`, [
      ids[1],
    ])
    expect(await claim(one, 5, ['small', 'tiny'])).toEqual([])
    expect((await claim(one, 5)).map(nameOf)).toEqual(['large'])
  })
})

describe('a team with 400 times the work of nine others, planned before them', () => {
  // A perfect round-robin serves each of ten teams four times.
  const perfect = 40
  it.each([
    [1, 1, false],
    [3, 1, false],
    [5, 2, false],
    [3, 8, false],
    [2, 8, true],
    [5, 3, true],
  ])(
    'delays their last slices to at most 1.5 times a perfect round-robin: %i workers of %i places, it keeps its slices: %s',
    async (workers, places, keepsLarge) => {
      expect(await claimsUntilServed(workers, places, keepsLarge)).toBeLessThanOrEqual(1.5 * perfect)
    },
  )
})

describe('a worker that lost its slice', () => {
  it('can neither load a batch, nor move the cursor, nor settle, nor give back what another has', async () => {
    await plan(1)
    const [mine] = await claim(one, 1)
    if (mine?.kind !== 'stream') throw new Error('no stream was claimed')
    await assertOwned(one.db, mine.taken)
    await rowsOf(two, `update intake_ops.slices set owner = 'host:3:cccccccc'`)
    expect(await releaseLost(two.db)).toBe(1)
    // Also before somebody else claims it.
    for (const _ of ['free', 'claimed']) {
      await expect(assertOwned(one.db, mine.taken)).rejects.toMatchObject({ code: 'slice_lost' })
      await expect(settleSlice(one.db, mine.taken, {})).rejects.toMatchObject({ code: 'slice_lost' })
      await expect(assertClaimed(one.db, mine)).rejects.toMatchObject({ code: 'slice_lost' })
      await expect(settle(one, mine)).rejects.toMatchObject({ code: 'slice_lost' })
      await release(one.db, mine)
      if ((await states())[0]!.state === 'pending') await claim(two, 1)
    }
    expect(await states()).toEqual([
      { state: 'claimed', takeovers: 1 },
      { state: 'pending', takeovers: 0 },
    ])
    expect([...(await beat(one.db, mine.owner, [mine.sliceId]))]).toEqual([])
    expect((await beat(two.db, 'host:2:bbbbbbbb', [mine.sliceId])).size).toBe(1)
  })

  it('loses it when it is silent although it holds its lock, and its sessions end', async () => {
    await plan(1)
    const silent = await openSession({ url: database.url, purpose: 'work', worker: 'dddddddd' })
    const loading = await openSession({ url: database.url, purpose: 'load', worker: 'dddddddd' })
    const owner = 'host:4:dddddddd'
    await lockForSession(silent.db, 'worker', owner)
    const [mine] = await claimSlices(silent.db, { owner, teams, streams, most: 1 })
    await loading.client.query('begin')
    const silence = (seconds: number) =>
      rowsOf(
        two,
        `update intake_ops.slices set heartbeat_at = now() - $1 * interval '1 second' where state = 'claimed'`,
        [seconds],
      )
    await silence(12)
    expect(await releaseLost(two.db)).toBe(0)
    await silence(15)
    expect(await releaseLost(two.db)).toBe(1)
    await expect(loading.client.query('select 1')).rejects.toThrow()
    await expect(beat(silent.db, owner, [mine!.sliceId])).rejects.toThrow()
    await Promise.all([silent.close(), loading.close()])
    expect((await claim(two, 1)).map(({ sliceId }) => sliceId)).toEqual([mine!.sliceId])
  })
})

describe('a worker that stops in the middle of a claim', () => {
  it('delays the others no longer than its session may be idle in a transaction', async () => {
    await plan(1)
    const { session: stopped } = await openWorkSession(database.url, 'eeeeeeee', { idleMs: 200 })
    await stopped.client.query('begin')
    await lockAlone(stopped.db, 'claims', 'claims')
    expect((await claim(two, 1)).map(nameOf)).toEqual(['large'])
    await expect(stopped.client.query('select 1')).rejects.toThrow()
    await stopped.close()
  })

  it('has a session that ends, or gives up a lock, before the others call it silent', async () => {
    const { session, owner } = await openWorkSession(database.url, 'ffffffff')
    const settings = await rowsOf(
      session,
      `select current_setting('idle_in_transaction_session_timeout') as idle, current_setting('lock_timeout') as lock,
         current_setting('application_name') as name`,
    )
    expect(settings).toEqual([{ idle: '8s', lock: '3s', name: 'intake-sync work worker ffffffff' }])
    expect(owner).toBe(`${hostname()}:${process.pid}:ffffffff`)
    await session.close()
  })
})

it('a caller that Postgres kept waiting calls no worker silent', async () => {
  await plan(1)
  const [mine] = await claim(one, 1)
  await rowsOf(
    two,
    `update intake_ops.slices set heartbeat_at = now() - interval '15 seconds' where state = 'claimed'`,
  )
  expect(await releaseLost(two.db, false)).toBe(0)
  expect((await beat(one.db, 'host:1:aaaaaaaa', [mine!.sliceId])).size).toBe(1)
  expect(await releaseLost(two.db)).toBe(0)
})
