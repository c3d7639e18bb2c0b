/** The statements of a worker that claims and settles, and the slice that it gets for each row. */
import { expect, test } from 'vitest'
import {
  assertClaimed,
  beat,
  type ClaimedSlice,
  type Claiming,
  claimSlices,
  settleClaimed,
} from '../../src/load/claims.ts'
import { type Reply, scripted } from '../support/scripted.ts'

/** Statements with their values; each pattern replies with its rows. */
function asking(...replies: readonly (readonly [RegExp, Reply])[]) {
  const asked: (string | readonly [string, readonly unknown[]])[] = []
  const db = scripted((statement, values) => {
    const name = statement.replace(/^(\w+ \w+).*/, '$1')
    asked.push(values.length === 0 ? name : [name, values])
    return replies.find(([pattern]) => pattern.test(statement))?.[1] ?? []
  })
  return { db, asked }
}
const PENDING = [/^select from intake_ops.slices where state = 'pending'/, [{}]] as const
const claiming: Claiming = { owner: 'me', teams: ['north', 'south'], streams: ['forms'], most: 3 }
const row = {
  ...{ slice_id: '5', run_id: '7', team_id: 2, team: 'south', stream: 'forms', reserves: true },
  ...{ spec: { kind: 'stream', version: 1, more: true }, epoch: '9', takeovers: 1 },
  ...{ cursor: { place: 1 }, taken_at: 'noon' },
}

test('where nothing is pending, nobody waits for the lock of claims', async () => {
  const { db, asked } = asking()
  expect(await claimSlices(db, claiming)).toEqual([])
  expect(asked).toHaveLength(1)
})

test('a claim is one transaction, under the lock of all claims', async () => {
  const { db, asked } = asking(PENDING)
  expect(await claimSlices(db, claiming)).toEqual([])
  expect(asked.map((step) => (typeof step === 'string' ? step : step[0]))).toEqual([
    ...['select from', 'begin', expect.stringContaining('select'), 'with next', 'commit'],
  ])
})

/** Values of the claim without those that are always the same. */
async function valuesOf(more: Partial<Claiming>) {
  const { db, asked } = asking(PENDING)
  await claimSlices(db, { ...claiming, ...more })
  return (asked.find((step) => step[0] === 'with next') as [string, unknown[]])[1]
}

test('a worker claims slices of backfills of any run, without a source, unless it says otherwise', async () => {
  const usual = await valuesOf({})
  expect(usual).toContainEqual(['stream', 'close'])
  expect(usual).toContainEqual([])
  expect(usual).toContain(null)
  const own = await valuesOf({ kinds: ['verify'], runId: '7', sources: ['a source'] })
  const replaced = usual.map((value) => {
    if (value === null) return '7'
    if (!Array.isArray(value)) return value
    return value.length === 0 ? ['a source'] : value[0] === 'stream' ? ['verify'] : value
  })
  expect(own).toEqual(replaced)
  // Four of a team at once, and three in all.
  expect(usual.filter((value) => value === 4)).toHaveLength(3)
  expect(usual.filter((value) => value === 3)).toHaveLength(2)
})

test('a slice that reserves its stream continues at its cursor, under the epoch of the claim; another settles nothing', async () => {
  const compares = {
    ...row,
    slice_id: '6',
    reserves: false,
    spec: { kind: 'verify' },
    epoch: '2',
    takeovers: 0,
  }
  const close = { ...row, slice_id: '8', team_id: null, team: null, stream: '', spec: { kind: 'close' } }
  const { db } = asking(PENDING, [/^with next/, [row, compares, close]])
  const same = { kind: 'stream', runId: '7', owner: 'me', team: 'south', stream: 'forms' }
  const key = { teamId: 2, stream: 'forms', slice: '', runId: '7' }
  expect(await claimSlices(db, claiming)).toEqual([
    {
      ...{ ...same, work: 'stream', sliceId: '5', epoch: '9', takeovers: 1, spec: row.spec, reserves: true },
      taken: { ...key, epoch: '9', cursor: { place: 1 }, takenAt: 'noon' },
    },
    {
      ...{ ...same, work: 'verify', sliceId: '6', epoch: '2', takeovers: 0, reserves: false },
      spec: { kind: 'verify' },
      taken: { ...key, epoch: '0', cursor: null, takenAt: '-infinity' },
    },
    {
      ...{ kind: 'close', stream: '', work: 'close', sliceId: '8', runId: '7', owner: 'me' },
      ...{ epoch: '9', takeovers: 1 },
    },
  ])
})

const claimed = {
  ...{ kind: 'stream', sliceId: '5', epoch: '9', owner: 'me', stream: 'forms', reserves: true },
  taken: { teamId: 2, stream: 'forms', slice: '', epoch: '9' },
} as unknown as ClaimedSlice
const OURS = ['select from', ['5', '9', 'me']]
const CHECKPOINT = [/^select "epoch" from "intake_ops"."checkpoints"/, [{ epoch: '9' }]] as const
const ROW = [/^select from intake_ops.slices where slice_id/, [{}]] as const

test('a slice is settled with its report once its row, and its checkpoint if it reserves its stream, are still its own', async () => {
  const { db, asked } = asking(ROW, CHECKPOINT)
  await settleClaimed(db, claimed, 'done', { changed: 1 })
  expect(asked).toEqual([
    OURS,
    [expect.any(String), [2, 'forms', '', '9']],
    ['update intake_ops', ['done', '{"changed":1}', '5', '9', 'me']],
  ])
  const other = asking(ROW)
  await settleClaimed(other.db, { ...claimed, reserves: false } as ClaimedSlice, 'canceled', null)
  expect(other.asked).toEqual([OURS, ['update intake_ops', ['canceled', null, '5', '9', 'me']]])
})

test('a slice whose row or checkpoint another has is lost, and nothing is settled', async () => {
  for (const replies of [[], [ROW]]) {
    const { db, asked } = asking(...replies)
    await expect(settleClaimed(db, claimed, 'done', {})).rejects.toMatchObject({ code: 'slice_lost' })
    expect(asked).toHaveLength(replies.length + 1)
  }
  const end = { ...claimed, kind: 'close', stream: '' } as unknown as ClaimedSlice
  const { db, asked } = asking(ROW)
  await assertClaimed(db, end)
  expect(asked).toHaveLength(1)
})

test('a worker hears of the slices in its hand which of them it still has', async () => {
  const { db, asked } = asking([/^update/, [{ slice_id: '5' }]])
  expect(await beat(db, 'me', ['5', '6'])).toEqual(new Set(['5']))
  expect(asked).toEqual([['update intake_ops', ['me', ['5', '6']]]])
})
