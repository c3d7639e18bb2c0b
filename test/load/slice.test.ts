/** Claiming, reading and settling a slice: one key, one epoch, and no other team, stream or slice. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { StreamName } from '../../src/core/envelope.ts'
import {
  assertOwned,
  cursorOf,
  type SliceKey,
  settleSlice,
  type TakenSlice,
  takeSlice,
} from '../../src/load/slice.ts'
import { openSession, type Session } from '../../src/warehouse/connect.ts'
import { sqlstateOf } from '../../src/warehouse/sqlstate.ts'
import { createTestDatabase, type TestDatabase } from '../support/database.ts'
import { rowsOf } from './loading.ts'

let database: TestDatabase
let one: Session
let two: Session
let teamId = 0

const open = (purpose: string) => openSession({ url: database.url, purpose, lockTimeoutMs: 100 })

beforeAll(async () => {
  database = await createTestDatabase()
  one = await open('one')
  two = await open('two')
})

afterAll(async () => {
  await one.close()
  await two.close()
  await database.drop()
})

beforeEach(() => {
  teamId += 2
})

const key = (over: Partial<SliceKey> = {}): SliceKey => ({ teamId, stream: 'patients', slice: '', ...over })

/** The keys that differ from `key()` in one part each. */
const neighbours = (): readonly SliceKey[] => [
  key({ teamId: teamId + 1 }),
  key({ stream: 'forms' as StreamName }),
  key({ slice: 'a' }),
]

/** All checkpoints, with the transaction that wrote each. */
const checkpoints = () =>
  rowsOf(
    one,
    `select xmin::text, team_id, stream, slice, epoch, cursor, run_id, updated_at::text
     from intake_ops.checkpoints where team_id in ($1, $1 + 1) order by team_id, stream, slice`,
    [teamId],
  )

const lost = { code: 'slice_lost', verdict: 'stop' }

describe('claiming', () => {
  test('a slice for the first time creates its checkpoint: epoch one, no cursor', async () => {
    const taken = await takeSlice(one.db, key({ slice: 's' }), '7')
    expect(taken).toEqual({
      ...key({ slice: 's' }),
      epoch: '1',
      runId: '7',
      cursor: null,
      takenAt: taken.takenAt,
    })
    expect(await checkpoints()).toMatchObject([
      { team_id: teamId, stream: 'patients', slice: 's', epoch: '1', cursor: null, run_id: '7' },
    ])
  })

  test('it again raises the epoch by one, stores the new run, and returns the settled cursor', async () => {
    const first = await takeSlice(one.db, key(), '7')
    await settleSlice(one.db, first, { newest: '2026', deep: [1] })
    await rowsOf(one, `update intake_ops.checkpoints set updated_at = '2020-01-01' where team_id = $1`, [
      teamId,
    ])
    const second = await takeSlice(two.db, key(), '8')
    expect(second).toMatchObject({ ...key(), epoch: '2', runId: '8', cursor: { newest: '2026', deep: [1] } })
    const [row] = await checkpoints()
    expect(row).toMatchObject({ epoch: '2', run_id: '8', cursor: { newest: '2026', deep: [1] } })
    expect(row!.updated_at).not.toMatch(/^2020/)
    expect(await takeSlice(one.db, key(), '8')).toMatchObject({ epoch: '3', runId: '8' })
  })

  test('it changes no other team, stream or slice', async () => {
    for (const each of neighbours())
      await settleSlice(one.db, await takeSlice(one.db, each, '1'), { of: each.slice })
    const before = await checkpoints()
    const taken = await takeSlice(one.db, key(), '2')
    expect(taken).toMatchObject({ epoch: '1', cursor: null })
    const own = (row: Record<string, unknown>) =>
      row.team_id === teamId && row.stream === 'patients' && row.slice === ''
    expect((await checkpoints()).filter((row) => !own(row))).toEqual(before)
  })

  test('it sets the time on the clock of the warehouse, first and again', async () => {
    for (let nth = 0; nth < 2; nth++) {
      await one.client.query('begin')
      const [began] = await rowsOf<{ at: string }>(one, 'select now()::text as at')
      const { takenAt } = await takeSlice(one.db, key(), '1')
      await one.client.query('commit')
      expect(takenAt).toBe(began!.at)
    }
  })
})

describe('reading the cursor', () => {
  test('claims nothing: the epoch and the worker stay', async () => {
    const taken = await takeSlice(one.db, key(), '1')
    expect(await cursorOf(two.db, key())).toBeNull()
    await settleSlice(one.db, taken, { place: 1 })
    const before = await checkpoints()
    expect(await cursorOf(two.db, key())).toEqual({ place: 1 })
    expect(await checkpoints()).toEqual(before)
  })

  test('returns null for a slice that was never claimed, whatever other teams, streams and slices have', async () => {
    for (const each of neighbours())
      await settleSlice(one.db, await takeSlice(one.db, each, '1'), { place: 1 })
    expect(await cursorOf(one.db, key())).toBeNull()
    for (const each of neighbours()) expect(await cursorOf(one.db, each)).toEqual({ place: 1 })
  })
})

/** Slices that resemble `taken` without being it. */
const strangers = (taken: TakenSlice): readonly TakenSlice[] => [
  ...neighbours().map((each) => ({ ...taken, ...each })),
  { ...taken, epoch: String(Number(taken.epoch) - 1) },
  { ...taken, epoch: String(Number(taken.epoch) + 1) },
]

describe('a slice is owned', () => {
  test('only with its own team, stream, slice and epoch', async () => {
    await takeSlice(one.db, key(), '1')
    const taken = await takeSlice(one.db, key(), '2')
    await assertOwned(one.db, taken)
    for (const each of strangers(taken)) await expect(assertOwned(one.db, each)).rejects.toMatchObject(lost)
  })

  test('for several transactions of its worker at once, while no other can claim it', async () => {
    const taken = await takeSlice(one.db, key(), '1')
    await one.client.query('begin')
    await assertOwned(one.db, taken)
    await two.client.query('begin')
    await assertOwned(two.db, taken)
    await two.client.query('commit')
    const error = await takeSlice(two.db, key(), '2').catch(sqlstateOf)
    await one.client.query('commit')
    expect(error).toBe('55P03')
    expect(await takeSlice(two.db, key(), '2')).toMatchObject({ epoch: '2' })
  })

  test('no longer once it is lost; the error names the stream and the hint, and no more', async () => {
    const taken = await takeSlice(one.db, key(), '1')
    await takeSlice(two.db, key(), '2')
    await expect(assertOwned(one.db, taken)).rejects.toMatchObject({
      ...lost,
      message: 'another worker has taken over patients; this one changed nothing more',
      hint: 'nothing is wrong with the data; let the other run finish',
    })
  })
})

describe('settling', () => {
  test('moves the cursor of its own slice, sets the time, and touches no other', async () => {
    for (const each of neighbours()) await takeSlice(one.db, each, '1')
    const taken = await takeSlice(one.db, key(), '1')
    await rowsOf(one, `update intake_ops.checkpoints set updated_at = '2020-01-01' where team_id = $1`, [
      teamId,
    ])
    const before = await checkpoints()
    const scans = () =>
      rowsOf(
        one,
        'select team_id, stream from intake_ops.scans where team_id in ($1, $1 + 1) order by 1, 2',
        [teamId],
      )
    await rowsOf(
      one,
      `insert into intake_ops.scans (team_id, stream, request, started_at, began_at, first_page, pages)
       select team, stream, '', now(), now(), '{}', 0
       from unnest(array[$1::int, $1 + 1]) as team, unnest(array['forms', 'patients']) as stream`,
      [teamId],
    )
    await expect(settleSlice(one.db, { ...taken, epoch: '99' }, {})).rejects.toMatchObject(lost)
    expect(await scans()).toHaveLength(4)
    await settleSlice(one.db, taken, { newest: null, steady: true })
    // How far the scan had come is forgotten, that of others is not.
    expect(await scans()).toEqual([
      { team_id: teamId, stream: 'forms' },
      { team_id: teamId + 1, stream: 'forms' },
      { team_id: teamId + 1, stream: 'patients' },
    ])
    const changed = (await checkpoints()).filter((row) => !before.some(({ xmin }) => xmin === row.xmin))
    expect(changed).toMatchObject([
      { ...{ team_id: teamId, stream: 'patients', slice: '' }, cursor: { newest: null, steady: true } },
    ])
    expect(changed[0]).toMatchObject({ epoch: '1', run_id: '1' })
    expect(changed[0]!.updated_at).not.toMatch(/^2020/)
  })

  test('fails, and moves nothing, for a slice that is not owned', async () => {
    await takeSlice(one.db, key(), '1')
    const taken = await takeSlice(one.db, key(), '2')
    const before = await checkpoints()
    for (const each of strangers(taken)) {
      await expect(settleSlice(one.db, each, { place: 9 })).rejects.toMatchObject(lost)
    }
    expect(await checkpoints()).toEqual(before)
  })

  test('is rolled back with its transaction', async () => {
    const taken = await takeSlice(one.db, key(), '1')
    await one.client.query('begin')
    await settleSlice(one.db, taken, { place: 1 })
    await one.client.query('rollback')
    expect(await cursorOf(one.db, key())).toBeNull()
  })

  test('may be repeated by the same worker: the last cursor replaces the whole value', async () => {
    const taken = await takeSlice(one.db, key(), '1')
    await settleSlice(one.db, taken, { place: 1 })
    await settleSlice(one.db, taken, { newest: null })
    expect(await cursorOf(one.db, key())).toEqual({ newest: null })
  })
})
